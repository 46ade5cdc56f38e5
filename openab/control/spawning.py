"""Gives a task to a sub-agent: judged, and owed as a row and the message that its thread will hang on."""

from dataclasses import dataclass

import structlog

from openab.control.elsewhere import owe_in, parent_of
from openab.control.retire import owe_notice
from openab.control.settings import Settings
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.gates import place_refusal
from openab.domain.ids import PlatformId, SessionKey, SpawnId, TurnId
from openab.domain.message import Place
from openab.domain.outbound import presentation_body
from openab.domain.spawn import Refused, SpawnRefusal, SpawnState, Standing, refusal
from openab.domain.turn import TurnSource
from openab.storage import conversations, deliveries, sessions, spawns, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery, Owed
from openab.storage.engine import Transaction
from openab.storage.spawns import NewSpawn, Spawn
from openab.storage.turns import Turn
from openab.text import spawn_words

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody wants a sub-agent to do something."""

    agent: str
    task: str
    #: For whom it is done, and who is told.
    requester_id: PlatformId
    requester_name: str
    requester_is_bot: bool
    #: Where it was asked for.
    at: Conversation
    #: The session that learns the result; None: no agent does.
    parent_session: SessionKey | None
    #: The turn whose output asks; None: a person does.
    parent_turn: TurnId | None = None


async def spawn(tx: Transaction, settings: Settings, asked: Asked) -> SpawnId | SpawnRefusal:
    """Owe the spawn, or say why not; the caller holds the conversation's row, and tells people.

    Nothing else is made before the starter message is on the network (`children.open_child`).
    """
    channel = await _channel(tx, asked.at)
    standing = await _standing(tx, asked)
    refused = refusal(
        settings.binding.spawns,
        standing,
        is_known=asked.agent in settings.named_agents(),
        has_task=bool(asked.task.strip()),
        has_threads=channel is not None and _is_ours_to_use(settings, channel),
    )
    if refused is not None or channel is None:
        refused = refused or SpawnRefusal.NO_THREADS_HERE
        tx.after_commit(lambda: log.info("spawn_refused", agent=asked.agent, reason=refused.value))
        return refused
    planned = spawns.planned_id()
    starter = await deliveries.owe(
        tx,
        Owed(
            account=settings.account,
            conversation=channel.id,
            key=f"spawn:{planned}:starter:v1",
            kind=DeliveryKind.CREATE,
            purpose=Purpose.STARTER,
            body=presentation_body(
                spawn_words.starter(asked.agent, asked.requester_name, asked.task)
            ),
            seq=await conversations.take_seq(tx, channel.id),
            is_owed=False,
        ),
    )
    assert starter is not None
    await spawns.add(tx, planned, _new(settings, asked, standing), starter)
    tx.after_commit(lambda: log.info("spawn_owed", spawn=planned, agent=asked.agent))
    return planned


def without_task(settings: Settings, agent: str) -> SpawnRefusal:
    """Why an output that asks for this sub-agent and says nothing else starts none."""
    limits, is_known = settings.binding.spawns, agent in settings.named_agents()
    nobody = Standing(depth=0, at_work=0, in_a_row=0)
    found = refusal(limits, nobody, is_known=is_known, has_task=False, has_threads=True)
    return found or SpawnRefusal.NO_TASK


async def spawn_from(
    tx: Transaction, settings: Settings, where: Conversation, turn: Turn, agent: str, task: str
) -> None:
    """What a complete output asks for, in the transaction that ends its turn; a refusal is told here.

    But for one without a task: that is told by the turn's final, which has nothing else to say.
    """
    asked = Asked(
        agent=agent,
        task=task,
        requester_id=turn.requester_id,
        requester_name=turn.requester_name,
        requester_is_bot=turn.requester_is_bot,
        at=where,
        parent_session=turn.session_key,
        parent_turn=turn.id,
    )
    made = await spawn(tx, settings, asked)
    if isinstance(made, SpawnRefusal):
        await turns.log(tx, turn.id, "spawn_refused", {"agent": agent, "reason": made.value})
        if task.strip():
            text = spawn_words.refused(agent, made)
            await owe_notice(tx, turn, f"turn:{turn.id}:spawn:v1", text)
    else:
        await turns.log(tx, turn.id, "spawn_owed", {"agent": agent, "spawn": made})


async def hold_for_spawn(tx: Transaction, at: Conversation) -> None:
    """Lock where a spawn is asked for and where its starter is owed, in everybody's order."""
    channel = await _channel(tx, at)
    await conversations.hold_several(tx, (at.id, channel.id if channel else at.id))


async def hold_for_starter(tx: Transaction, starter: Delivery) -> None:
    """Lock what the fate of a starter is told in, before anything else is locked."""
    spawn = await spawns.of_starter(tx, starter.id) if starter.purpose is Purpose.STARTER else None
    if spawn is not None:
        places = (starter.conversation, spawn.requester_conversation)
        await conversations.hold_several(tx, places)


async def refuse(tx: Transaction, settings: Settings, spawn: Spawn, reason: SpawnRefusal) -> None:
    """It never begins: told where it was asked for, and nothing of it is left behind."""
    if spawn.state is not SpawnState.OWED:
        return
    await spawns.record(tx, spawn, Refused(reason), reason=reason.value, settled_at=await tx.now())
    where = await conversations.get(tx, spawn.requester_conversation)
    body = presentation_body(spawn_words.refused(spawn.agent, reason))
    await owe_in(tx, settings, where, f"spawn:{spawn.id}:refused:v1", body)
    tx.after_commit(
        lambda: log.warning("spawn_refused", spawn=spawn.id, agent=spawn.agent, reason=reason.value)
    )


async def _channel(tx: Transaction, at: Conversation) -> Conversation | None:
    """Where the starter stands: threads hang in channels only."""
    return at if at.place is Place.CHANNEL else await parent_of(tx, at)


def _is_ours_to_use(settings: Settings, channel: Conversation) -> bool:
    """Whether people are heard there; a thread can be allowed though the channel above it is not."""
    ref, policy = channel.ref, settings.policy()
    refusal = place_refusal(channel.place, ref.conversation_id, ref.parent_conversation_id, policy)
    return refusal is None and not channel.is_closed


async def _standing(tx: Transaction, asked: Asked) -> Standing:
    parent = asked.parent_session
    if parent:
        # Two conversations that are bound to it may ask at the same moment.
        await sessions.locked(tx, parent)
    above = await spawns.of_session(tx, parent) if parent else None
    return Standing(
        depth=1 + (above.depth if above else 0),
        at_work=len(await spawns.at_work_for(tx, parent))
        if parent
        else await spawns.at_work_in(tx, asked.at.id),
        in_a_row=1 + await _before(tx, asked.parent_turn),
    )


async def _before(tx: Transaction, turn_id: TurnId | None) -> int:
    """How many spawns led to this one without a person's word between."""
    turn = await turns.get(tx, turn_id) if turn_id else None
    if turn is None:
        return 0
    if turn.source is TurnSource.SPAWN:
        led = await spawns.of_turn(tx, turn.id)
    elif turn.source is TurnSource.COMPLETION:
        led = await spawns.of_turn(tx, completed_by(turn.idempotency_key))
    else:
        return 0
    return led.in_a_row if led else 0


def completion_key(turn: TurnId) -> str:
    """The idempotency key of the turn by which a parent learns what became of a sub-agent's turn."""
    return f"completion:{turn}"


def completed_by(key: str) -> TurnId:
    """The sub-agent's turn that such a key names."""
    return TurnId(key.partition(":")[2])


def _new(settings: Settings, asked: Asked, standing: Standing) -> NewSpawn:
    return NewSpawn(
        account=settings.account,
        agent=asked.agent,
        task=asked.task,
        depth=standing.depth,
        in_a_row=standing.in_a_row,
        requester_conversation=asked.at.id,
        parent_session=asked.parent_session,
        parent_turn=asked.parent_turn,
        requester_id=asked.requester_id,
        requester_name=asked.requester_name,
        requester_is_bot=asked.requester_is_bot,
    )
