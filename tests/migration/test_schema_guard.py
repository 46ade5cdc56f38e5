"""Who may upgrade, when, and what happens to a revision that cannot be done."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from openab.storage import dialect, space
from openab.storage import upgrade as schema
from openab.storage.engine import Database, DatabaseUnavailable
from openab.storage.schema import SCHEMA_REVISION, conversations, sessions
from openab.storage.upgrade import SchemaAge, SchemaRefused, check, prepare, upgrade

_NEXT = '''
"""The next release's revision."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
    with op.batch_alter_table("accounts") as accounts:
        accounts.add_column(sa.Column("mood", sa.Text()))
    {more}
'''


class NextRelease:
    """A release with one more revision than this one has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._folder = folder / "migrations"
        self.revision = f"{int(SCHEMA_REVISION) + 1:04d}"

    def installed(self, more: str = "pass") -> None:
        """From now on `openab.storage.upgrade` is the next release's."""
        shutil.copytree(Path(schema.__file__).parent / "migrations", self._folder)
        text = _NEXT.format(revision=self.revision, before=SCHEMA_REVISION, more=more)
        (self._folder / "versions" / f"{self.revision}_next.py").write_text(text.lstrip())
        self._monkeypatch.setattr(schema, "_MIGRATIONS", self._folder)
        self._monkeypatch.setattr(schema, "SCHEMA_REVISION", self.revision)

    def removed(self) -> None:
        """Back to this release."""
        self._monkeypatch.undo()


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> NextRelease:
    return NextRelease(monkeypatch, tmp_path)


@pytest.fixture
async def database(database_address: str) -> AsyncIterator[Database]:
    """A database as this release made it, with one conversation and its session."""
    await upgrade(database_address)
    opened = await Database.open(database_address)
    async with opened.transaction() as tx:
        now = await tx.now()
        conversation = {"channel": "discord", "account": "1", "conversation_id": "1"}
        await tx.execute(
            conversations.insert().values(id="c", place="dm", created_at=now, **conversation)
        )
        await tx.execute(
            sessions.insert().values(
                session_key="s",
                channel="discord",
                account="1",
                conversation="c",
                agent="a",
                working_dir="/",
                created_at=now,
                last_activity_at=now,
            )
        )
    yield opened
    await opened.close()


async def claim(database: Database, seconds: float) -> None:
    async with database.transaction() as tx:
        until = await tx.now() + timedelta(seconds=seconds)
        await tx.execute(sa.update(conversations).values(lease_owner="w", lease_until=until))


async def test_an_empty_database_is_made_only_if_that_is_wished(database_address: str) -> None:
    assert (await check(database_address)).age is SchemaAge.EMPTY
    with pytest.raises(SchemaRefused, match="type: openab db upgrade"):
        await prepare(database_address, auto_upgrade=False)
    assert (await prepare(database_address, auto_upgrade=True)).age is SchemaAge.EQUAL
    assert (await prepare(database_address, auto_upgrade=False)).age is SchemaAge.EQUAL


async def test_looking_makes_no_file(sqlite_address: str) -> None:
    await check(sqlite_address)
    file = Path(sa.make_url(sqlite_address).database or "")
    assert list(file.parent.iterdir()) == []


async def test_an_older_schema_is_upgraded_if_nobody_is_at_work(
    database: Database, database_address: str, next_release: NextRelease
) -> None:
    await claim(database, seconds=-1)
    next_release.installed()
    assert (await check(database_address)).age is SchemaAge.OLDER
    state = await prepare(database_address, auto_upgrade=True)
    assert (state.age, state.found) == (SchemaAge.EQUAL, next_release.revision)


async def test_an_older_schema_is_left_alone_while_a_broker_is_at_work(
    database: Database, database_address: str, next_release: NextRelease
) -> None:
    await claim(database, seconds=60)
    next_release.installed()
    with pytest.raises(SchemaRefused, match="at work"):
        await prepare(database_address, auto_upgrade=True)
    assert (await check(database_address)).age is SchemaAge.OLDER
    # Asked for by a person it is done: the previous release runs on the schema of the next.
    assert (await upgrade(database_address)).age is SchemaAge.EQUAL


async def test_a_newer_schema_is_refused_with_what_to_do(
    database_address: str, next_release: NextRelease
) -> None:
    next_release.installed()
    await upgrade(database_address)
    next_release.removed()
    assert (await check(database_address)).age is SchemaAge.NEWER
    for step in (prepare(database_address, auto_upgrade=True), upgrade(database_address)):
        with pytest.raises(SchemaRefused, match="install the release that upgraded it"):
            await step


async def test_a_revision_that_fails_leaves_nothing_of_itself(
    database: Database, database_address: str, next_release: NextRelease
) -> None:
    next_release.installed(more='raise RuntimeError("broken revision")')
    with pytest.raises(RuntimeError, match="broken revision"):
        await upgrade(database_address)
    assert (await check(database_address)).age is SchemaAge.OLDER
    async with database.read() as tx:
        columns = await tx.execute(sa.text("SELECT * FROM accounts"))
        assert "mood" not in list(columns.keys())


async def test_the_revisions_before_one_that_fails_stay(
    database_address: str, next_release: NextRelease
) -> None:
    next_release.installed(more='raise RuntimeError("broken revision")')
    with pytest.raises(RuntimeError, match="broken revision"):
        await upgrade(database_address)
    assert (await check(database_address)).found == SCHEMA_REVISION


async def test_a_rebuilt_table_keeps_the_rows_that_point_at_it(
    sqlite_address: str, next_release: NextRelease
) -> None:
    """With foreign keys on, SQLite would empty or refuse the table that is dropped meanwhile."""
    await upgrade(sqlite_address)
    engine = await Database.open(sqlite_address)
    async with engine.transaction() as tx:
        await tx.execute(sa.text("CREATE TABLE parent (id INTEGER PRIMARY KEY)"))
        await tx.execute(
            sa.text("CREATE TABLE child (id INTEGER REFERENCES parent (id) ON DELETE CASCADE)")
        )
        await tx.execute(sa.text("INSERT INTO parent VALUES (1)"))
        await tx.execute(sa.text("INSERT INTO child VALUES (1)"))
    next_release.installed(
        more="""
    table = sa.Table("parent", sa.MetaData(), sa.Column("id", sa.Integer(), primary_key=True))
    with op.batch_alter_table("parent", copy_from=table, recreate="always") as batch:
        batch.add_column(sa.Column("mood", sa.Text()))
"""
    )
    await upgrade(sqlite_address)
    async with engine.read() as tx:
        assert (await tx.execute(sa.text("SELECT count(*) FROM child"))).scalar_one() == 1
    await engine.close()


async def test_a_revision_that_orphans_rows_is_not_committed(
    sqlite_address: str, next_release: NextRelease
) -> None:
    await upgrade(sqlite_address)
    orphan = "INSERT INTO turn_log (turn_id, n, event, detail, at) VALUES ('gone', 1, 'x', '{}', 0)"
    next_release.installed(more=f'op.execute("{orphan}")')
    with pytest.raises(RuntimeError, match="would name rows of turns"):
        await upgrade(sqlite_address)
    assert (await check(sqlite_address)).age is SchemaAge.OLDER


async def test_on_postgres_it_gives_up_behind_a_lock_rather_than_stop_the_brokers(
    postgres_address: str, next_release: NextRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upgrade(postgres_address)
    database = await Database.open(postgres_address)
    next_release.installed()
    monkeypatch.setitem(dialect.MIGRATION_TIMEOUTS, "lock_timeout", "200")
    async with database.transaction() as tx:
        await tx.execute(sa.text("LOCK TABLE accounts IN ACCESS SHARE MODE"))
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            await upgrade(postgres_address)
    assert (await upgrade(postgres_address)).age is SchemaAge.EQUAL
    await database.close()


async def test_on_postgres_only_one_migrates_at_a_time(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(dialect.MIGRATION_TIMEOUTS, "lock_timeout", "200")
    database = await Database.open(postgres_address)
    async with database.transaction() as tx:
        await tx.execute(sa.text(dialect.MIGRATION_LOCK.replace("lock(", "xact_lock(")))
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            await upgrade(postgres_address)
    assert (await upgrade(postgres_address)).age is SchemaAge.EQUAL
    await database.close()


async def test_on_sqlite_only_one_migrates_at_a_time(sqlite_address: str) -> None:
    file = dialect.sqlite_path(sqlite_address)
    dialect.private_file(file)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        with dialect.file_lock(file):
            waiting = group.create_task(upgrade(sqlite_address))
            # Long enough for an upgrade that does not wait.
            done, _ = await asyncio.wait({waiting}, timeout=1)
            assert not done
    assert waiting.result().age is SchemaAge.EQUAL


async def test_vacuum_keeps_everything(database: Database, database_address: str) -> None:
    await space.vacuum(database_address)
    async with database.read() as tx:
        assert (await tx.execute(sa.select(conversations.c.id))).scalar_one() == "c"


async def test_two_that_start_at_once_both_come_up(sqlite_address: str) -> None:
    states = await asyncio.gather(*(prepare(sqlite_address, auto_upgrade=True) for _ in range(3)))
    assert {state.age for state in states} == {SchemaAge.EQUAL}
