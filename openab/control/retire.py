"""Takes placeholders away, or turns them into a last word; nothing of a turn is left behind."""

from openab.control.settings import Settings
from openab.domain.delivery import DeadReason, DeliveryKind, DeliveryState, GivenUp, Purpose
from openab.domain.outbound import MessageBody, presentation_body
from openab.storage import conversations, deliveries, streams
from openab.storage.deliveries import Delivery, Owed
from openab.storage.engine import Transaction
from openab.storage.turns import Turn
from openab.text import notices


def is_placeholder(delivery: Delivery) -> bool:
    """Whether this row is (or will be) a live message that somebody has to take away."""
    alive = delivery.state is not DeliveryState.DEAD and not delivery.is_gone
    return (
        delivery.kind is DeliveryKind.CREATE and delivery.purpose is Purpose.PLACEHOLDER and alive
    )


async def placeholders_of(tx: Transaction, turn: Turn) -> list[Delivery]:
    """The turn's live messages that are not retired yet, oldest first."""
    rows = await deliveries.of_turn(tx, turn.id)
    retired = {row.target_delivery for row in rows if row.purpose is Purpose.RETIRE}
    return [row for row in rows if is_placeholder(row) and row.id not in retired]


async def owe_delete(tx: Transaction, turn: Turn, placeholder: Delivery) -> None:
    """The placeholder is to be deleted, or never sent if its call has not begun."""
    if placeholder.state is DeliveryState.PENDING:
        await deliveries.record(tx, placeholder, GivenUp(DeadReason.SUPERSEDED))
        return
    await _owe(tx, turn, placeholder, DeliveryKind.DELETE, MessageBody(content=""))


async def owe_last_word(tx: Transaction, turn: Turn, placeholder: Delivery, text: str) -> None:
    """The placeholder is to say this and lose its buttons."""
    await _owe(tx, turn, placeholder, DeliveryKind.EDIT, presentation_body(text))


async def retire_queued(tx: Transaction, settings: Settings, turn: Turn, by: str) -> None:
    """A turn was cancelled before it began: its placeholder says so, or a notice where it has none."""
    text = notices.cancelled_before_start(by)
    placeholders = await placeholders_of(tx, turn)
    if placeholders:
        await owe_last_word(tx, turn, placeholders[-1], text)
    else:
        await owe_notice(tx, turn, f"turn:{turn.id}:cancelled:v1", text)
    if settings.reactions.enabled:
        emoji = settings.reactions.emojis.cancelled or None
        await streams.wish_reaction(tx, turn.id, emoji, await tx.now())


async def owe_notice(
    tx: Transaction, turn: Turn, key: str, text: str, *, is_owed: bool = False
) -> None:
    """A notice in the turn's conversation, once per key."""
    await deliveries.owe(
        tx,
        Owed(
            account=turn.account,
            conversation=turn.conversation,
            key=key,
            kind=DeliveryKind.CREATE,
            purpose=Purpose.NOTICE,
            body=presentation_body(text),
            seq=await conversations.take_seq(tx, turn.conversation),
            turn=turn.id,
            is_owed=is_owed,
        ),
    )


async def _owe(
    tx: Transaction, turn: Turn, placeholder: Delivery, kind: DeliveryKind, body: MessageBody
) -> None:
    await deliveries.owe(
        tx,
        Owed(
            account=turn.account,
            conversation=turn.conversation,
            key=f"turn:{turn.id}:retire:{placeholder.version}:v1",
            kind=kind,
            purpose=Purpose.RETIRE,
            body=body,
            seq=await conversations.take_seq(tx, turn.conversation),
            turn=turn.id,
            target_delivery=placeholder.id,
        ),
    )
