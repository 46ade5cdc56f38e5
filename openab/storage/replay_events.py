"""Replay events: which hand-offs a receiver has accepted, for as long as they could come again."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.handoff import Direction
from openab.domain.handoff.limits import MOST_REPLAY_EVENTS
from openab.domain.ids import AccountId
from openab.storage.engine import Transaction
from openab.storage.schema import handoffs, replay_events


@dataclass(frozen=True, slots=True)
class Memory:
    """What a receiver remembers at a moment."""

    #: This event was accepted before.
    has_event: bool
    #: No room for another one.
    is_full: bool


async def look_up(tx: Transaction, receiver: AccountId, event_id: str, now: datetime) -> Memory:
    """Read behind the gate. The history is asked too: an id whose row has run out is not used again."""
    result = await tx.execute(
        sa.select(
            sa.or_(_live(receiver, event_id, now), _accepted(receiver, event_id)).label(
                "has_event"
            ),
            _count(receiver, now).label("rows"),
        )
    )
    row = result.one()
    return Memory(has_event=bool(row.has_event), is_full=row.rows >= MOST_REPLAY_EVENTS)


async def remember(
    tx: Transaction, receiver: AccountId, event_id: str, keep_until: datetime
) -> None:
    """The event is spent until then."""
    made = postgresql.insert(replay_events).values(
        receiver=receiver, event_id=event_id, keep_until=keep_until
    )
    # A row that has run out and was not purged yet.
    await tx.execute(
        made.on_conflict_do_update(
            index_elements=["receiver", "event_id"], set_={"keep_until": keep_until}
        )
    )


async def purge(tx: Transaction, receiver: AccountId, now: datetime, limit: int) -> int:
    """Delete up to `limit` rows that have run out."""
    oldest = (
        sa.select(replay_events.c.event_id)
        .where(replay_events.c.receiver == receiver, replay_events.c.keep_until <= now)
        .order_by(replay_events.c.keep_until)
        .limit(limit)
    )
    result = await tx.execute(
        sa.delete(replay_events).where(
            replay_events.c.receiver == receiver, replay_events.c.event_id.in_(oldest)
        )
    )
    return int(result.rowcount)


def _live(receiver: AccountId, event_id: str, now: datetime) -> sa.Exists:
    return sa.exists(
        sa.select(sa.literal(1)).where(
            replay_events.c.receiver == receiver,
            replay_events.c.event_id == event_id,
            replay_events.c.keep_until > now,
        )
    )


def _accepted(receiver: AccountId, event_id: str) -> sa.Exists:
    return sa.exists(
        sa.select(sa.literal(1)).where(
            handoffs.c.account == receiver,
            handoffs.c.event_id == event_id,
            handoffs.c.direction == Direction.IN.value,
        )
    )


def _count(receiver: AccountId, now: datetime) -> sa.ScalarSelect[Any]:
    live = (
        sa.select(sa.literal(1).label("one"))
        .where(replay_events.c.receiver == receiver, replay_events.c.keep_until > now)
        .limit(MOST_REPLAY_EVENTS)
    )
    return sa.select(sa.func.count()).select_from(live.subquery()).scalar_subquery()
