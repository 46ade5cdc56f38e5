"""Takes placeholders away, or turns them into a last word; nothing of a turn is left behind."""

from openab.control.settings import Settings
from openab.domain.delivery import DeadReason, DeliveryKind, DeliveryState, GivenUp, Purpose
from openab.domain.outbound import Button, MessageBody, presentation_body
from openab.domain.turn import TurnState
from openab.storage import conversations, deliveries, reactions, turns
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


async def is_pointless(tx: Transaction, delivery: Delivery) -> bool:
    """A placeholder that never came and whose turn is over is not sent any more."""
    if delivery.purpose is not Purpose.PLACEHOLDER or delivery.turn is None:
        return False
    turn = await turns.get(tx, delivery.turn)
    return turn is not None and (turn.outcome is not None or turn.state is TurnState.CANCELLED)


async def placeholders_of(tx: Transaction, turn: Turn) -> list[Delivery]:
    """The turn's live messages that are not retired yet, oldest first."""
    rows = await deliveries.of_turn(tx, turn.id)
    retired = {row.target_delivery for row in rows if row.purpose is Purpose.RETIRE}
    return [row for row in rows if is_placeholder(row) and row.id not in retired]


def permission_key(turn: Turn, number: int) -> str:
    """The key of the notice that asks people for a permission."""
    return f"turn:{turn.id}:permit:{number}:v1"


def continue_key(turn: Turn) -> str:
    """The key of the notice that asks people whether the turn goes on after this attempt."""
    return f"turn:{turn.id}:continue:{turn.attempt}:v1"


async def questions_of(tx: Transaction, turn: Turn) -> list[Delivery]:
    """The turn's questions that people still see (or will), unless they are retired already."""
    rows = await deliveries.of_turn(tx, turn.id)
    retired = {row.target_delivery for row in rows if row.purpose is Purpose.RETIRE}
    prefixes = (f"turn:{turn.id}:permit:", f"turn:{turn.id}:continue:")
    return [
        row
        for row in rows
        if row.key.startswith(prefixes)
        and row.kind is DeliveryKind.CREATE
        and row.state is not DeliveryState.DEAD
        and row.id not in retired
    ]


async def owe_delete(
    tx: Transaction, turn: Turn, placeholder: Delivery, why: str = "retire"
) -> None:
    """The placeholder is to be deleted, or never sent if its call has not begun; once per `why`."""
    if placeholder.state is DeliveryState.PENDING:
        await deliveries.record(tx, placeholder, GivenUp(DeadReason.SUPERSEDED))
        return
    await _owe(tx, turn, placeholder, DeliveryKind.DELETE, MessageBody(content=""), why)


async def last_version(tx: Transaction, turn: Turn) -> int:
    """The newest version of the turn's placeholder, dead ones included; 0: there was none."""
    rows = await deliveries.of_turn(tx, turn.id)
    versions = (
        row.version
        for row in rows
        if row.purpose is Purpose.PLACEHOLDER and row.kind is DeliveryKind.CREATE
    )
    return max(versions, default=0)


async def retire_older(tx: Transaction, placeholder: Delivery) -> None:
    """A later placeholder is on the network: the ones before it go."""
    turn = await turns.get(tx, placeholder.turn) if placeholder.turn else None
    if turn is None:
        return
    for older in await placeholders_of(tx, turn):
        if older.version < placeholder.version:
            await owe_delete(tx, turn, older)


async def owe_last_word(tx: Transaction, turn: Turn, placeholder: Delivery, text: str) -> None:
    """The placeholder is to say this and lose its buttons."""
    await _owe(tx, turn, placeholder, DeliveryKind.EDIT, presentation_body(text), "retire")


async def retire_queued(tx: Transaction, settings: Settings, turn: Turn, by: str) -> None:
    """A turn was cancelled before it began: its placeholder says so, or a notice where it has none."""
    text = notices.cancelled_before_start(by)
    placeholders = await placeholders_of(tx, turn)
    if placeholders:
        await owe_last_word(tx, turn, placeholders[-1], text)
    else:
        await owe_notice(tx, turn, f"turn:{turn.id}:cancelled:v1", text)
    # After `owe`, which locks the conversation's row: the owner's own view of the wish is newer then.
    if settings.reactions.enabled:
        emoji = settings.reactions.emojis.cancelled or None
        await reactions.conclude(tx, turn.id, emoji, await tx.now())


async def owe_notice(
    tx: Transaction,
    turn: Turn,
    key: str,
    text: str,
    *,
    is_owed: bool = False,
    buttons: tuple[Button, ...] = (),
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
            body=presentation_body(text, buttons),
            seq=await conversations.take_seq(tx, turn.conversation),
            turn=turn.id,
            is_owed=is_owed,
        ),
    )


async def _owe(
    tx: Transaction,
    turn: Turn,
    placeholder: Delivery,
    kind: DeliveryKind,
    body: MessageBody,
    why: str,
) -> None:
    await deliveries.owe(
        tx,
        Owed(
            account=turn.account,
            conversation=turn.conversation,
            key=f"{placeholder.key}:{why}",
            kind=kind,
            purpose=Purpose.RETIRE,
            body=body,
            seq=await conversations.take_seq(tx, turn.conversation),
            turn=turn.id,
            target_delivery=placeholder.id,
        ),
    )
