"""Opens a sub-agent's conversation once its starter message is there: all of it in one transaction, or nothing."""

from datetime import UTC, datetime

import structlog

from openab.control.elsewhere import owe_in
from openab.control.settings import Settings
from openab.control.spawning import refuse
from openab.domain.binding import BindingRefused, TargetKind
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.ids import ConversationRef, MessageRef, PlatformId, SessionKey, TurnId, snowflake
from openab.domain.message import Author, AuthorKind, InboundMessage, Place, sender_record
from openab.domain.outbound import persona_body, presentation_body
from openab.domain.spawn import Opened, SpawnRefusal, SpawnState
from openab.domain.turn import TurnSource
from openab.ports.agent import AgentSpec
from openab.storage import conversations, deliveries, reactions, sessions, spawns, streams, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery, Owed
from openab.storage.engine import Transaction
from openab.storage.spawns import Spawn
from openab.storage.turns import Arrival, NewTurn
from openab.text import spawn_words
from openab.text.binding_words import ASKED_BY, ASKED_IN
from openab.text.titles import thread_title

log = structlog.get_logger()


async def starter_settled(
    tx: Transaction, settings: Settings, channel: Conversation, starter: Delivery
) -> None:
    """The starter's fate is known: open what hangs on it, or refuse the spawn. Twice is harmless."""
    spawn = await spawns.of_starter(tx, starter.id)
    if spawn is None or spawn.state is not SpawnState.OWED:
        return
    spec = settings.named_agents().get(spawn.agent)
    if starter.platform_id is None or starter.is_gone:
        await refuse(tx, settings, spawn, SpawnRefusal.NO_STARTER)
    elif not settings.binding.spawns.is_on:
        # Whoever switches it off wants no more of them, also those that were asked for before.
        await refuse(tx, settings, spawn, SpawnRefusal.SWITCHED_OFF)
    elif spec is None:
        await refuse(tx, settings, spawn, SpawnRefusal.UNKNOWN_AGENT)
    else:
        await _open(tx, settings, channel, spawn, spec, starter.platform_id)


async def _open(
    tx: Transaction,
    settings: Settings,
    channel: Conversation,
    spawn: Spawn,
    spec: AgentSpec,
    anchor: PlatformId,
) -> None:
    title = thread_title(spawn.task, (), spawn.agent)
    try:
        async with tx.savepoint():
            child = await settings.bindings.child_of(tx, channel.ref, title, anchor)
            key = await _bind(tx, settings, spawn, spec, child)
    except BindingRefused as error:
        log.warning("child_not_made", spawn=spawn.id, code=error.code.value, told=str(error))
        await refuse(tx, settings, spawn, SpawnRefusal.NO_THREADS_HERE)
        return
    where = await conversations.ensure(tx, child, Place.THREAD)
    await _owe_task(tx, settings, spawn, where)
    turn = await _enqueue(
        tx, settings, spawn, where, key, MessageRef(channel.ref.conversation_id, anchor)
    )
    await spawns.record(tx, spawn, Opened(), session_key=key, turn_id=turn)
    if spawn.requester_conversation != channel.id:
        # In the channel itself the starter says it.
        asked_in = await conversations.get(tx, spawn.requester_conversation)
        told = presentation_body(spawn_words.opened(spawn.agent, child.conversation_id))
        await owe_in(tx, settings, asked_in, f"spawn:{spawn.id}:opened:v1", told)
    tx.after_commit(lambda: log.info("spawn_opened", spawn=spawn.id, turn_id=turn, session=key))


async def _bind(
    tx: Transaction, settings: Settings, spawn: Spawn, spec: AgentSpec, child: ConversationRef
) -> SessionKey:
    where = await conversations.ensure(tx, child, Place.THREAD)
    session = await sessions.ensure(
        tx, where, agent=spec.name, working_dir=spec.working_dir, named=spawn.agent
    )
    asked_in = await conversations.get(tx, spawn.requester_conversation)
    await settings.bindings.bind(
        tx,
        session.key,
        TargetKind.SUBAGENT,
        child,
        bound_by="" if spawn.requester_is_bot else spawn.requester_id,
        limits=settings.binding.limits,
        metadata={
            ASKED_BY: spawn.requester_name,
            ASKED_IN: asked_in.ref.conversation_id,
        },
    )
    return session.key


async def _owe_task(tx: Transaction, settings: Settings, spawn: Spawn, where: Conversation) -> None:
    await deliveries.owe(
        tx,
        Owed(
            account=settings.account,
            conversation=where.id,
            key=f"spawn:{spawn.id}:task:v1",
            kind=DeliveryKind.CREATE,
            purpose=Purpose.TASK,
            body=persona_body(spawn_words.echoed_task(spawn.task), spawn.agent),
            seq=await conversations.take_seq(tx, where.id),
            is_owed=False,
        ),
    )


async def _enqueue(
    tx: Transaction,
    settings: Settings,
    spawn: Spawn,
    where: Conversation,
    session: SessionKey,
    starter: MessageRef,
) -> TurnId:
    seq = await conversations.take_part(tx, where.id)
    record = sender_record(_as_message(settings, spawn, where, starter, await tx.now()))
    turn = await turns.enqueue(
        tx,
        NewTurn(
            account=settings.account,
            conversation=where.id,
            session_key=session,
            seq=seq,
            order_key=snowflake(starter.message_id),
            idempotency_key=f"spawn:{spawn.id}",
            arrival=Arrival(record, spawn.task, ()),
            requester_id=spawn.requester_id,
            requester_name=spawn.requester_name,
            requester_is_bot=spawn.requester_is_bot,
            trigger=starter,
            thread_delivery=await deliveries.thread_of(tx, where.id),
            source=TurnSource.SPAWN,
        ),
    )
    await streams.ensure(tx, turn, settings.account, "queued")
    if settings.reactions.enabled:
        await reactions.wish(tx, turn, settings.reactions.emojis.queued or None, await tx.now())
    return turn


def _as_message(
    settings: Settings,
    spawn: Spawn,
    where: Conversation,
    starter: MessageRef,
    now: datetime,
) -> InboundMessage:
    """The task as somebody says it: the person who asked for it, or the agent that gives it."""
    by_agent = spawn.parent_turn is not None
    author = Author(
        id=PlatformId(settings.account) if by_agent else spawn.requester_id,
        name=spawn.requester_name,
        display_name=spawn.requester_name,
        kind=AuthorKind.BOT if by_agent or spawn.requester_is_bot else AuthorKind.HUMAN,
    )
    return InboundMessage(
        conversation=where.ref,
        place=where.place,
        message_id=starter.message_id,
        author=author,
        text=spawn.task,
        sent_at=now.astimezone(UTC),
    )
