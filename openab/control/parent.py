"""What has to be told in the parent, because the thread is not there or cannot be written."""

from dataclasses import replace
from datetime import datetime

from openab.control.outcome import end_unprompted
from openab.control.settings import Settings
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.ids import ConversationRef, PlatformId
from openab.domain.message import Place
from openab.domain.outbound import MessageBody, presentation_body
from openab.domain.turn import Claimed, TurnState
from openab.storage import conversations, deliveries, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery, Owed
from openab.storage.engine import Transaction
from openab.text import notices

#: A wait shorter than this is not worth a message.
_WORTH_TELLING = 10.0


async def parent_of(tx: Transaction, where: Conversation) -> Conversation | None:
    """The conversation that a thread hangs in; None for anything that has no parent."""
    parent = where.ref.parent_conversation_id
    if parent is None or where.place is not Place.THREAD:
        return None
    ref = ConversationRef(where.ref.channel, where.ref.account, parent)
    return await conversations.ensure(tx, ref, Place.CHANNEL)


async def tell_waiting(
    tx: Transaction,
    settings: Settings,
    where: Conversation,
    delivery: Delivery,
    until: datetime,
    wait: float,
) -> None:
    """Say once, in the parent, until when the thread's opening has to wait."""
    parent = await parent_of(tx, where)
    if parent is None or delivery.target is None or wait < _WORTH_TELLING:
        return
    body = presentation_body(notices.waiting_for_discord(until))
    await owe_in(tx, settings, parent, f"{delivery.key}:waiting", body, delivery.target.message_id)


async def owe_in(
    tx: Transaction,
    settings: Settings,
    where: Conversation,
    key: str,
    body: MessageBody,
    reply_to: PlatformId | None = None,
) -> None:
    """A notice in another conversation than the turn's; its own owner sends it."""
    await deliveries.owe(
        tx,
        Owed(
            account=settings.account,
            conversation=where.id,
            key=key,
            kind=DeliveryKind.CREATE,
            purpose=Purpose.NOTICE,
            body=replace(body, reply_to=reply_to, mention=None),
            seq=await conversations.take_seq(tx, where.id),
        ),
    )


async def thread_refused(
    tx: Transaction, settings: Settings, where: Conversation, reason: str
) -> None:
    """The thread will never be: its turns end unprompted, each told in the parent."""
    parent = await parent_of(tx, where)
    if parent is None:
        return
    for turn in await turns.open_of(tx, where.id):
        if turn.state is TurnState.QUEUED:
            await turns.record(tx, turn, Claimed(), started_at=await tx.now())
            running = await turns.get(tx, turn.id)
            assert running is not None
            text = notices.thread_not_opened(reason)
            await end_unprompted(tx, settings, running, text, parent)
