"""A database that is full, read-only, cut off or stopped: what is told, and that nothing is torn."""

# ruff: noqa: PT012 - the block that must raise is a transaction

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from openab.app.readiness import Readiness
from openab.domain.errors import OpenabError, Transient
from openab.storage import space
from openab.storage.engine import Database, DatabaseUnavailable
from openab.storage.health import Health
from openab.storage.schema import accounts
from openab.storage.trouble import Trouble
from openab.storage.upgrade import check, prepare, upgrade
from tests import postgres
from tests.databases_in_trouble import Refusing, a_row, fill, small_disk
from tests.postgres_server import TemporaryServer


async def _known(database: Database) -> list[str]:
    async with database.read() as tx:
        rows = await tx.execute(sa.select(accounts.c.account).order_by(accounts.c.account))
        return list(rows.scalars())


class TestRefusing:
    @pytest.mark.parametrize("kind", [Trouble.FULL, Trouble.READ_ONLY])
    async def test_is_waited_out_and_told_with_its_remedy(
        self, database: Database, kind: Trouble
    ) -> None:
        refusing, failures = Refusing(database), list[Trouble]()
        database.health.on_failure = failures.append
        await a_row(database, "1")
        getattr(refusing, kind.value)()
        with capture_logs() as lines:
            for _ in range(3):
                with pytest.raises(DatabaseUnavailable) as failure:
                    await a_row(database, "2")
                assert failure.value.trouble is kind
        told = [line for line in lines if line["event"] == "database_trouble"]
        assert [line["kind"] for line in told] == [kind.value]
        assert told[0]["remedy"] == kind.remedy
        assert failures == [kind] * 3
        assert kind.remedy in (database.health.reason or "")
        refusing.heal()
        await a_row(database, "2")
        assert await _known(database) == ["1", "2"]

    async def test_inside_a_savepoint_is_no_other_error(self, database: Database) -> None:
        """SQLite ends the whole transaction by itself; whoever repeats it must be told the reason."""
        refusing = Refusing(database)
        refusing.full()
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable) as failure:
                async with database.transaction() as tx, tx.savepoint():
                    for number in range(20):
                        await tx.execute(
                            accounts.insert().values(
                                channel="c", account=str(number), name="x" * 50_000
                            )
                        )
            assert failure.value.trouble is Trouble.FULL
        refusing.heal()
        await a_row(database, "1")
        assert await _known(database) == ["1"]

    async def test_makes_the_process_unready_and_says_why(self, database: Database) -> None:
        refusing, readiness = Refusing(database), Readiness()
        readiness.database = database
        assert (await readiness.checks())["database"].ok
        refusing.read_only()
        checked = (await readiness.checks())["database"]
        assert not checked.ok
        assert Trouble.READ_ONLY.remedy in checked.reason
        refusing.heal()
        assert (await readiness.checks())["database"].ok


class TestAFullDisk:
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[Path]:
        with small_disk(tmp_path / "disk") as mounted:
            if mounted is None:
                pytest.skip("this process may not mount a disk")
            yield mounted

    async def test_under_a_running_database_costs_time_and_nothing_else(self, disk: Path) -> None:
        address = f"sqlite+aiosqlite:///{disk}/openab.db"
        await upgrade(address)
        database = await Database.open(address)
        await a_row(database, "1")
        filler = fill(disk)
        for _ in range(20):
            with pytest.raises(DatabaseUnavailable) as failure:
                await a_row(database, "2", 200_000)
            assert failure.value.trouble is Trouble.FULL
        filler.unlink()
        await a_row(database, "2")
        assert await _known(database) == ["1", "2"]
        await database.close()

    async def test_at_the_start_is_told(self, disk: Path) -> None:
        fill(disk)
        with pytest.raises(OpenabError) as failure:
            await prepare(f"sqlite+aiosqlite:///{disk}/openab.db", auto_upgrade=True)
        assert isinstance(failure.value, DatabaseUnavailable)
        assert failure.value.trouble is Trouble.FULL


async def test_a_server_that_stops_and_starts_is_waited_for() -> None:
    failures: list[Exception] = []
    server = TemporaryServer()
    await asyncio.to_thread(server.__enter__)
    try:
        address = postgres.for_sqlalchemy(server.address)
        await upgrade(address)
        database = await Database.open(address)
        halted, written = asyncio.Event(), 0

        async def write(worker: int) -> None:
            nonlocal written
            while not (halted.is_set() and database.health.reason is None):
                try:
                    async with database.transaction() as tx, tx.savepoint():
                        await tx.execute(sa.update(accounts).values(name="x"))
                    async with database.read() as tx:
                        await tx.now()
                    written += 1
                except OpenabError as error:
                    failures.append(error)
                    # The pace of whoever asks a server that is away.
                    await asyncio.sleep(0.05)
            assert worker >= 0

        async with asyncio.TaskGroup() as group:
            for worker in range(4):
                group.create_task(write(worker))
            await asyncio.to_thread(server.halt)
            await asyncio.to_thread(server.resume)
            halted.set()
        assert failures
        await a_row(database, "1")
        assert await _known(database) == ["1"]
        await database.close()
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.parametrize("state", ["53100", "53300", "57P01", "57P03", "58030", "25006", "XX000"])
async def test_what_a_server_says_of_itself_is_waited_out(
    postgres_database: Database, state: str
) -> None:
    say = f"DO $$ BEGIN RAISE EXCEPTION 'trouble' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(DatabaseUnavailable):
        async with postgres_database.transaction() as tx:
            await tx.execute(sa.text(say))


async def test_a_server_that_refuses_the_password_is_waited_for(
    postgres_server: str, migrated_postgres_address: str
) -> None:
    wrong = sa.make_url(migrated_postgres_address).set(password="wrong")
    with pytest.raises(DatabaseUnavailable) as failure:
        await check(wrong.render_as_string(hide_password=False))
    assert failure.value.trouble is Trouble.REFUSED
    assert postgres_server not in str(failure.value)


class TestHealth:
    def test_is_told_when_it_begins_and_each_minute_and_when_it_is_over(self) -> None:
        now = [0.0]
        health = Health(lambda: now[0])
        with capture_logs() as lines:
            for now[0] in (0.0, 1.0, 59.0, 61.0):
                health.failed(Trouble.AWAY, "refused")
            health.committed(health.failures)
            health.committed(health.failures)
        assert [line["event"] for line in lines] == [
            "database_trouble",
            "database_trouble",
            "database_well_again",
        ]
        assert health.reason is None

    def test_of_a_full_disk_is_not_proved_by_a_write_that_found_room(self) -> None:
        now = [0.0]
        health = Health(lambda: now[0])
        health.failed(Trouble.FULL, "full")
        now[0] = 5.0
        health.committed(health.failures)
        assert health.reason
        now[0] = 20.0
        health.committed(health.failures)
        assert health.reason is None

    async def test_is_not_proved_by_a_write_that_began_before_the_failure(
        self, postgres_database: Database
    ) -> None:
        """SQLite's writers take turns: none is open while another one fails."""
        refusing = Refusing(postgres_database)
        async with postgres_database.transaction() as tx:
            await tx.execute(accounts.insert().values(channel="c", account="1", name="x"))
            refusing.read_only()
            await _fails_beside(postgres_database)
        assert postgres_database.health.reason
        refusing.heal()
        await a_row(postgres_database, "3")
        assert postgres_database.health.reason is None

    def test_notes_only_what_the_database_did_not_do(self) -> None:
        health = Health()
        with pytest.raises(Transient), health.watched():
            raise Transient("the network")
        assert health.reason is None


async def _fails_beside(database: Database) -> None:
    """In a task of its own: a task has one transaction at a time."""
    (outcome,) = await asyncio.gather(a_row(database, "2"), return_exceptions=True)
    assert isinstance(outcome, DatabaseUnavailable)


class TestSpace:
    async def test_of_every_table_can_be_asked(self, database: Database) -> None:
        await a_row(database, "1")
        async with database.read() as tx:
            rows, taken = await space.rows(tx), await space.size(tx)
        assert set(rows) == set(accounts.metadata.tables)
        assert taken > 0
        if database.dialect == "sqlite":
            assert rows["accounts"] == 1

    async def test_is_given_back(self, sqlite_address: str) -> None:
        await upgrade(sqlite_address)
        await _grown(sqlite_address)
        done = await space.vacuum(sqlite_address)
        assert done.after < done.before / 2

    async def test_is_given_back_beside_a_broker(self, sqlite_database: Database) -> None:
        address = str(sqlite_database._dialect.writer.url.database)
        await _grow(sqlite_database)
        done = await space.vacuum(f"sqlite+aiosqlite:///{address}")
        assert done.after < done.before / 2
        await a_row(sqlite_database, "after")

    async def test_is_not_taken_from_a_broker_for_long(self, sqlite_database: Database) -> None:
        address = f"sqlite+aiosqlite:///{sqlite_database._dialect.writer.url.database}"
        async with sqlite_database.transaction() as tx:
            many = [{"channel": "c", "account": str(n), "name": "x"} for n in range(3000)]
            await tx.execute(accounts.insert(), many)
        with pytest.raises(space.TooBig, match="stop it"):
            await space.vacuum(address, beside_seconds=0)
        await a_row(sqlite_database, "after")
        assert "after" in await _known(sqlite_database)

    async def test_on_postgres_is_said_to_look_after_itself(
        self, migrated_postgres_address: str
    ) -> None:
        done = await space.vacuum(migrated_postgres_address)
        assert "autovacuum" in done.told
        assert done.after > 0


async def _grown(address: str) -> None:
    database = await Database.open(address)
    await _grow(database)
    await database.close()


async def _grow(database: Database, rows: int = 50) -> None:
    for number in range(rows):
        await a_row(database, str(number), 50_000)
    async with database.transaction() as tx:
        await tx.execute(sa.delete(accounts))
