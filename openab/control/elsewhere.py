"""Says something in another conversation than the one that is worked in; its own owner sends it."""

from dataclasses import replace

from openab.control.settings import Settings
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.ids import ConversationRef, PlatformId, TurnId
from openab.domain.message import Place
from openab.domain.outbound import MessageBody
from openab.storage import conversations, deliveries, spawns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Owed
from openab.storage.engine import Transaction


async def parent_of(tx: Transaction, where: Conversation) -> Conversation | None:
    """The conversation that a thread hangs in; None for anything that has no parent."""
    parent = where.ref.parent_conversation_id
    if parent is None or where.place is not Place.THREAD:
        return None
    ref = ConversationRef(where.ref.channel, where.ref.account, parent)
    return await conversations.ensure(tx, ref, Place.CHANNEL)


async def told_about(
    tx: Transaction, where: Conversation, turn: TurnId | None
) -> Conversation | None:
    """Where people learn what cannot be said in a thread: where a sub-agent's task was asked for, else above."""
    spawn = await spawns.of_turn(tx, turn) if turn else None
    if spawn is not None:
        return await conversations.get(tx, spawn.requester_conversation)
    return await parent_of(tx, where)


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
