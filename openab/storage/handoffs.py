"""Hand-offs: which one is accepted, the history of both ends, and how fast ours are sent."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from openab.domain.handoff import (
    LIFECYCLE,
    Abandoned,
    Direction,
    Envelope,
    HandoffEvent,
    HandoffState,
    NotSent,
    Refusal,
)
from openab.domain.handoff.limits import RATE_WINDOW, REPLAY_KEPT, is_too_many, next_chance
from openab.domain.ids import AccountId, DeliveryId, MessageRef, PlatformId, TurnId
from openab.storage import handoff_gates, rate_windows, replay_events
from openab.storage.engine import Transaction
from openab.storage.ids import new_id
from openab.storage.schema import handoffs
from openab.storage.transitions import transition

#: Every so many decisions the rows that have run out are deleted, and of each kind so many at once:
#: no decision is ever long. What has run out counts for nothing, deleted or not.
_PURGE_EVERY, _PURGED = 10, 200
# Made once: to build it anew takes longer than to run it, and that behind the gate.
_INSERT = sa.insert(handoffs)


@dataclass(frozen=True, slots=True)
class Incoming:
    """An envelope that passed every static check, and the message that brought it."""

    receiver: AccountId
    envelope: Envelope
    message: MessageRef
    #: By the network's clock.
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class Handoff:
    """A hand-off as it was read: one end of it."""

    id: str
    account: AccountId
    event_id: str
    direction: Direction
    state: HandoffState
    reason: NotSent | None
    peer: PlatformId
    conversation_id: PlatformId
    message_id: PlatformId | None
    turn: TurnId | None
    delivery: DeliveryId | None
    payload: str
    expires_at: datetime
    begun_at: datetime | None
    created_at: datetime
    settled_at: datetime | None


async def accept(tx: Transaction, incoming: Incoming, turn: TurnId) -> Refusal | None:
    """Decide whether an envelope becomes `turn`, which the caller queues in this very transaction.

    None: it does, and its id and one place in its source's minute are spent. A refusal spends
    nothing. For each receiver one is decided at a time, whichever processes see it.
    """
    receiver, envelope = incoming.receiver, incoming.envelope
    passage = await handoff_gates.enter(tx, receiver)
    now = await tx.now()
    if passage % _PURGE_EVERY == 0:
        await replay_events.purge(tx, receiver, now, _PURGED)
        await rate_windows.purge(tx, receiver, now, _PURGED)
    refusal = await _refusal(tx, incoming, now)
    if refusal is None:
        keep_until = max(now + REPLAY_KEPT, _moment(envelope.expires_at))
        await replay_events.remember(tx, receiver, envelope.event_id, keep_until)
        await rate_windows.remember(
            tx, receiver, envelope.source, incoming.message.message_id, incoming.sent_at, now
        )
        await tx.execute(_INSERT, _accepted(incoming, turn, now))
    return refusal


async def _refusal(tx: Transaction, incoming: Incoming, now: datetime) -> Refusal | None:
    receiver, envelope = incoming.receiver, incoming.envelope
    if _moment(envelope.expires_at) <= now:
        # It lived when it was judged; the wait at the gate was longer.
        return Refusal.EXPIRED
    memory = await replay_events.look_up(tx, receiver, envelope.event_id, now)
    if memory.has_event:
        return Refusal.REPLAY
    if memory.is_full:
        return Refusal.REPLAY_CAPACITY
    near = await rate_windows.around(tx, receiver, envelope.source, incoming.sent_at)
    return Refusal.RATE_LIMITED if is_too_many(near, incoming.sent_at) else None


def _accepted(incoming: Incoming, turn: TurnId, now: datetime) -> dict[str, Any]:
    return {
        **_told(incoming.receiver, incoming.envelope, now),
        "direction": Direction.IN.value,
        "state": HandoffState.ACCEPTED.value,
        "peer_id": incoming.envelope.source,
        "conversation_id": incoming.message.conversation_id,
        "message_id": incoming.message.message_id,
        "turn_id": turn,
        "settled_at": now,
    }


async def owe(
    tx: Transaction, account: AccountId, envelope: Envelope, turn: TurnId, delivery: DeliveryId
) -> None:
    """One of ours is to be sent, by a delivery that is written in the same transaction."""
    values = {
        **_told(account, envelope, await tx.now()),
        "direction": Direction.OUT.value,
        "state": LIFECYCLE.initial.value,
        "peer_id": envelope.target,
        "conversation_id": envelope.origin_channel,
        "turn_id": turn,
        "delivery_id": delivery,
    }
    await tx.execute(_INSERT, values)


def _told(account: AccountId, envelope: Envelope, now: datetime) -> dict[str, Any]:
    return {
        "id": new_id(),
        "account": account,
        "event_id": envelope.event_id,
        "payload": envelope.text,
        "expires_at": _moment(envelope.expires_at),
        "created_at": now,
    }


def _moment(unix: int) -> datetime:
    return datetime.fromtimestamp(unix, UTC)


async def record(
    tx: Transaction, handoff: Handoff, event: HandoffEvent, **values: object
) -> Handoff:
    """Apply an event of the lifecycle: the only way a hand-off's state changes."""
    if isinstance(event, Abandoned):
        values["reason"] = event.reason.value
    values["settled_at"] = await tx.now()
    await transition(tx, handoffs, handoff.id, LIFECYCLE, handoff.state, event, **values)
    written = await get(tx, handoff.account, handoff.event_id, handoff.direction)
    assert written is not None
    return written


async def reissue(
    tx: Transaction, handoff: Handoff, envelope: Envelope, delivery: DeliveryId
) -> None:
    """Its message is written anew, with a later expiry and by another delivery."""
    await tx.execute(
        sa.update(handoffs)
        .where(handoffs.c.id == handoff.id)
        .values(expires_at=_moment(envelope.expires_at), delivery_id=delivery)
    )


async def begin(tx: Transaction, handoff: Handoff) -> datetime | None:
    """Ask to send it now. None: it may go, and is counted; else the moment at which to ask again.

    Every try asks; one that is repeated counts by its last.
    """
    await handoff_gates.enter(tx, handoff.account)
    now = await tx.now()
    result = await tx.execute(
        sa.select(handoffs.c.begun_at).where(
            handoffs.c.account == handoff.account,
            handoffs.c.peer_id == handoff.peer,
            handoffs.c.direction == Direction.OUT.value,
            handoffs.c.begun_at > now - RATE_WINDOW,
            handoffs.c.id != handoff.id,
        )
    )
    chance = next_chance(list(result.scalars()), now)
    if chance > now:
        return chance
    await tx.execute(sa.update(handoffs).where(handoffs.c.id == handoff.id).values(begun_at=now))
    return None


async def get(
    tx: Transaction, account: AccountId, event_id: str, direction: Direction
) -> Handoff | None:
    """One end of this hand-off, as far as this account has it."""
    result = await tx.execute(
        sa.select(handoffs).where(
            handoffs.c.account == account,
            handoffs.c.event_id == event_id,
            handoffs.c.direction == direction.value,
        )
    )
    row = result.one_or_none()
    return _handoff(row) if row else None


async def listed(tx: Transaction, limit: int = 200, *, only_open: bool = False) -> list[Handoff]:
    """Both ends of the newest hand-offs, of every account that shares the database."""
    query = sa.select(handoffs).order_by(handoffs.c.created_at.desc(), handoffs.c.id).limit(limit)
    if only_open:
        query = query.where(handoffs.c.state.in_([state.value for state in LIFECYCLE.open]))
    return [_handoff(row) for row in await tx.execute(query)]


def _handoff(row: Any) -> Handoff:
    return Handoff(
        id=row.id,
        account=AccountId(row.account),
        event_id=row.event_id,
        direction=Direction(row.direction),
        state=HandoffState(row.state),
        reason=NotSent(row.reason) if row.reason else None,
        peer=PlatformId(row.peer_id),
        conversation_id=PlatformId(row.conversation_id),
        message_id=PlatformId(row.message_id) if row.message_id else None,
        turn=TurnId(row.turn_id) if row.turn_id else None,
        delivery=DeliveryId(row.delivery_id) if row.delivery_id else None,
        payload=row.payload,
        expires_at=row.expires_at,
        begun_at=row.begun_at,
        created_at=row.created_at,
        settled_at=row.settled_at,
    )
