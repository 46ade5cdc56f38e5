"""Settles a hand-off with the row that carries it, and tells people what became of it."""

from datetime import UTC, datetime, timedelta

import structlog

from openab.control.elsewhere import owe_in, parent_of
from openab.control.handoff_owing import peer_of, tell_not_sent, told_key
from openab.control.retire import owe_notice
from openab.control.settings import Settings
from openab.domain.delivery import DeadReason, DeliveryState, Purpose
from openab.domain.handoff import (
    Abandoned,
    Direction,
    Envelope,
    HandoffState,
    NotSent,
    Posted,
    sent_in,
)
from openab.domain.outbound import presentation_body
from openab.storage import handoffs, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery
from openab.storage.engine import Transaction
from openab.storage.handoffs import Handoff
from openab.text import handoff_words

log = structlog.get_logger()
_REASONS = {
    DeadReason.UNCLEAR: NotSent.UNCLEAR,
    DeadReason.CONVERSATION_GONE: NotSent.CONVERSATION_GONE,
}
#: Nothing can be written in the conversation either.
_UNWRITABLE = frozenset({DeadReason.FORBIDDEN, DeadReason.CONVERSATION_GONE, DeadReason.LOCKED})


def is_over(delivery: Delivery, now: datetime) -> bool:
    """Whether this is a hand-off that nobody would take any more."""
    return delivery.purpose is Purpose.HANDOFF and life_left(delivery, now) <= timedelta(0)


def envelope_of(delivery: Delivery) -> Envelope:
    """What the row of a hand-off carries."""
    found = sent_in(delivery.body.content)
    assert found is not None
    return found


def life_left(delivery: Delivery, now: datetime) -> timedelta:
    """How long its envelope may still be used."""
    return datetime.fromtimestamp(envelope_of(delivery).expires_at, UTC) - now


async def handoff_of(tx: Transaction, delivery: Delivery) -> Handoff:
    """The history of the hand-off that this row carries."""
    event_id = envelope_of(delivery).event_id
    found = await handoffs.get(tx, delivery.account, event_id, Direction.OUT)
    assert found is not None
    return found


async def concluded(
    tx: Transaction, settings: Settings, where: Conversation, delivery: Delivery, told: str = ""
) -> None:
    """The row of a hand-off is settled: so is the hand-off, and people are told."""
    if delivery.dead_reason is DeadReason.SUPERSEDED:
        return
    handoff = await handoff_of(tx, delivery)
    if handoff.state is not HandoffState.OWED:
        return
    if delivery.state is DeliveryState.SENT:
        await _note_sent(tx, settings, where, handoff, delivery)
    else:
        reason = _REASONS.get(delivery.dead_reason or DeadReason.REFUSED, NotSent.REFUSED)
        await note_not_sent(tx, settings, where, handoff, delivery, reason, told)


async def _note_sent(
    tx: Transaction, settings: Settings, where: Conversation, handoff: Handoff, delivery: Delivery
) -> None:
    await handoffs.record(tx, handoff, Posted(), message_id=delivery.platform_id)
    text = handoff_words.handed_off(peer_of(settings, handoff.peer))
    await _tell(tx, settings, where, delivery, text)
    if handoff.turn:
        await turns.log(tx, handoff.turn, "handoff_sent", {"target": handoff.peer})

    def tell() -> None:
        log.info("handoff_sent", turn_id=handoff.turn, event_id=handoff.event_id)
        settings.count_handoff("out", "sent")

    tx.after_commit(tell)


async def note_not_sent(
    tx: Transaction,
    settings: Settings,
    where: Conversation,
    handoff: Handoff,
    delivery: Delivery,
    reason: NotSent,
    told: str,
) -> None:
    """It is not sent: recorded, and told where people can read it."""
    await handoffs.record(tx, handoff, Abandoned(reason))
    peer = peer_of(settings, handoff.peer)
    text = handoff_words.not_handed_off(peer, reason, told)
    is_unwritable = delivery.dead_reason in _UNWRITABLE or reason is NotSent.CONVERSATION_GONE
    place = await parent_of(tx, where) if is_unwritable else None
    await _tell(tx, settings, place or where, delivery, text)
    if handoff.turn:
        await turns.log(tx, handoff.turn, "handoff_not_sent", {"reason": reason.value})
    tx.after_commit(lambda: tell_not_sent(settings, handoff.turn, reason))


async def _tell(
    tx: Transaction, settings: Settings, where: Conversation, delivery: Delivery, text: str
) -> None:
    turn = await turns.get(tx, delivery.turn) if delivery.turn else None
    assert turn is not None
    key = told_key(turn.id)
    if where.id == turn.conversation:
        await owe_notice(tx, turn, key, text)
    else:
        await owe_in(tx, settings, where, key, presentation_body(text))
