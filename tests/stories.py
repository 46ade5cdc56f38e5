"""Databases with something to tell: a turn that failed, one that waits, ignored messages, a sub-agent's task."""

from dataclasses import replace

from openab.control.spawning import completion_key
from openab.domain.delivery import Begun, Confirmed, DeadReason, DeliveryKind, GivenUp, Purpose
from openab.domain.gates import Disposition
from openab.domain.ids import (
    AccountId,
    ChannelName,
    ConversationRef,
    DeliveryId,
    MessageRef,
    PlatformId,
    SpawnId,
    TurnId,
    WorkerId,
)
from openab.domain.message import Place
from openab.domain.outbound import MessageBody
from openab.domain.spawn import Finished, Opened, SpawnEvent
from openab.domain.turn import Claimed, Ended, Outcome
from openab.storage import conversations, deliveries, inbox, sessions, spawns, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Owed
from openab.storage.engine import Database, Transaction
from openab.storage.inbox import Entry
from openab.storage.turns import Arrival, NewTurn
from tests.builders import (
    HOME,
    a_binding,
    a_conversation,
    a_delivery,
    a_new_turn,
    a_session,
    a_spawn,
    a_turn,
)

ACCOUNT = AccountId("100000000000000001")
THREAD = PlatformId("200000000000000002")
ASKED, WAITING, IGNORED, REPLY = (f"30000000000000000{n}" for n in range(4))
#: A name that would clear a terminal, holds NUL and half of a surrogate pair.
NAME = "Ada \x1b[2J\x00\ud83d [red]"
SECRET_ANSWER = "what was answered"
WORKER = WorkerId("1-test")


async def tell(database: Database) -> tuple[TurnId, TurnId]:
    """A failed turn whose second part could not be sent, one queued behind it; who is ignored."""
    async with database.transaction() as tx:
        ref = ConversationRef(ChannelName("discord"), ACCOUNT, THREAD)
        where = await conversations.ensure(tx, ref, Place.THREAD)
        session = await sessions.ensure(tx, where, agent="codex-acp", working_dir="/work")
        failed = await _turn(tx, where, ASKED)
        waiting = await _turn(tx, where, WAITING)
        await _see(tx, ASKED, Disposition.TURN, "accepted", failed)
        await _see(tx, WAITING, Disposition.TURN, "accepted", waiting)
        await _see(tx, IGNORED, Disposition.IGNORED, "not_mentioned", None)
        assert session.key == ref.session_key()
    await _fail(database, where, failed)
    return failed, waiting


async def _turn(tx: Transaction, where: Conversation, message: str) -> TurnId:
    return await turns.enqueue(
        tx,
        NewTurn(
            account=ACCOUNT,
            conversation=where.id,
            session_key=where.ref.session_key(),
            seq=await conversations.take_seq(tx, where.id),
            order_key=int(message),
            idempotency_key=f"message:{message}",
            arrival=Arrival({}, "build it"),
            requester_id=PlatformId("400000000000000004"),
            requester_name=NAME,
            requester_is_bot=False,
            trigger=MessageRef(THREAD, PlatformId(message)),
        ),
    )


async def _see(
    tx: Transaction, message: str, became: Disposition, reason: str, turn: TurnId | None
) -> None:
    await inbox.add(
        tx,
        Entry(
            ACCOUNT,
            "message",
            message,
            THREAD,
            PlatformId("400000000000000004"),
            became,
            reason,
            turn,
        ),
    )


async def _fail(database: Database, where: Conversation, turn_id: TurnId) -> None:
    error = {"kind": "auth_required", "message": "log in \x1b]0;first\x07", "stderr_tail": "a\nbye"}
    async with database.transaction() as tx:
        turn = await turns.get(tx, turn_id)
        assert turn is not None
        await turns.record(tx, turn, Claimed(), started_at=await tx.now())
        turn = await turns.get(tx, turn_id)
        assert turn is not None
        ended = Ended(Outcome.FAILED)
        at, raw = await tx.now(), SECRET_ANSWER
        await turns.record(tx, turn, ended, outcome="failed", raw=raw, error=error, answered_at=at)
        await _owe(tx, where, turn_id, 1)
        await _owe(tx, where, turn_id, 2)
        first, second = await deliveries.of_turn(tx, turn_id)
        begun = await deliveries.record(tx, first, Begun())
        await deliveries.record(tx, begun, Confirmed(), platform_id=REPLY)
        begun = await deliveries.record(tx, second, Begun())
        reason = GivenUp(DeadReason.FORBIDDEN)
        await deliveries.record(tx, begun, reason, dead_detail="50013 Missing Permissions")


async def _owe(tx: Transaction, where: Conversation, turn: TurnId, part: int) -> None:
    await deliveries.owe(
        tx,
        Owed(
            account=ACCOUNT,
            conversation=where.id,
            key=f"turn:{turn}:final:{part}:v1",
            kind=DeliveryKind.CREATE,
            purpose=Purpose.FINAL,
            body=MessageBody(SECRET_ANSWER),
            seq=await conversations.take_seq(tx, where.id),
            turn=turn,
            part=part,
        ),
    )


STARTER, INTRO, TASK, ANSWER, TOLD, GIVING, OTHER = (f"70000000000000000{n}" for n in range(7))
SECRET_TASK = "what it is to do"


async def give(database: Database) -> SpawnId:
    """A turn's output gave a task to a sub-agent, which has answered; its parent has been told."""
    async with database.transaction() as tx:
        home = await a_conversation(tx)
        thread = await a_conversation(tx, STARTER, HOME)
        asking = await a_turn(tx, home, GIVING)
        session = await a_session(tx, thread, "luna")
        work = await turns.enqueue(
            tx, replace(a_new_turn(thread, STARTER, "spawn"), session_key=session)
        )
        starter = await _sent(tx, home, STARTER, "starter", purpose=Purpose.STARTER)
        made = await a_spawn(
            tx, home, starter, task=SECRET_TASK, requester_name=NAME, parent_turn=asking
        )
        await _sent(tx, thread, TASK, f"spawn:{made}:task:v1")
        binding = await a_binding(tx, thread, session)
        await _sent(tx, thread, INTRO, f"binding:{binding}:intro")
        await _sent(tx, thread, ANSWER, "answer", turn=work, purpose=Purpose.FINAL)
        told = replace(a_new_turn(home, OTHER, "completion"), idempotency_key=completion_key(work))
        informing = await turns.enqueue(tx, told)
        await _sent(tx, home, TOLD, "told", turn=informing, purpose=Purpose.FINAL)
        await _spawn_to(tx, made, Opened(), session_key=session, turn_id=work)
        await _spawn_to(tx, made, Finished(), settled_at=await tx.now())
    return made


async def _spawn_to(tx: Transaction, made: SpawnId, event: SpawnEvent, **values: object) -> None:
    found = await spawns.get(tx, made)
    assert found is not None
    await spawns.record(tx, found, event, **values)


async def _sent(
    tx: Transaction, where: Conversation, message: str, key: str, **changes: object
) -> DeliveryId:
    made = await a_delivery(tx, where, key, **changes)  # type: ignore[arg-type]
    row = await deliveries.get(tx, made)
    assert row is not None
    begun = await deliveries.record(tx, row, Begun())
    await deliveries.record(tx, begun, Confirmed(), platform_id=message)
    return made
