"""Owes a hand-off, in the transaction that ends the turn which asked for it; or says why it is not sent."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import structlog

from openab.control.retire import owe_notice
from openab.control.settings import Settings
from openab.control.spawning import spawn_from
from openab.domain.delivery import DeadReason, DeliveryKind, GivenUp, Purpose
from openab.domain.handoff import (
    Abandoned,
    Direction,
    Envelope,
    NotSendable,
    NotSent,
    TooLarge,
    draft,
    refusal_to_send,
    written,
)
from openab.domain.ids import PlatformId
from openab.domain.message import Place
from openab.domain.outbound import MessageBody, handoff_body
from openab.storage import conversations, deliveries, handoffs, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Owed
from openab.storage.engine import Transaction
from openab.storage.turns import Turn
from openab.text import handoff_words
from openab.text.handoff_words import Peer
from openab.text.output import Intent

log = structlog.get_logger()
#: So much of a text that is not sent since it is too large stands in the history.
_KEPT = 4000
#: An envelope's size depends on neither; only its digits do.
_SOME_EVENT, _SOME_MOMENT = UUID(int=0), datetime(2026, 1, 1, tzinfo=UTC)


def peer_of(settings: Settings, bot: PlatformId) -> Peer:
    """How a bot is named to people."""
    return Peer(bot, settings.bot_name(bot))


def refusal(settings: Settings, where: Conversation, target: PlatformId) -> NotSent | None:
    """Why nothing is ever sent to this target from here."""
    trusted = settings.policy().trusted_bots
    found = refusal_to_send(target, settings.account, trusted, settings.channel)
    if found is None and where.place is Place.DM:
        # Two are in there, and nobody can be added.
        return NotSent.TARGET_ABSENT
    return found


def sized(settings: Settings, where: Conversation, turn: Turn, intent: Intent) -> Envelope:
    """An envelope like the one that the turn's end will write, as far as its size goes."""
    assert intent.target is not None
    return _draft(settings, where, turn, intent, _SOME_EVENT, _SOME_MOMENT)


def excess(settings: Settings, where: Conversation, turn: Turn, intent: Intent) -> TooLarge | None:
    """By how much the hand-off is too large; None: it fits, or is not sent whatever its size is."""
    if intent.target is None or refusal(settings, where, intent.target):
        return None
    try:
        written(sized(settings, where, turn, intent))
    except TooLarge as error:
        return error
    except NotSendable:
        return None
    return None


async def owe_intent(
    tx: Transaction, settings: Settings, where: Conversation, turn: Turn, intent: Intent
) -> None:
    """Everything that a complete output asked for beside its text."""
    if intent.invalid:
        await _tell_invalid(tx, settings, turn, intent)
    if intent.target is not None:
        await _owe_handoff(tx, settings, where, turn, intent)
    if intent.sub_agent:
        await spawn_from(tx, settings, where, turn, intent.sub_agent, intent.task)


async def _tell_invalid(tx: Transaction, settings: Settings, turn: Turn, intent: Intent) -> None:
    keys = [line.key for line in intent.invalid]

    def tell() -> None:
        log.warning("directive_invalid", turn_id=turn.id, keys=keys)
        if "handoff" in keys:
            settings.count_handoff("out", NotSent.WRONG_TARGET.value)

    tx.after_commit(tell)
    text = handoff_words.not_understood(intent.invalid)
    await owe_notice(tx, turn, f"turn:{turn.id}:directives:v1", text)


async def _owe_handoff(
    tx: Transaction, settings: Settings, where: Conversation, turn: Turn, intent: Intent
) -> None:
    assert intent.target is not None
    envelope = _draft(settings, where, turn, intent, uuid4(), await tx.now())
    reason, detail = refusal(settings, where, envelope.target), ""
    content = ""
    if reason is None:
        try:
            content = written(envelope)
        except TooLarge as error:
            reason, detail = error.reason, handoff_words.too_large(error.needed, error.room)
        except NotSendable as error:
            reason = error.reason
    if reason is NotSent.TOO_LARGE:
        # The whole of it stands in the turn's raw answer.
        envelope = replace(envelope, text=envelope.text[:_KEPT])
    body = MessageBody("") if reason else handoff_body(content, envelope.target)
    delivery = await deliveries.owe(tx, await _owed(tx, turn, body))
    assert delivery is not None
    await handoffs.owe(tx, settings.account, envelope, turn.id, delivery)
    await turns.log(tx, turn.id, "handoff_owed", {"target": envelope.target})
    if reason:
        await _abandon(tx, settings, turn, envelope, reason, detail)


async def _owed(tx: Transaction, turn: Turn, body: MessageBody) -> Owed:
    return Owed(
        account=turn.account,
        conversation=turn.conversation,
        key=f"turn:{turn.id}:handoff:v1",
        kind=DeliveryKind.CREATE,
        purpose=Purpose.HANDOFF,
        body=body,
        seq=await conversations.take_seq(tx, turn.conversation),
        turn=turn.id,
    )


async def _abandon(
    tx: Transaction,
    settings: Settings,
    turn: Turn,
    envelope: Envelope,
    reason: NotSent,
    detail: str,
) -> None:
    """It is known at once that it can never be sent: the row is dead, and the turn has failed by it."""
    handoff = await handoffs.get(tx, settings.account, envelope.event_id, Direction.OUT)
    assert handoff is not None
    assert handoff.delivery is not None
    delivery = await deliveries.get(tx, handoff.delivery)
    assert delivery is not None
    await deliveries.record(tx, delivery, GivenUp(DeadReason.NOT_SENT), dead_detail=reason.value)
    await handoffs.record(tx, handoff, Abandoned(reason))
    text = handoff_words.not_handed_off(peer_of(settings, envelope.target), reason, detail)
    await owe_notice(tx, turn, told_key(turn.id), text)
    await turns.log(tx, turn.id, "handoff_not_sent", {"reason": reason.value})
    tx.after_commit(lambda: tell_not_sent(settings, turn.id, reason))


def told_key(turn: str) -> str:
    """The key of the line by which people learn what became of the turn's hand-off."""
    return f"turn:{turn}:handoff_told:v1"


def tell_not_sent(settings: Settings, turn: str | None, reason: NotSent) -> None:
    """For logs and metrics, once it is committed."""
    log.warning("handoff_not_sent", turn_id=turn, reason=reason.value)
    settings.count_handoff("out", reason.value)


def _draft(
    settings: Settings,
    where: Conversation,
    turn: Turn,
    intent: Intent,
    event: UUID,
    now: datetime,
) -> Envelope:
    assert intent.target is not None
    trigger = turn.trigger.message_id
    return draft(
        settings.account,
        intent.target,
        where.ref,
        where.place,
        trigger,
        event,
        now,
        intent.payload,
    )
