"""An accepted message becomes a queued turn: its conversation, its thread, its place in the order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from openab.control.bodies import queued_placeholder
from openab.control.bound_sessions import session_here
from openab.control.first_message import wishes_of
from openab.control.settings import Settings
from openab.domain.batching import Batching, DispatchMode, OnBusy, weight
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.gates import Verdict
from openab.domain.ids import (
    ConversationId,
    ConversationRef,
    DeliveryId,
    MessageRef,
    SessionKey,
    TurnId,
    snowflake,
)
from openab.domain.message import Author, InboundMessage, Place, sender_record
from openab.domain.outbound import MessageBody
from openab.domain.turn import TurnSource, TurnState
from openab.storage import (
    batches,
    bot_runs,
    conversations,
    deliveries,
    reactions,
    sessions,
    streams,
    turns,
)
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Owed, thread_on
from openab.storage.engine import Transaction
from openab.storage.turns import Arrival, NewTurn, Turn
from openab.text.notices import newer_message
from openab.text.titles import given_title, thread_title


@dataclass(frozen=True, slots=True)
class Reception:
    """A judged message: where it was said, and what it says to the agent."""

    message: InboundMessage
    text: str
    here: Conversation
    verdict: Verdict
    #: The event's key, where it is no message of its own, and its place in the order.
    event: str = ""
    order_key: int | None = None
    #: Where the turn waits that this message is a further part of.
    run: Conversation | None = None


async def accept(
    tx: Transaction, settings: Settings, reception: Reception, planned: TurnId
) -> tuple[TurnId, ConversationId]:
    """Queue the turn `planned`, or add to one that waits, with all that people see of it before it runs."""
    wishes = await wishes_of(
        tx, settings, reception.text, reception.here, opens_thread=reception.verdict.opens_thread
    )
    reception = replace(reception, text=wishes.text)
    where, thread = await _place(tx, settings, reception, wishes.title)
    # This locks the row that an owner locks before it claims a turn here, and retention before it
    # deletes a session.
    seq = await conversations.take_part(tx, where.id)
    session = await session_here(tx, settings, where)
    if wishes.workspace:
        await sessions.ask_for_workspace(tx, session.key, wishes.workspace)
    waiting = await turns.open_of(tx, where.id)
    await _interrupt(tx, settings, reception.message.author, waiting)
    new = _new_turn(settings, reception, where, session.key)
    turn = await batches.join(tx, new, _rule(settings, reception))
    if turn is None:
        turn = planned
        await turns.enqueue(tx, replace(new, seq=seq, thread_delivery=thread), turn)
        await _show_queued(tx, settings, turn, where, len(waiting))
    if reception.verdict.gathers_run:
        await bot_runs.hold(tx, turn)
    await _show_seen(tx, settings, turn, new.trigger)
    return turn, where.id


async def accept_handoff(
    tx: Transaction, settings: Settings, reception: Reception, event_id: str, turn: TurnId
) -> ConversationId:
    """Queue `turn` for a hand-off: a turn of its own, whose text is the payload as it is."""
    where, thread = await _place(tx, settings, reception, None)
    seq = await conversations.take_part(tx, where.id)
    session = await session_here(tx, settings, where)
    waiting = await turns.open_of(tx, where.id)
    new = replace(
        _new_turn(settings, reception, where, session.key),
        source=TurnSource.HANDOFF,
        idempotency_key=f"handoff:{settings.account}:{event_id}",
        seq=seq,
        thread_delivery=thread,
    )
    await turns.enqueue(tx, new, turn)
    await _show_queued(tx, settings, turn, where, len(waiting))
    emoji = settings.reactions.emojis.queued if settings.reactions.enabled else None
    await reactions.wish(tx, turn, emoji, await tx.now())
    return where.id


def _rule(settings: Settings, reception: Reception) -> Batching:
    """A run of one bot's messages is one turn whatever the mode says."""
    rule = settings.batching
    is_run = reception.run is not None and not rule.gathers
    return replace(rule, mode=DispatchMode.PER_LANE) if is_run else rule


async def _interrupt(
    tx: Transaction, settings: Settings, author: Author, waiting: Sequence[Turn]
) -> None:
    """Have the running turn cancelled, if a message is to do that and its author may."""
    if settings.on_busy is not OnBusy.INTERRUPT:
        return
    for turn in waiting:
        may_end = turn.is_asked_by(author.id) or author.id in settings.operators()
        if turn.state is TurnState.RUNNING and may_end:
            await turns.request_cancel(tx, turn.id, newer_message(author.display_name))


def _new_turn(
    settings: Settings, reception: Reception, where: Conversation, session: SessionKey
) -> NewTurn:
    message = reception.message
    # The thread's id is the message's, so the agent is told of it before it is there.
    placed = replace(message, conversation=where.ref, place=where.place)
    return NewTurn(
        account=settings.account,
        conversation=where.id,
        session_key=session,
        seq=0,
        order_key=reception.order_key or snowflake(message.message_id),
        idempotency_key=f"{reception.event or 'message'}:{settings.account}:{message.message_id}",
        arrival=Arrival(
            sender_record(placed),
            reception.text,
            tuple(
                {"name": a.name, "content_type": a.content_type, "size": a.size}
                for a in message.attachments
            ),
        ),
        requester_id=message.author.id,
        requester_name=message.author.display_name,
        requester_is_bot=message.author.is_other_bot,
        trigger=MessageRef(message.conversation.conversation_id, message.message_id),
        tokens=weight(reception.text, message.attachments),
    )


async def _place(
    tx: Transaction, settings: Settings, reception: Reception, wished_title: str | None
) -> tuple[Conversation, DeliveryId | None]:
    message = reception.message
    if reception.run is not None or not reception.verdict.opens_thread:
        return reception.run or reception.here, None
    ref = ConversationRef(
        settings.channel, settings.account, message.message_id, message.conversation.conversation_id
    )
    thread = await conversations.ensure(tx, ref, Place.THREAD)
    if message.author.is_other_bot:
        # Its starter message is shown in the thread, so the bot that wrote it is in there.
        await conversations.note_message(tx, thread, message.message_id, other_bot=True)
        thread = replace(thread, has_other_bot=True)
    author = message.author.display_name
    title = (
        given_title(wished_title, author)
        if wished_title
        else thread_title(reception.text, [a.name for a in message.attachments], author)
    )
    anchor = MessageRef(message.conversation.conversation_id, message.message_id)
    seq = await conversations.take_seq(tx, thread.id)
    delivery = await deliveries.owe(tx, thread_on(thread, anchor, title, seq))
    return thread, delivery


async def _show_queued(
    tx: Transaction, settings: Settings, turn: TurnId, where: Conversation, before: int
) -> None:
    await streams.ensure(tx, turn, settings.account, "queued")
    if before and settings.mode(where.ref, where.has_other_bot) != "final":
        await owe_placeholder(tx, settings, turn, where, queued_placeholder(turn, before))


async def _show_seen(
    tx: Transaction, settings: Settings, turn: TurnId, message: MessageRef
) -> None:
    """Every message of a batch has the emoji until the turn's end."""
    emoji = settings.reactions.emojis.queued
    if settings.reactions.enabled and emoji:
        await reactions.wish_on(tx, turn, settings.account, message, emoji, await tx.now())


async def owe_placeholder(
    tx: Transaction,
    settings: Settings,
    turn: TurnId,
    where: Conversation,
    body: MessageBody,
    version: int = 1,
) -> None:
    """The turn's live message is owed; one of each version."""
    await deliveries.owe(
        tx,
        Owed(
            account=settings.account,
            conversation=where.id,
            key=f"turn:{turn}:placeholder:v{version}",
            kind=DeliveryKind.CREATE,
            purpose=Purpose.PLACEHOLDER,
            body=body,
            seq=await conversations.take_seq(tx, where.id),
            turn=turn,
            version=version,
            is_owed=False,
        ),
    )
