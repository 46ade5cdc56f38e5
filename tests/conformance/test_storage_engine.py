"""What the engine promises on both dialects: whole transactions, one clock, text as it came."""

# ruff: noqa: PT012 - the block that must raise is a transaction

import asyncio
import stat
import threading
from collections.abc import AsyncIterator, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from openab.ports.tasks import end, spawn
from openab.storage import conversations
from openab.storage.conversations import Ownership
from openab.storage.engine import (
    CommitUnknown,
    Conflict,
    Database,
    DatabaseUnavailable,
    Transaction,
    Unwritable,
    in_transaction,
)
from openab.storage.schema import accounts
from openab.storage.schema import database as database_table
from openab.storage.upgrade import upgrade
from tests.builders import a_conversation

Result = TypeVar("Result")
_SOON = 60.0


@pytest.fixture
async def sqlite_database(migrated_sqlite_address: str) -> AsyncIterator[Database]:
    opened = await Database.open(migrated_sqlite_address)
    yield opened
    await opened.close()


@pytest.fixture
async def postgres_database(migrated_postgres_address: str) -> AsyncIterator[Database]:
    opened = await Database.open(migrated_postgres_address)
    yield opened
    await opened.close()


async def add(tx: Transaction, account: str, name: str = "") -> None:
    await tx.execute(accounts.insert().values(channel="discord", account=account, name=name))


async def known(database: Database) -> list[str]:
    async with database.read() as tx:
        rows = await tx.execute(sa.select(accounts.c.account).order_by(accounts.c.account))
        return list(rows.scalars())


class Stop(Exception):
    pass


class TestATransaction:
    async def test_commits_on_a_clean_exit(self, database: Database) -> None:
        async with database.transaction() as tx:
            await add(tx, "1")
        assert await known(database) == ["1"]

    async def test_rolls_back_on_any_exception(self, database: Database) -> None:
        with pytest.raises(Stop):
            async with database.transaction() as tx:
                await add(tx, "1")
                raise Stop
        assert await known(database) == []

    async def test_shows_others_nothing_before_it_commits(self, database: Database) -> None:
        async with database.transaction() as tx:
            await add(tx, "1")
            assert await elsewhere(known(database)) == []

    async def test_cancelled_in_the_middle_rolls_back_and_leaves_a_usable_database(
        self, database: Database
    ) -> None:
        written = asyncio.Event()

        async def write() -> None:
            async with database.transaction() as tx:
                await add(tx, "1")
                written.set()
                await asyncio.Event().wait()

        async with asyncio.TaskGroup() as group:
            task = group.create_task(write())
            await written.wait()
            task.cancel()
        assert await known(database) == []
        async with database.transaction() as tx:
            await add(tx, "2")
        assert await known(database) == ["2"]

    async def test_cancelled_inside_a_statement_rolls_back(self, database: Database) -> None:
        started = asyncio.Event()
        # Slow on both dialects, without a function that only one of them has.
        slow = sa.text(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000)"
            " SELECT count(*) FROM n"
        )

        async def write() -> None:
            async with database.transaction() as tx:
                await add(tx, "1")
                asyncio.get_running_loop().call_soon(started.set)
                await tx.execute(slow)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(write())
            await started.wait()
            task.cancel()
        assert task.cancelled()
        async with asyncio.timeout(_SOON), database.transaction() as tx:
            await add(tx, "2")
        assert await known(database) == ["2"]

    async def test_cancelled_during_its_commit_is_committed_first(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        committing, go_on, hinted = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def write() -> None:
            async with database.transaction() as tx:
                await add(tx, "1")
                tx.after_commit(hinted.set)
                commit = tx._connection.commit

                async def slow_commit() -> None:
                    committing.set()
                    await go_on.wait()
                    await commit()

                monkeypatch.setattr(tx, "_connection", _Committing(tx._connection, slow_commit))

        async with asyncio.TaskGroup() as group:
            task = group.create_task(write())
            await committing.wait()
            task.cancel()
            # A second one, of an impatient stop, changes nothing either.
            asyncio.get_running_loop().call_soon(task.cancel)
            asyncio.get_running_loop().call_later(0.05, go_on.set)
        assert task.cancelled()
        assert hinted.is_set()
        assert await known(database) == ["1"]

    async def test_does_not_start_inside_another(self, database: Database) -> None:
        async with database.transaction():
            with pytest.raises(RuntimeError, match="waits for itself"):
                async with database.read():
                    pytest.fail("it started")

    async def test_is_known_to_whoever_must_not_talk_to_the_world_inside(
        self, database: Database
    ) -> None:
        assert not in_transaction()
        async with database.transaction():
            assert in_transaction()
        async with database.read():
            assert in_transaction()
        assert not in_transaction()

    async def test_cannot_be_used_after_its_end(self, database: Database) -> None:
        async with database.transaction() as tx:
            pass
        with pytest.raises(RuntimeError, match="has ended"):
            await tx.now()


class _Committing:
    """The connection with another commit: the moment inside COMMIT cannot be met otherwise."""

    def __init__(self, connection: Any, commit: Any) -> None:
        self._connection = connection
        self.commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class TestAFailedStatement:
    async def test_of_a_constraint_is_a_conflict(self, database: Database) -> None:
        with pytest.raises(Conflict):
            async with database.transaction() as tx:
                await add(tx, "1")
                await add(tx, "1")
        assert await known(database) == []

    async def test_that_was_swallowed_does_not_commit_the_rest(self, database: Database) -> None:
        with pytest.raises(RuntimeError, match="savepoint"):
            async with database.transaction() as tx:
                await add(tx, "1")
                with pytest.raises(Conflict):
                    await add(tx, "1")
        assert await known(database) == []

    async def test_with_a_value_that_cannot_be_stored_is_told_apart(
        self, database: Database
    ) -> None:
        with pytest.raises(Unwritable):
            async with database.transaction() as tx:
                await add(tx, "\ud800")
        with pytest.raises(Unwritable):
            async with database.transaction() as tx:
                await tx.execute(
                    accounts.insert().values(
                        channel="discord", account="1", name="", identify_count=2**70
                    )
                )

    async def test_tells_nothing_of_what_people_wrote(self, database: Database) -> None:
        with pytest.raises(Conflict) as failure:
            async with database.transaction() as tx:
                await add(tx, "1", "secret words")
                await add(tx, "1", "secret words")
        assert "secret words" not in str(failure.value)
        assert failure.value.__suppress_context__


class TestASavepoint:
    async def test_is_undone_alone(self, database: Database) -> None:
        async with database.transaction() as tx:
            await add(tx, "1")
            with pytest.raises(Stop):
                async with tx.savepoint():
                    await add(tx, "2")
                    raise Stop
            async with tx.savepoint():
                await add(tx, "3")
        assert await known(database) == ["1", "3"]

    async def test_survives_a_conflict(self, database: Database) -> None:
        async with database.transaction() as tx:
            await add(tx, "1")
            with pytest.raises(Conflict):
                async with tx.savepoint():
                    await add(tx, "1")
            await add(tx, "2")
        assert await known(database) == ["1", "2"]

    async def test_takes_its_hints_along(self, database: Database) -> None:
        called: list[str] = []
        async with database.transaction() as tx:
            tx.after_commit(lambda: called.append("outer"))
            with pytest.raises(Stop):
                async with tx.savepoint():
                    tx.after_commit(lambda: called.append("inner"))
                    raise Stop
        assert called == ["outer"]


class TestAHint:
    async def test_comes_after_the_commit_and_outside(self, database: Database) -> None:
        seen: list[bool] = []
        async with database.transaction() as tx:
            tx.after_commit(lambda: seen.append(in_transaction()))
            assert seen == []
        assert seen == [False]

    async def test_never_comes_after_a_roll_back(self, database: Database) -> None:
        called: list[str] = []
        with pytest.raises(Stop):
            async with database.transaction() as tx:
                tx.after_commit(lambda: called.append("hint"))
                raise Stop
        assert called == []

    async def test_that_raises_does_not_keep_the_next_from_coming(self, database: Database) -> None:
        def broken() -> None:
            raise Stop

        called: list[str] = []
        async with database.transaction() as tx:
            tx.after_commit(broken)
            tx.after_commit(lambda: called.append("hint"))
        assert called == ["hint"]


class TestARead:
    async def test_sees_one_moment(self, database: Database) -> None:
        async with database.read() as tx:
            count = sa.select(sa.func.count()).select_from(accounts)
            assert (await tx.execute(count)).scalar_one() == 0

            async def write() -> None:
                async with database.transaction() as other:
                    await add(other, "1")

            await elsewhere(write())
            assert (await tx.execute(count)).scalar_one() == 0
        assert await known(database) == ["1"]

    async def test_cannot_write(self, database: Database) -> None:
        with pytest.raises(DatabaseUnavailable):
            async with database.read() as tx:
                await add(tx, "1")
        async with database.transaction() as tx:
            await add(tx, "2")
        assert await known(database) == ["2"]


async def elsewhere(step: Coroutine[Any, Any, Result]) -> Result:
    """Do it as another task: a transaction inside a read of the same task is refused."""
    async with asyncio.timeout(_SOON), asyncio.TaskGroup() as group:
        task = group.create_task(step)
    return task.result()


class TestTheClock:
    async def test_is_the_databases_and_aware(self, database: Database) -> None:
        async with database.read() as tx:
            first, second = await tx.now(), await tx.now()
        assert first.utcoffset() == timedelta(0)
        assert first <= second
        assert abs(first - datetime.now(first.tzinfo)) < timedelta(minutes=1)

    async def test_can_be_moved(self, database_address: str) -> None:
        moved = timedelta(days=2)
        opened = await Database.open(database_address, offset=lambda: moved)
        async with opened.read() as tx:
            now = await tx.now()
        await opened.close()
        assert abs(now - datetime.now(now.tzinfo) - moved) < timedelta(minutes=1)

    async def test_does_not_stand_still_behind_a_lock(self, database: Database) -> None:
        async with database.transaction() as tx:
            await add(tx, "1")
        moments: list[datetime] = []
        lock = sa.update(accounts).values(intake_mark="x")

        async def one() -> None:
            async with database.transaction() as tx:
                await tx.execute(lock)
                moments.append(await tx.now())

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(one())
        assert moments == sorted(moments)

    async def test_of_an_owner_is_read_behind_its_lock(self, postgres_database: Database) -> None:
        """It comes with the locked row, and is none from before the wait for it."""
        database, waits = postgres_database, asyncio.Event()
        async with database.transaction() as tx:
            where = await a_conversation(tx)

        async def second() -> datetime:
            async with database.transaction() as tx:
                waits.set()
                await conversations.lock(tx, Ownership(where.id, where.epoch))
                return await tx.now()

        async with asyncio.TaskGroup() as group, database.transaction() as tx:
            await conversations.hold(tx, where.id)
            later = group.create_task(second())
            await waits.wait()
            # Long enough for it to stand behind the lock: nothing tells that it does.
            await tx.execute(sa.text("SELECT pg_sleep(0.3)"))
            released = await tx.now()
        assert later.result() > released

    async def test_of_the_transaction_would_be_stale_there(
        self, postgres_database: Database
    ) -> None:
        """The negative control: what `now()` of Postgres says behind a lock is in the past."""
        lock = sa.update(accounts).values(intake_mark="x")
        began, waiting = asyncio.Event(), asyncio.Event()
        stale: list[datetime] = []

        async def second() -> None:
            async with postgres_database.transaction() as tx:
                result = await tx.execute(sa.text("SELECT now()"))
                began.set()
                await waiting.wait()
                await tx.execute(lock)
                result = await tx.execute(sa.text("SELECT now()"))
                stale.append(result.scalar_one())
                assert await tx.now() > released

        async with postgres_database.transaction() as tx:
            await add(tx, "1")
        async with asyncio.TaskGroup() as group:
            group.create_task(second())
            await began.wait()
            async with postgres_database.transaction() as tx:
                await tx.execute(lock)
                waiting.set()
                released = await tx.now()
        assert stale[0] < released


_any_text = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF, categories=None))
_lone = st.text(st.sampled_from("\0\ud800\udfff\U0001f600a"))


class TestText:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(text=_any_text | _lone)
    async def test_comes_back_as_it_came(self, database: Database, text: str) -> None:
        with pytest.raises(Stop):
            async with database.transaction() as tx:
                await add(tx, "1", text)
                assert (await tx.execute(sa.select(accounts.c.name))).scalar_one() == text
                raise Stop

    async def test_of_any_kind_survives_a_commit(self, database: Database) -> None:
        text = "\0 \ud800 \U0001f600 ' \\ %s :name $1"
        async with database.transaction() as tx:
            await add(tx, "1", text)
        async with database.read() as tx:
            assert (await tx.execute(sa.select(accounts.c.name))).scalar_one() == text


class TestTheDatabasesName:
    async def test_is_given_once(self, database_address: str) -> None:
        before = await Database.open(database_address)
        await before.close()
        await upgrade(database_address)
        opened = await asyncio.gather(*(Database.open(database_address) for _ in range(4)))
        async with opened[0].read() as tx:
            stored = list((await tx.execute(sa.select(database_table.c.id))).scalars())
        for each in opened:
            await each.close()
        assert before.id == ""
        assert {each.id for each in opened} == set(stored)
        assert len(stored) == 1


class TestClosing:
    async def test_refuses_what_comes_after(self, database: Database) -> None:
        await database.close()
        with pytest.raises(DatabaseUnavailable):
            async with database.transaction():
                pytest.fail("it started")

    async def test_lets_an_open_transaction_end_and_ends_its_connection(
        self, database: Database
    ) -> None:
        async with database.transaction() as tx:
            await database.close()
            await add(tx, "1")
        # The leak check of every test finds a thread or a connection that was left.
        assert tx.is_committed


class TestALostServer:
    async def test_in_a_statement_means_that_nothing_happened(
        self, postgres_database: Database
    ) -> None:
        with pytest.raises(DatabaseUnavailable):
            async with postgres_database.transaction() as tx:
                await add(tx, "1")
                await _cut_off(postgres_database, tx)
                await add(tx, "2")
        assert await known(postgres_database) == []

    async def test_in_the_commit_means_that_nobody_knows(self, postgres_database: Database) -> None:
        called: list[str] = []
        with pytest.raises(CommitUnknown):
            async with postgres_database.transaction() as tx:
                tx.after_commit(lambda: called.append("hint"))
                await add(tx, "1")
                await _cut_off(postgres_database, tx)
        assert called == []

    async def test_that_is_not_there_is_unavailable(self) -> None:
        with pytest.raises(DatabaseUnavailable):
            await Database.open("postgresql+asyncpg://nobody@127.0.0.1:1/nothing")


async def _cut_off(database: Database, tx: Transaction) -> None:
    """Have the server end this transaction's connection, and wait until it has."""
    pid = (await tx.execute(sa.text("SELECT pg_backend_pid()"))).scalar_one()

    async def end() -> None:
        async with database.transaction() as other:
            await other.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})

    await elsewhere(end())


class TestSqliteWriters:
    async def test_read_then_write_is_one_step(
        self, sqlite_database: Database, sqlite_address: str
    ) -> None:
        async with sqlite_database.transaction() as tx:
            await add(tx, "1")
        # Another process, as far as the file can tell.
        other = await Database.open(sqlite_address)
        async with asyncio.TaskGroup() as group:
            for each in (sqlite_database, other) * 15:
                group.create_task(_count_one(each))
        await other.close()
        async with sqlite_database.read() as tx:
            assert (await tx.execute(sa.select(accounts.c.identify_count))).scalar_one() == 30

    async def test_with_a_plain_begin_it_is_not(
        self, sqlite_database: Database, sqlite_address: str
    ) -> None:
        """The negative control: two that have read cannot both write."""
        async with sqlite_database.transaction() as tx:
            await add(tx, "1")
        engine = _plain_engine(sqlite_address)
        read = sa.select(accounts.c.identify_count)
        async with engine.connect() as one, engine.connect() as two:
            await one.execute(read)
            await two.execute(read)
            await one.execute(sa.update(accounts).values(identify_count=1))
            await one.commit()
            with pytest.raises(OperationalError, match="database is locked"):
                await two.execute(sa.update(accounts).values(identify_count=1))
        await engine.dispose()

    async def test_take_turns_in_the_order_they_came(self, sqlite_database: Database) -> None:
        order: list[int] = []

        async def write(n: int) -> None:
            async with sqlite_database.transaction() as tx:
                order.append(n)
                await add(tx, str(n))

        async with asyncio.TaskGroup() as group, sqlite_database.transaction():
            tasks = [group.create_task(write(n)) for n in range(20)]
            await _until_waiting(tasks)
            # One that gives up leaves the queue as it is.
            tasks[3].cancel()
        assert order == [n for n in range(20) if n != 3]

    async def test_wait_for_another_process_only_so_long(
        self, sqlite_database: Database, sqlite_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("openab.storage.dialect.BUSY_SECONDS", 0.1)
        other = await Database.open(sqlite_address)
        async with sqlite_database.transaction() as tx:
            await add(tx, "1")
            with pytest.raises(DatabaseUnavailable, match="locked"):
                async with other.transaction():
                    pytest.fail("two writers")
        await other.close()


async def _count_one(database: Database) -> None:
    async with database.transaction() as tx:
        found = (await tx.execute(sa.select(accounts.c.identify_count))).scalar_one()
        await tx.execute(sa.update(accounts).values(identify_count=found + 1))


async def _until_waiting(tasks: list["asyncio.Task[None]"]) -> None:
    """Until every task has run up to the lock: one round of the loop starts all of them."""
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


def _plain_engine(address: str) -> AsyncEngine:
    engine = create_async_engine(address, connect_args={"isolation_level": None})

    @sa.event.listens_for(engine.sync_engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _modes(folder: Path) -> dict[str, int]:
    return {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


class TestSqliteFiles:
    @pytest.fixture
    def folder(self, sqlite_address: str) -> Path:
        return Path(sa.make_url(sqlite_address).database or "").parent

    async def test_are_ours_alone(self, sqlite_database: Database, folder: Path) -> None:
        async with sqlite_database.transaction() as tx:
            await add(tx, "1")
            modes = _modes(folder)
        assert {".sqlite3", ".sqlite3-wal", ".sqlite3-shm"} <= set(modes)
        assert set(modes.values()) == {0o600}

    async def test_that_were_open_to_all_are_closed(
        self, sqlite_address: str, folder: Path
    ) -> None:
        file = folder / "openab.sqlite3"
        file.touch(0o644)
        file.chmod(0o644)
        opened = await Database.open(sqlite_address)
        await opened.close()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    async def test_get_folders_for_us_alone(self, folder: Path) -> None:
        opened = await Database.open(f"sqlite+aiosqlite:///{folder}/new/deeper/x.db")
        await opened.close()
        modes = [stat.S_IMODE((folder / each).stat().st_mode) for each in ("new", "new/deeper")]
        assert modes == [0o700, 0o700]

    async def test_in_memory_are_refused(self) -> None:
        with pytest.raises(ValueError, match="plain file"):
            await Database.open("sqlite+aiosqlite:///:memory:")

    def test_may_be_opened_first_by_many_at_once(self, sqlite_address: str) -> None:
        failures: list[BaseException] = []
        barrier = threading.Barrier(8)

        async def open_and_close() -> None:
            opened = await Database.open(sqlite_address)
            await opened.close()

        def process() -> None:
            barrier.wait(_SOON)
            try:
                asyncio.run(open_and_close())
            except BaseException as error:  # noqa: BLE001 - told to the test
                failures.append(error)

        threads = [threading.Thread(target=process) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_SOON)
        assert failures == []


async def test_callers_cancelled_at_any_step_leave_no_connection(database_address: str) -> None:
    await upgrade(database_address)
    database = await Database.open(database_address)
    try:
        for waits in range(0, 120, 5):
            callers = [
                spawn("cancelled caller", work(database)) for work in (_read_once, _write_once) * 3
            ]
            for _ in range(waits):
                await asyncio.sleep(0)
            for caller in callers:
                await end(caller)
        await _write_once(database)
    finally:
        # The fixture finds connections that are still open after this.
        await database.close()


async def _write_once(database: Database) -> None:
    async with database.transaction() as tx, tx.savepoint():
        assert await tx.has_table(accounts)
        assert (await tx.now()).tzinfo is not None


async def test_a_caller_cancelled_while_it_connects_leaves_no_connection(
    database_address: str,
) -> None:
    database = await Database.open(database_address)
    try:
        for waits in range(12):
            reader = spawn("cancelled reader", _read_once(database))
            for _ in range(waits):
                await asyncio.sleep(0)
            await end(reader)
            await _read_once(database)
    finally:
        # The fixture finds connections that are still open after this.
        await database.close()


async def _read_once(database: Database) -> None:
    async with database.read() as tx:
        assert (await tx.now()).tzinfo is not None


async def test_one_reading_of_the_clock_serves_until_a_lock_may_have_been_waited_for(
    database_address: str,
) -> None:
    await upgrade(database_address)
    database = await Database.open(database_address)
    try:
        async with database.transaction() as tx:
            first, again = await tx.now(), await tx.now()
            assert first == again
            await asyncio.sleep(0.005)  # the clock of SQLite has steps of a millisecond
            await tx.execute(sa.select(accounts).with_for_update())
            later = await tx.now()
        # SQLite took its only lock before the first reading.
        assert (later > first) == (database.dialect == "postgresql")
    finally:
        await database.close()
