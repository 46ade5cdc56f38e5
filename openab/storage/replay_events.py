"""Replay events: which hand-offs a receiver has accepted, for as long as they could come again."""

from dataclasses import dataclass
from datetime import datetime

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


_RECEIVER = replay_events.c.receiver == sa.bindparam("account")
_IS_LIVE = replay_events.c.keep_until > sa.bindparam("now")
_ONE = sa.literal(1).label("one")


def _looking_up() -> sa.Executable:
    event: sa.BindParameter[str] = sa.bindparam("event")
    live = sa.select(_ONE).where(_RECEIVER, replay_events.c.event_id == event, _IS_LIVE)
    # An id whose row has run out is not used again while the history knows it.
    accepted = sa.select(_ONE).where(
        handoffs.c.account == sa.bindparam("account"),
        handoffs.c.event_id == event,
        handoffs.c.direction == Direction.IN.value,
    )
    rows = sa.select(_ONE).where(_RECEIVER, _IS_LIVE).limit(MOST_REPLAY_EVENTS).subquery()
    return sa.select(
        sa.or_(sa.exists(live), sa.exists(accepted)).label("has_event"),
        sa.select(sa.func.count()).select_from(rows).scalar_subquery().label("rows"),
    )


def _remembering() -> sa.Executable:
    made = postgresql.insert(replay_events)
    # The row may be there: it has run out and was not purged yet.
    return made.on_conflict_do_update(
        index_elements=["receiver", "event_id"], set_={"keep_until": made.excluded.keep_until}
    )


def _purging() -> sa.Executable:
    oldest = (
        sa.select(replay_events.c.event_id)
        .where(_RECEIVER, replay_events.c.keep_until <= sa.bindparam("now"))
        .order_by(replay_events.c.keep_until)
        .limit(sa.bindparam("most"))
    )
    return sa.delete(replay_events).where(_RECEIVER, replay_events.c.event_id.in_(oldest))


# Made once: to build them anew takes longer than to run them, and that behind the gate.
_LOOK_UP, _REMEMBER, _PURGE = _looking_up(), _remembering(), _purging()


async def look_up(tx: Transaction, receiver: AccountId, event_id: str, now: datetime) -> Memory:
    """What is known behind the gate, of this event and at this moment."""
    told = {"account": receiver, "event": event_id, "now": now}
    row = (await tx.execute(_LOOK_UP, told)).one()
    return Memory(has_event=bool(row.has_event), is_full=row.rows >= MOST_REPLAY_EVENTS)


async def remember(
    tx: Transaction, receiver: AccountId, event_id: str, keep_until: datetime
) -> None:
    """The event is spent until then."""
    told = {"receiver": receiver, "event_id": event_id, "keep_until": keep_until}
    await tx.execute(_REMEMBER, told)


async def purge(tx: Transaction, receiver: AccountId, now: datetime, most: int) -> None:
    """Delete up to `most` rows that have run out, the oldest first."""
    await tx.execute(_PURGE, {"account": receiver, "now": now, "most": most})
