"""Finished rows go after their time, in small steps; nothing open or owed ever does."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from openab.control import retention as sweeping
from openab.control.retention import MARK_MARGIN, Retention
from openab.control.services import Counters
from openab.domain.binding import Cleared, EndReason, Reattached, Unbound
from openab.domain.delivery import Begun, Confirmed, DeliveryKind, Doubtful, Purpose
from openab.domain.gates import Disposition
from openab.domain.ids import (
    BindingId,
    DeliveryId,
    Incarnation,
    PlatformId,
    SessionKey,
    SpawnId,
    TurnId,
)
from openab.domain.spawn import Finished, Held, Opened, SpawnEvent
from openab.domain.turn import Claimed, Ended, Outcome, SettledDone, TurnEvent
from openab.ports.agent import AgentSession
from openab.ports.tasks import end, spawn
from openab.storage import (
    accounts,
    bindings,
    conversations,
    counts,
    deliveries,
    handoffs,
    inbox,
    reactions,
    retention,
    sessions,
    spawns,
    streams,
    turns,
    webhooks,
)
from openab.storage.conversations import Conversation
from openab.storage.engine import Database, Transaction
from openab.storage.inbox import Entry
from openab.storage.schema import metadata
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    HOME,
    Offset,
    a_binding,
    a_claim,
    a_conversation,
    a_delivery,
    a_new_turn,
    a_ref,
    a_session,
    a_spawn,
    a_spec,
    a_turn,
    an_incoming,
    some_settings,
)
from tests.conformance.binding_stage import HOUR, Network
from tests.conformance.control_stage import Stage, on_stage

_DAY = 86_400.0
KEEP = timedelta(days=30)


@dataclass
class Sweeper:
    """A retention with its surroundings; the intake mark is as late as a test says."""

    stage: Stage
    retention: Retention
    offset: Offset
    counted: list[tuple[str, int]]
    mark_age: timedelta = timedelta(0)

    async def sweep(self, *, after_days: float = 31) -> dict[str, int]:
        """Let time pass, and sweep."""
        self.offset.pass_by(after_days * _DAY)
        return dict(await self.retention.sweep())


@pytest.fixture
def sweeper(database: Database) -> Sweeper:
    return _sweeper(database)


def _sweeper(database: Database, keep: timedelta = KEEP) -> Sweeper:
    offset, counted = Offset(database), list[tuple[str, int]]()
    stage = Stage(database, some_settings(keep=keep))
    object.__setattr__(
        stage.services,
        "counters",
        Counters(deleted=lambda table, rows: counted.append((table, rows))),
    )

    def moment_of(_mark: PlatformId) -> datetime:
        return datetime.now().astimezone() + offset.value - made.mark_age

    made = Sweeper(stage, Retention(stage.services, moment_of, rest=timedelta(0)), offset, counted)
    return made


async def _rows(database: Database) -> dict[str, int]:
    async with database.read() as tx:
        found = {
            name: (await tx.execute(sa.select(sa.func.count()).select_from(table))).scalar_one()
            for name, table in metadata.tables.items()
        }
    return {name: rows for name, rows in found.items() if rows and name not in retention.KEPT}


async def _mark(tx: Transaction) -> None:
    await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
    await accounts.move_mark(tx, CHANNEL, ACCOUNT, PlatformId("9999"))


async def _seen(tx: Transaction, key: str, turn: TurnId | None = None) -> None:
    disposition = Disposition.TURN if turn else Disposition.IGNORED
    entry = Entry(ACCOUNT, "message", key, HOME, PlatformId("31"), disposition, "said", turn)
    assert await inbox.add(tx, entry)


async def _sent(tx: Transaction, where: Conversation, key: str, **changes: Any) -> None:
    made = await deliveries.get(tx, await a_delivery(tx, where, key, **changes))
    assert made
    begun = await deliveries.record(tx, made, Begun())
    await deliveries.record(tx, begun, Confirmed())


async def _ended(tx: Transaction, turn: TurnId, *, settle: bool = True) -> None:
    steps: list[tuple[TurnEvent, dict[str, Any]]] = [
        (Claimed(), {}),
        (Ended(Outcome.COMPLETED), {"outcome": "completed"}),
    ]
    if settle:
        steps.append((SettledDone(), {"settled_at": await tx.now()}))
    for event, values in steps:
        known = await turns.get(tx, turn)
        assert known
        await turns.record(tx, known, event, **values)


async def _settled_turn(
    tx: Transaction, where: Conversation, message: str = "1000", *, settle: bool = True
) -> TurnId:
    """A turn with everything that a turn has, all of it finished."""
    turn = await a_turn(tx, where, message)
    await _seen(tx, message, turn)
    await streams.ensure(tx, turn, ACCOUNT, "working")
    await streams.advance(tx, [streams.Progress(turn, (streams.Segment(1, "a", False),), 1, [], "working")])  # fmt: skip
    await reactions.wish(tx, turn, "🆗", await tx.now())
    one = (await reactions.of_turn(tx, turn))[0]
    await reactions.note(tx, one, ["🆗"], None, 1)
    await _sent(tx, where, f"turn:{turn}:final:1:v1", turn=turn, purpose=Purpose.FINAL)
    await _ended(tx, turn, settle=settle)
    return turn


async def _closed(tx: Transaction, where: Conversation) -> None:
    await conversations.close(tx, where.id)


async def _moved(
    tx: Transaction, spawn: SpawnId, *events: SpawnEvent, session: SessionKey | None = None
) -> None:
    for event in events:
        known = await spawns.get(tx, spawn)
        assert known
        is_over = isinstance(event, Finished)
        values: dict[str, object] = {"settled_at": await tx.now()} if is_over else {}
        if session:
            values["session_key"] = session
        await spawns.record(tx, known, event, **values)


async def _unbound(tx: Transaction, binding: BindingId, *, clear: bool = True) -> None:
    found = await bindings.get(tx, binding)
    assert found
    reason = EndReason.ARCHIVED
    values = {"end_reason": reason.value, "ended_at": await tx.now()}
    await bindings.record(tx, found.binding, Unbound(reason), **values)
    found = await bindings.get(tx, binding)
    assert found
    if clear:
        await bindings.record(tx, found.binding, Cleared())


async def test_what_is_finished_goes_with_everything_that_is_its_own(
    database: Database, sweeper: Sweeper
) -> None:
    async with database.transaction() as tx:
        await _mark(tx)
        where = await a_conversation(tx)
        await _settled_turn(tx, where)
        await _sent(tx, where, "notice:v1")
        await _sent(tx, where, "thread:v1", kind=DeliveryKind.THREAD, purpose=Purpose.THREAD)
        await _seen(tx, "1001")
        assert await handoffs.accept(tx, an_incoming(), TurnId("gone")) is None
        child = await a_conversation(tx, "88", HOME)
        luna = await a_session(tx, child, "luna")
        await _unbound(tx, await a_binding(tx, child, luna))
        await _moved(tx, await a_spawn(tx, where), Opened(), Finished(), session=luna)
        await _closed(tx, where)
        await _closed(tx, child)
    filled = await _rows(database)
    assert set(filled) == retention.SWEPT
    assert await sweeper.sweep(after_days=29) == {}
    assert await _rows(database) == filled
    swept = await sweeper.sweep(after_days=2)
    assert swept == filled
    assert await _rows(database) == {}
    told: dict[str, int] = {}
    for table, rows in sweeper.counted:
        told[table] = told.get(table, 0) + rows
    assert told == swept


def test_every_table_is_swept_or_kept_with_a_reason() -> None:
    assert set(metadata.tables) == retention.SWEPT | retention.KEPT


async def test_a_run_on_the_stage_leaves_nothing_that_stays_for_ever(database: Database) -> None:
    """Whatever a whole run writes is settled by itself, so that retention finds it."""
    sweeper = _sweeper(database)
    async with on_stage(database, some_settings(), agents=sweeper.stage.agents) as stage:
        thread = "5000"
        for text in ("one", "two"):
            message = stage.say(text, thread=thread)
            await stage.settled(message)
        stage.say("not for you", thread="6000", mention=False)
        await stage.quiet()
    # With the process its agents ended.
    await sweeper.sweep()
    left = await _rows(database)
    assert set(left) == {"conversations"}


# What is open or owed stays, however old it is: each is the control of the condition it is named after.

Arrange = Callable[[Transaction, Conversation], Awaitable[object]]


async def _queued(tx: Transaction, where: Conversation) -> None:
    await _seen(tx, "1000", await a_turn(tx, where))


async def _running(tx: Transaction, where: Conversation) -> None:
    turn = await a_turn(tx, where)
    known = await turns.get(tx, turn)
    assert known
    await turns.record(tx, known, Claimed())


async def _answered(tx: Transaction, where: Conversation) -> None:
    await _settled_turn(tx, where, settle=False)


async def _settled_but_a_row_is_open(tx: Transaction, where: Conversation) -> None:
    turn = await _settled_turn(tx, where)
    await a_delivery(tx, where, "retire:v1", turn=turn, is_owed=False)


async def _settled_but_told_elsewhere(tx: Transaction, where: Conversation) -> None:
    turn = await _settled_turn(tx, where)
    await a_delivery(tx, await a_conversation(tx, "88"), "told:v1", turn=turn)


async def _settled_but_a_reaction_is_due(tx: Transaction, where: Conversation) -> None:
    turn = await _settled_turn(tx, where)
    await reactions.wish(tx, turn, "🆗", await tx.now())


async def _beside_a_doubt(tx: Transaction, where: Conversation) -> None:
    """History shows our messages: which of them are known decides about the one in doubt."""
    await _settled_turn(tx, where)
    await _sent(tx, where, "notice:v1")
    doubt = await deliveries.get(tx, await a_delivery(tx, where, "doubt:v1"))
    assert doubt
    await deliveries.record(tx, await deliveries.record(tx, doubt, Begun()), Doubtful())


async def _notice(tx: Transaction, where: Conversation) -> None:
    await a_delivery(tx, where, "notice:v1")


async def _bound(tx: Transaction, where: Conversation) -> None:
    await a_binding(tx, where, await a_session(tx, await a_conversation(tx, "88")))


async def _farewell_owed(tx: Transaction, where: Conversation) -> None:
    session = await a_session(tx, await a_conversation(tx, "88"))
    await _unbound(tx, await a_binding(tx, where, session), clear=False)


async def _spawn_owed(tx: Transaction, where: Conversation) -> None:
    await a_spawn(tx, where)


async def _completion_held(tx: Transaction, where: Conversation) -> None:
    luna = await a_session(tx, where, "luna")
    await _moved(tx, await a_spawn(tx, where), Opened(), Held(), session=luna)


@pytest.mark.parametrize(
    "arrange",
    [
        _bound,
        _farewell_owed,
        _spawn_owed,
        _completion_held,
        _queued,
        _running,
        _answered,
        _settled_but_a_row_is_open,
        _settled_but_told_elsewhere,
        _settled_but_a_reaction_is_due,
        _beside_a_doubt,
        _notice,
    ],
)
async def test_what_is_open_or_owed_stays_with_all_it_belongs_to(
    database: Database, sweeper: Sweeper, arrange: Arrange
) -> None:
    async with database.transaction() as tx:
        await _mark(tx)
        where = await a_conversation(tx)
        await arrange(tx, where)
        await _closed(tx, where)
    before = await _rows(database)
    assert await sweeper.sweep(after_days=1000) == {}
    assert await _rows(database) == before


async def test_the_row_that_opened_a_thread_stays_as_long_as_its_turn(
    database: Database, sweeper: Sweeper
) -> None:
    async with database.transaction() as tx:
        await _mark(tx)
        where = await a_conversation(tx)
        thread = await a_delivery(tx, where, "thread:v1", kind=DeliveryKind.THREAD)
        await sessions.ensure(tx, where, agent="agent", working_dir="/tmp")
        new = a_new_turn(where, "1000")
        object.__setattr__(new, "thread_delivery", thread)
        await turns.enqueue(tx, new, TurnId("turn-1"))
        made = await deliveries.get(tx, thread)
        assert made
        await deliveries.record(tx, await deliveries.record(tx, made, Begun()), Confirmed())
    assert await sweeper.sweep() == {}


async def test_what_another_account_has_is_its_own_affair(
    database: Database, sweeper: Sweeper
) -> None:
    async with database.transaction() as tx:
        await _mark(tx)
        where = await a_conversation(tx)
        await _settled_turn(tx, where)
        await _sent(tx, where, "notice:v1")
        for table in metadata.tables.values():
            if "account" in table.c and table.name != "accounts":
                await tx.execute(sa.update(table).values(account="901"))
    before = await _rows(database)
    assert await sweeper.sweep() == {}
    assert await _rows(database) == before


async def test_what_a_backfill_could_meet_again_stays(database: Database, sweeper: Sweeper) -> None:
    """A bot that nobody wrote to for long has an old mark: its next backfill begins there."""
    async with database.transaction() as tx:
        await _mark(tx)
        where = await a_conversation(tx)
        await _settled_turn(tx, where)
        await _sent(tx, where, "skipped:v1")
    before = await _rows(database)
    sweeper.mark_age = timedelta(days=100) - MARK_MARGIN / 2
    assert await sweeper.sweep(after_days=100) == {}
    assert await _rows(database) == before
    sweeper.mark_age = timedelta(days=100) - MARK_MARGIN * 2
    assert await sweeper.sweep(after_days=0)


async def test_where_no_message_ever_came_nothing_goes(
    database: Database, sweeper: Sweeper
) -> None:
    async with database.transaction() as tx:
        await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
        await _seen(tx, "1000")
    assert await sweeper.sweep() == {}


async def test_a_place_where_we_took_part_stays(database: Database, sweeper: Sweeper) -> None:
    async with database.transaction() as tx:
        await _mark(tx)
        where = await a_conversation(tx)
        await conversations.mark_involved(tx, where.id)
        await _settled_turn(tx, where)
    await sweeper.sweep()
    assert await _rows(database) == {"conversations": 1}
    async with database.read() as tx:
        assert (await conversations.get(tx, where.id)).is_involved


class TestASession:
    async def test_whose_agent_lives_stays(self, database: Database, sweeper: Sweeper) -> None:
        agents = sweeper.stage.agents
        async with database.transaction() as tx:
            await _mark(tx)
            session = await sessions.ensure(tx, await a_conversation(tx), agent="a", working_dir="")
        name = AgentSession(database.id, session.key, session.generation, session.epoch)
        await agents.open(name, a_spec(), None)
        assert await sweeper.sweep() == {}
        await agents.close(name)
        assert await sweeper.sweep(after_days=0) == {"sessions": 1}

    async def test_whose_former_agent_is_to_be_ended_stays(
        self, database: Database, sweeper: Sweeper
    ) -> None:
        async with database.transaction() as tx:
            await _mark(tx)
            session = await sessions.ensure(tx, await a_conversation(tx), agent="a", working_dir="")
            session = await sessions.take(tx, session.key, Incarnation("host-1"))
            await sessions.reset(tx, session)
        assert await sweeper.sweep() == {}

    async def test_that_is_made_anew_is_not_taken_for_an_old_commander(
        self, database: Database, sweeper: Sweeper
    ) -> None:
        async with database.transaction() as tx:
            await _mark(tx)
            where = await a_conversation(tx)
            await sessions.ensure(tx, where, agent="a", working_dir="")
            key = where.ref.session_key()
            for _ in range(50):
                old = await sessions.take(tx, key, Incarnation("host-1"))
        assert await sweeper.sweep() == {"sessions": 1}
        async with database.transaction() as tx:
            new = await sessions.ensure(tx, where, agent="a", working_dir="")
        assert new.epoch > old.epoch

    async def test_that_gets_a_turn_at_this_moment_stays(self, postgres_database: Database) -> None:
        """Whoever gives it one has locked its conversation, and holds on to the session that it read."""
        sweeper = _sweeper(postgres_database)
        async with postgres_database.transaction() as tx:
            await _mark(tx)
            where = await a_conversation(tx)
            await sessions.ensure(tx, where, agent="a", working_dir="")
        async with postgres_database.transaction() as tx:
            await conversations.mark_involved(tx, where.id)
            session = await sessions.ensure(tx, where, agent="a", working_dir="")
            async with asyncio.TaskGroup() as group:
                swept = group.create_task(sweeper.sweep(), context=Context())
            await turns.enqueue(tx, a_new_turn(where, "1000"), TurnId("turn-1"))
        assert swept.result() == {}
        async with postgres_database.read() as tx:
            assert await sessions.get(tx, session.key)

    async def test_that_is_bound_somewhere_stays_and_so_does_what_it_was_made_for(
        self, database: Database, sweeper: Sweeper
    ) -> None:
        """A sub-agent that people talk to for months may not start others like an ordinary session."""
        async with database.transaction() as tx:
            await _mark(tx)
            where = await a_conversation(tx)
            luna = await a_session(tx, where, "luna")
            binding = await a_binding(tx, where, luna)
            await _moved(tx, await a_spawn(tx, where), Opened(), Finished(), session=luna)
        assert await sweeper.sweep() == {}
        async with database.transaction() as tx:
            await _unbound(tx, binding)
        assert await sweeper.sweep(after_days=29) == {}
        swept = await sweeper.sweep(after_days=2)
        assert swept == {"bindings": 1, "sessions": 1, "spawns": 1}

    async def test_that_is_bound_at_this_moment_stays(self, postgres_database: Database) -> None:
        sweeper = _sweeper(postgres_database)
        async with postgres_database.transaction() as tx:
            await _mark(tx)
            session = await a_session(tx, await a_conversation(tx))
            other = await a_conversation(tx, "88")
        async with postgres_database.transaction() as tx:
            await a_binding(tx, other, session)
            async with asyncio.TaskGroup() as group:
                swept = group.create_task(sweeper.sweep(), context=Context())
        assert swept.result() == {}
        async with postgres_database.read() as tx:
            assert await sessions.get(tx, session)


async def test_a_binding_that_goes_on_at_this_moment_stays(postgres_database: Database) -> None:
    sweeper = _sweeper(postgres_database)
    async with postgres_database.transaction() as tx:
        await _mark(tx)
        where = await a_conversation(tx)
        binding = await a_binding(tx, where, await a_session(tx, where))
        await _unbound(tx, binding)
    async with postgres_database.transaction() as tx:
        found = await bindings.get(tx, binding)
        assert found
        await bindings.record(tx, found.binding, Reattached(), end_reason=None, ended_at=None)
        async with asyncio.TaskGroup() as group:
            swept = group.create_task(sweeper.sweep(), context=Context())
    assert swept.result() == {}
    async with postgres_database.read() as tx:
        assert await bindings.get(tx, binding)


async def test_a_closed_place_where_somebody_speaks_at_this_moment_is_made_anew(
    postgres_database: Database,
) -> None:
    sweeper = _sweeper(postgres_database)
    async with postgres_database.transaction() as tx:
        await _mark(tx)
        await _closed(tx, await a_conversation(tx))
    async with postgres_database.transaction() as tx:
        where = await conversations.ensure(tx, a_ref(), (await a_conversation(tx)).place)
        async with asyncio.TaskGroup() as group:
            swept = group.create_task(sweeper.sweep(), context=Context())
        await a_delivery(tx, where)
    assert swept.result() == {}


class TestSteps:
    TURNS = sweeping.TURNS_A_STEP * 2 + 1

    @pytest.fixture
    async def much(self, database: Database, sweeper: Sweeper) -> int:
        async with database.transaction() as tx:
            await _mark(tx)
            where = await a_conversation(tx)
            for number in range(self.TURNS):
                await _settled_turn(tx, where, str(1000 + number))
                sweeper.offset.pass_by(1)
        return sum((await _rows(database)).values())

    @pytest.mark.usefixtures("much")
    async def test_are_small_and_take_the_oldest_first(
        self, database: Database, sweeper: Sweeper
    ) -> None:
        sizes: list[int] = []
        once = sweeper.retention._counted

        async def counted(step: Any) -> Any:
            deleted = await once(step)
            sizes.append(sum(deleted.values()))
            return deleted

        sweeper.retention._counted = counted  # type: ignore[method-assign]
        await sweeper.sweep()
        assert max(sizes) <= max(sweeping.ROWS_A_STEP, 15 * sweeping.TURNS_A_STEP)
        assert len(sizes) >= 3
        assert await _rows(database) == {"conversations": 1}

    async def test_may_be_cut_off_anywhere_and_are_taken_up_again(
        self, database: Database, sweeper: Sweeper, much: int
    ) -> None:
        async with database.read() as tx:
            oldest = (await turns.listed(tx))[-1]["id"]
        sweeper.offset.pass_by(31 * _DAY)
        going = spawn("sweep", sweeper.retention.sweep())
        await sweeper.stage.signals.wait("retention_step")
        await end(going)
        left = await _rows(database)
        assert 0 < sum(left.values()) < much
        # Nothing is torn apart: every turn that is left has what it had.
        assert left["turns"] == left["deliveries"] == left["streams"] == left["stream_segments"]
        async with database.read() as tx:
            assert await turns.get(tx, oldest) is None
        await sweeper.sweep(after_days=0)
        assert await _rows(database) == {"conversations": 1}

    @pytest.mark.usefixtures("much")
    async def test_let_others_write_between_them(
        self, database: Database, sweeper: Sweeper
    ) -> None:
        once, written = sweeper.retention._counted, list[str]()

        async def counted(step: Any) -> Any:
            deleted = await once(step)
            async with asyncio.timeout(10), database.transaction() as tx:
                await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
            written.append("bot")
            return deleted

        sweeper.retention._counted = counted  # type: ignore[method-assign]
        assert await sweeper.sweep()
        assert len(written) >= 3


async def test_to_keep_for_good_is_to_do_nothing(database: Database) -> None:
    sweeper = _sweeper(database, keep=timedelta(0))
    async with database.transaction() as tx:
        await _mark(tx)
        await _settled_turn(tx, await a_conversation(tx))
    sweeper.offset.pass_by(10_000 * _DAY)
    async with asyncio.timeout(10):
        await sweeper.retention.run()
    assert (await _rows(database))["turns"] == 1


async def test_a_database_that_is_away_ends_no_sweeper(database: Database) -> None:
    sweeper = _sweeper(database)
    await database.close()
    going = spawn("retention", sweeper.retention.run())
    await asyncio.wait({going}, timeout=0.2)
    assert not going.done()
    await end(going)


class TestPlans:
    """No statement that runs all the time, and none of retention, reads a table from end to end."""

    @asynccontextmanager
    async def statements(self, database: Database) -> AsyncIterator[list[tuple[str, Any]]]:
        seen: list[tuple[str, Any]] = []

        def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            seen.append((statement, parameters))

        engines = [database._dialect.reader, database._dialect.writer]
        for engine in engines:
            sa.event.listen(engine.sync_engine, "before_cursor_execute", note)
        yield seen
        for engine in engines:
            sa.event.remove(engine.sync_engine, "before_cursor_execute", note)

    async def scans(self, database: Database, seen: list[tuple[str, Any]]) -> list[str]:
        return [
            f"{statement}\n{steps}"
            for statement, steps in await self.explained(database, seen)
            if any(re.match(r"SCAN (?!CONSTANT|\(|free)\w+$", step) for step in steps)
        ]

    async def plans(self, database: Database, seen: list[tuple[str, Any]]) -> list[str]:
        """Every step of every statement."""
        return [step for _, steps in await self.explained(database, seen) for step in steps]

    async def explained(
        self, database: Database, seen: list[tuple[str, Any]]
    ) -> list[tuple[str, list[str]]]:
        found: list[tuple[str, list[str]]] = []
        async with database.read() as tx:
            connection = await tx._connection.get_raw_connection()
            raw: Any = connection.driver_connection
            for statement, parameters in list(seen):
                if statement.startswith(("BEGIN", "SAVEPOINT", "RELEASE", "INSERT", "PRAGMA")):
                    continue
                plan = await raw.execute_fetchall(f"EXPLAIN QUERY PLAN {statement}", parameters)
                found.append((statement, [row[3] for row in plan]))
        return found

    async def test_of_retention(self, sqlite_database: Database) -> None:
        sweeper = _sweeper(sqlite_database)
        async with sqlite_database.transaction() as tx:
            await _mark(tx)
            where = await a_conversation(tx)
            await _settled_turn(tx, where)
            await _sent(tx, where, "notice:v1")
            await _closed(tx, where)
        async with self.statements(sqlite_database) as seen:
            await sweeper.sweep()
        assert len(seen) > 20
        assert await self.scans(sqlite_database, seen) == []

    async def test_of_what_every_message_costs(self, sqlite_database: Database) -> None:
        settings = some_settings()
        async with self.statements(sqlite_database) as seen:
            async with on_stage(sqlite_database, settings) as stage:
                message = stage.say("one", thread="5000")
                await stage.settled(message)
                await stage.quiet()
            await a_claim(sqlite_database)
            async with sqlite_database.read() as tx:
                where = await conversations.find(tx, a_ref("5000", HOME))
                assert where
                await turns.transcript(tx, where.ref.session_key())
                await deliveries.head(tx, where.id)
                await turns.open_of(tx, where.id)
        ours = [one for one in seen if "FROM accounts" not in one[0] and "alembic" not in one[0]]
        assert len(ours) > 20
        assert [
            scan
            for scan in await self.scans(sqlite_database, ours)
            # What the stage itself asks to see how far it is.
            if "ORDER BY turns.created_at DESC" not in scan
        ] == []

    async def test_of_bindings(self, sqlite_database: Database) -> None:
        net = Network(sqlite_database, "rooms")
        session, other = await net.session("40"), await net.session("41")
        async with self.statements(sqlite_database) as seen:
            await net.bind(session, idle=HOUR)
            made = await net.bind(other, idle=HOUR)
            await net.resolve()
            await net.touch(made.binding_id)
            await net.unbind(made.binding_id, EndReason.ARCHIVED)
            await net.reattach()
            await net.of_session(other)
            net.clock.pass_by(3601)
            await net.sweep()
            async with sqlite_database.transaction() as tx:
                await bindings.touch_in(tx, await net.place(tx, "50"))
                await counts.open_bindings(tx, ACCOUNT)
        assert len(seen) > 40
        assert await self.scans(sqlite_database, seen) == []
        plans = await self.plans(sqlite_database, seen)
        for index in ("uq_bindings_active_conversation (", "ix_bindings_open ("):
            assert any(index in step for step in plans), index

    async def test_of_spawns_and_webhooks(self, sqlite_database: Database) -> None:
        async with sqlite_database.transaction() as tx:
            where = await a_conversation(tx)
            spawn_id = await a_spawn(tx, where)
        session = where.ref.session_key()
        async with (
            self.statements(sqlite_database) as seen,
            sqlite_database.transaction() as tx,
        ):
            assert await spawns.get(tx, spawn_id)
            assert await spawns.of_starter(tx, DeliveryId("starter-1"))
            assert await spawns.of_turn(tx, TurnId("t")) is None
            assert await spawns.of_session(tx, session) is None
            assert await spawns.held_of(tx, ACCOUNT) == []
            assert len(await spawns.at_work_for(tx, session)) == 1
            await webhooks.keep(tx, ACCOUNT, HOME, PlatformId("5"))
            assert await webhooks.of_parent(tx, ACCOUNT, HOME) == "5"
            assert await webhooks.is_ours(tx, ACCOUNT, PlatformId("5"))
            await webhooks.forget(tx, ACCOUNT, PlatformId("5"))
        assert await self.scans(sqlite_database, seen) == []
        plans = await self.plans(sqlite_database, seen)
        assert any("ix_spawns_at_work (" in step for step in plans)

    async def test_of_an_open_place_reads_only_what_is_open(
        self, sqlite_database: Database
    ) -> None:
        async with sqlite_database.transaction() as tx:
            where = await a_conversation(tx)
        async with self.statements(sqlite_database) as seen, sqlite_database.read() as tx:
            await deliveries.head(tx, where.id)
            await turns.open_of(tx, where.id)
        plans = await self.plans(sqlite_database, seen)
        assert any("ix_deliveries_open (account=? AND conversation=?)" in one for one in plans)
        assert any("ix_turns_open (account=? AND conversation=?)" in one for one in plans)
