"""What is done about a definite refusal: a table from the refusal to its action."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import structlog

from openab.control.attempt import Answer
from openab.control.bound_sessions import unbind_here
from openab.control.children import starter_settled
from openab.control.completions import held_lost
from openab.control.elsewhere import owe_in, told_about
from openab.control.handoff_settling import concluded
from openab.control.parent import thread_refused
from openab.control.personas import task_refused
from openab.control.retire import owe_delete
from openab.control.settings import Settings
from openab.domain.binding import EndReason
from openab.domain.delivery import (
    Confirmed,
    DeadReason,
    DeliveryKind,
    Doubtful,
    GivenUp,
    Purpose,
)
from openab.domain.ids import PlatformId
from openab.domain.outbound import presentation_body
from openab.ports.channel import Refusal
from openab.storage import conversations, deliveries, spawns, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery, Owed, superseding
from openab.storage.engine import Transaction
from openab.text import notices, spawn_words
from openab.text.buttons import resend_button

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Refused:
    """A try that was refused for good."""

    settings: Settings
    where: Conversation
    delivery: Delivery
    answer: Answer
    #: What a sub-agent's task was tried by.
    webhook: PlatformId | None = None


Action = Callable[[Transaction, Refused], Awaitable[None]]


async def settle_refusal(tx: Transaction, refused: Refused) -> None:
    """Record the refusal and owe what follows from it."""
    delivery, refusal = refused.delivery, refused.answer.refusal or Refusal.OTHER
    if delivery.had_doubt and (delivery.kind, refusal) not in _CERTAIN and _can_look(delivery):
        # An earlier try may have been carried out, so this refusal settles nothing.
        until = await tx.now() + refused.settings.settle_after
        await deliveries.record(tx, delivery, Doubtful(), is_look_only=True, not_before=until)
        return
    if await task_refused(tx, delivery, refused.answer, refused.webhook):
        return
    action = _ACTIONS.get((delivery.kind, refusal)) or _ANY_KIND.get(refusal) or _dead
    await action(tx, refused)


def _can_look(delivery: Delivery) -> bool:
    """Edits and deletes leave nothing to look for; doing them twice is harmless."""
    return delivery.kind in {DeliveryKind.CREATE, DeliveryKind.THREAD}


async def _adopt(tx: Transaction, refused: Refused) -> None:
    """160004: the message has a thread already, and its id is the message's."""
    await deliveries.record(tx, refused.delivery, Confirmed())


async def _known_but_deleted(tx: Transaction, refused: Refused) -> None:
    """10008 on a create: the nonce is known, its message was deleted. A placeholder is made anew."""
    delivery = refused.delivery
    gone = await deliveries.record(tx, delivery, Confirmed(), is_gone=True)
    if gone.purpose is Purpose.HANDOFF:
        await concluded(tx, refused.settings, refused.where, gone)
    elif gone.purpose is Purpose.STARTER:
        await starter_settled(tx, refused.settings, refused.where, gone)
    if delivery.purpose is Purpose.PLACEHOLDER and await _is_running(tx, delivery):
        await deliveries.owe(tx, superseding(delivery))


async def _is_running(tx: Transaction, delivery: Delivery) -> bool:
    turn = await turns.get(tx, delivery.turn) if delivery.turn else None
    return turn is not None and turn.outcome is None


async def _fulfilled(tx: Transaction, refused: Refused) -> None:
    """What was to be deleted, or to get a last word, is gone."""
    await deliveries.record(tx, refused.delivery, Confirmed())


async def _edit_impossible(tx: Transaction, refused: Refused) -> None:
    """The placeholder cannot be edited any more: what it was to say becomes a message of its own."""
    delivery = refused.delivery
    if delivery.purpose is Purpose.RETIRE:
        await _fulfilled(tx, refused)
        return
    following = superseding(delivery, kind=DeliveryKind.CREATE, target_delivery=None)
    await _supersede(tx, following, delivery)


async def _too_old_to_edit(tx: Transaction, refused: Refused) -> None:
    """30046: the same, and the message itself is still there and has to go."""
    await instead_of_edit(tx, refused.delivery)


async def instead_of_edit(tx: Transaction, delivery: Delivery) -> None:
    """A message of its own says what the edit was to say, and the edited message has to go."""
    purpose = Purpose.NOTICE if delivery.purpose is Purpose.RETIRE else delivery.purpose
    following = superseding(
        delivery, kind=DeliveryKind.CREATE, target_delivery=None, purpose=purpose
    )
    await _supersede(tx, following, delivery)
    turn = await turns.get(tx, delivery.turn) if delivery.turn else None
    placeholder = (
        await deliveries.get(tx, delivery.target_delivery) if delivery.target_delivery else None
    )
    if turn and placeholder:
        await owe_delete(tx, turn, placeholder, why="too_old")


async def _without_reference(tx: Transaction, refused: Refused) -> None:
    """The message replied to cannot be referred to: the same body without the reference."""
    delivery = refused.delivery
    if delivery.body.reply_to is None:
        await _dead(tx, refused)
        return
    body = replace(delivery.body, reply_to=None)
    await _supersede(tx, superseding(delivery, body=body), delivery)


async def _supersede(tx: Transaction, following: Owed, delivery: Delivery) -> None:
    await deliveries.owe(tx, following)
    await deliveries.record(tx, delivery, GivenUp(DeadReason.SUPERSEDED))


async def _conversation_gone(tx: Transaction, refused: Refused) -> None:
    await conversations.close(tx, refused.where.id)
    await unbind_here(tx, refused.settings, refused.where, EndReason.CONVERSATION_GONE)
    await _dead(tx, refused)


async def _dead(tx: Transaction, refused: Refused) -> None:
    delivery, answer = refused.delivery, refused.answer
    reason = _DEAD.get(answer.refusal or Refusal.OTHER, DeadReason.REFUSED)
    dead = await deliveries.record(tx, delivery, GivenUp(reason), dead_detail=answer.reason)
    log.warning("delivery_dead", delivery_id=delivery.id, reason=reason.value, told=answer.reason)
    if dead.purpose is Purpose.THREAD:
        await thread_refused(tx, refused.settings, refused.where, answer.reason)
    elif dead.purpose is Purpose.FINAL:
        await tell_loss(tx, refused.settings, refused.where, dead, answer.reason)
    elif dead.purpose is Purpose.HANDOFF:
        await concluded(tx, refused.settings, refused.where, dead, answer.reason)
    elif dead.purpose is Purpose.STARTER:
        await starter_settled(tx, refused.settings, refused.where, dead)
    elif dead.purpose is Purpose.NOTICE:
        await held_lost(tx, refused.settings, dead, answer.reason)


async def tell_loss(
    tx: Transaction, settings: Settings, where: Conversation, dead: Delivery, reason: str
) -> None:
    """Name the gap that a dead part leaves: here, or in the parent where nothing can be said here."""
    rows = await deliveries.of_turn(tx, dead.turn) if dead.turn else []
    total = max((row.part for row in rows if row.purpose is Purpose.FINAL), default=1)
    text = (
        notices.answer_undelivered(reason)
        if total == 1
        else notices.part_lost(dead.part, total, reason)
    )
    if dead.dead_reason not in _UNWRITABLE:
        body = presentation_body(text, (resend_button(dead.id),))
        await owe_in(tx, settings, where, f"{dead.key}:lost", body)
        return
    parent = await told_about(tx, where, dead.turn)
    if parent is not None and dead.turn:
        # Every part fails like this one: it is told once, and the button is for all of them.
        buttons = (resend_button(dead.turn),)
        text = notices.answer_undelivered(reason)
        if spawn := await spawns.of_turn(tx, dead.turn):
            text = spawn_words.undelivered(spawn.agent, where.ref.conversation_id, text)
        told = presentation_body(text, buttons)
        await owe_in(tx, settings, parent, f"turn:{dead.turn}:unwritable:v1", told)


async def tell_unclear(
    tx: Transaction, settings: Settings, where: Conversation, dead: Delivery
) -> None:
    """Say that nobody can tell whether a part arrived; it is not sent twice, unless somebody says so."""
    body = presentation_body(notices.delivery_unclear(), (resend_button(dead.id),))
    await owe_in(tx, settings, where, f"{dead.key}:unclear", body)


_ACTIONS: dict[tuple[DeliveryKind, Refusal], Action] = {
    (DeliveryKind.THREAD, Refusal.THREAD_EXISTS): _adopt,
    (DeliveryKind.CREATE, Refusal.MESSAGE_GONE): _known_but_deleted,
    (DeliveryKind.DELETE, Refusal.MESSAGE_GONE): _fulfilled,
    (DeliveryKind.EDIT, Refusal.MESSAGE_GONE): _edit_impossible,
    (DeliveryKind.EDIT, Refusal.EDIT_TOO_OLD): _too_old_to_edit,
    (DeliveryKind.CREATE, Refusal.REFERENCE_INVALID): _without_reference,
}
#: What answers a repetition whatever became of the earlier tries.
_CERTAIN = {
    (DeliveryKind.CREATE, Refusal.MESSAGE_GONE),
    (DeliveryKind.THREAD, Refusal.THREAD_EXISTS),
}
_UNWRITABLE = {DeadReason.FORBIDDEN, DeadReason.CONVERSATION_GONE, DeadReason.LOCKED}
_ANY_KIND: dict[Refusal, Action] = {
    Refusal.CONVERSATION_GONE: _conversation_gone,
}
_DEAD = {
    Refusal.FORBIDDEN: DeadReason.FORBIDDEN,
    Refusal.CONVERSATION_GONE: DeadReason.CONVERSATION_GONE,
    Refusal.MESSAGE_GONE: DeadReason.MESSAGE_GONE,
    Refusal.LOCKED: DeadReason.LOCKED,
}
