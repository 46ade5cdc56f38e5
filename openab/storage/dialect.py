"""All that differs between SQLite and PostgreSQL: how to connect, how to begin, whose clock."""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from openab.storage.sqlite_driver import connector

#: How long SQLite waits for another process's writer. The wait cannot be interrupted, so it stays
#: well below the time that a stopping process has.
BUSY_SECONDS = 4.0
#: A statement or a commit on Postgres that takes longer is given up.
STATEMENT_SECONDS = 30.0
POOL_SIZE = 5
_PREPARED = 1000
#: SQLAlchemy keeps its own statements and the values in them out of messages and logs.
_ENGINE: dict[str, Any] = {"hide_parameters": True}
#: A server must not keep the locks of a broker that was frozen or cut off.
_POSTGRES_SETTINGS = {
    "application_name": "openab",
    "idle_in_transaction_session_timeout": "15000",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
#: A migration that has to wait, or takes long, must not make the running brokers wait behind it.
MIGRATION_TIMEOUTS = {"lock_timeout": "4000", "statement_timeout": "5000"}
#: Any number will do, as long as all releases use the same: "oab" in ASCII.
MIGRATION_LOCK = "SELECT pg_advisory_lock(7299426)"
#: Microseconds since 1970 at the moment the statement runs, never the transaction's start.
_CLOCKS = {
    "sqlite": "CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
    " + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
}


@dataclass(frozen=True)
class Dialect:
    """Two engines on one database, and who may write now."""

    name: str
    writer: AsyncEngine
    reader: AsyncEngine
    #: Taken around a write: SQLite's one writer per process queues first come, first served.
    write_turn: Callable[[], AbstractAsyncContextManager[object]]
    #: What keeps two processes from filling in the database's id at once.
    lock_database_row: sa.TextClause | None
    #: The database's clock at the transaction's begin, in microseconds; None: that has to be asked.
    began_at: Callable[[AsyncConnection], int | None] = lambda _connection: None

    async def dispose(self) -> None:
        """End every pooled connection, and with it SQLite's threads."""
        await self.writer.dispose()
        if self.reader is not self.writer:
            await self.reader.dispose()


def waits_inside(name: str) -> bool:
    """Whether a transaction can still wait for a lock once it has begun; SQLite takes its one at BEGIN."""
    return name != "sqlite"


def connect(url: str) -> Dialect:
    """Make the engines for a SQLAlchemy async URL; SQLite's folder and file are made private."""
    parsed = sa.make_url(url)
    return _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgres(parsed)


def private_file(path: Path) -> None:
    """Make a SQLite file readable for us only, before SQLite makes it; new folders too."""
    for folder in reversed([path.parent, *path.parent.parents]):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    # Never open a file that may be in use: POSIX drops all locks that a process has on a file when
    # it closes any descriptor of it, and the next process to leave takes SQLite's log away.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    _enter_wal(path)
    # SQLite gives -wal and -shm the mode of the file; those of an earlier run are mended here.
    for part in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(FileNotFoundError):
            if stat.S_IMODE(part.stat().st_mode) & 0o077:
                part.chmod(0o600)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Wait until no other process prepares or upgrades this SQLite file."""
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _enter_wal(path: Path) -> None:
    # Two connections that change the journal at the same moment do not wait for each other: one is
    # told "database is locked" at once.
    with contextlib.closing(sqlite3.connect(path, BUSY_SECONDS)) as connection:
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            return
        with file_lock(path):
            connection.execute("PRAGMA journal_mode=WAL")


def file_of(url: str) -> Path | None:
    """SQLite's file; None: the database is a server's."""
    parsed = sa.make_url(url)
    return sqlite_path(parsed) if parsed.get_backend_name() == "sqlite" else None


def is_missing(url: str) -> bool:
    """Whether it is a SQLite database whose file does not exist yet."""
    file = file_of(url)
    return file is not None and not file.exists()


def sqlite_path(url: str | sa.URL) -> Path:
    """The file that a SQLite URL names; a database in memory is refused."""
    name = sa.make_url(url).database
    if not name or name == ":memory:" or name.startswith("file:"):
        raise ValueError("a SQLite database needs a plain file: sqlite:///PATH")
    return Path(name).expanduser().absolute()


def migration_engine(url: str) -> AsyncEngine:
    """An engine for one migration: SQLite's rebuilt tables must not set off foreign keys."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        settings = {**_POSTGRES_SETTINGS, **MIGRATION_TIMEOUTS}
        options: dict[str, Any] = {"timeout": 10, "server_settings": settings}
        address = parsed.set(drivername="postgresql+asyncpg")
        return create_async_engine(address, **_ENGINE, connect_args=options, poolclass=sa.NullPool)
    path = sqlite_path(parsed)
    private_file(path)
    # A rebuilt table may take long, so its statements go to the thread.
    engine = _sqlite_engine(path, is_writer=False, poolclass=sa.NullPool)
    _on_sqlite(engine, "BEGIN IMMEDIATE", "foreign_keys=OFF", "synchronous=FULL")
    return engine


def vacuum_engine(url: str) -> AsyncEngine:
    """An engine for Postgres' VACUUM, which is not allowed inside a transaction."""
    return create_async_engine(
        sa.make_url(url).set(drivername="postgresql+asyncpg"),
        **_ENGINE,
        isolation_level="AUTOCOMMIT",
        poolclass=sa.NullPool,
    )


def rows_query(name: str, tables: Sequence[str]) -> sa.TextClause:
    """How many rows each table has, cheap enough to be asked now and then: (name, rows).

    Counting walks an index on SQLite; Postgres tells what it last estimated, and 0 before.
    """
    if name == "sqlite":
        counted = (f"SELECT '{table}' AS name, count(*) AS rows FROM {table}" for table in tables)
        return sa.text(" UNION ALL ".join(counted))
    listed = ", ".join(f"'{table}'" for table in tables)
    return sa.text(
        "SELECT relname AS name, greatest(reltuples, 0)::bigint AS rows FROM pg_class"
        f" WHERE relname IN ({listed}) AND relnamespace = current_schema()::regnamespace"
    )


#: How many bytes a Postgres database takes.
POSTGRES_SIZE = sa.text("SELECT pg_database_size(current_database())")


def size_query(name: str) -> sa.TextClause:
    """How many bytes the database takes, on SQLite without its log."""
    if name == "sqlite":
        return sa.text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    return POSTGRES_SIZE


def clock(name: str) -> sa.ColumnElement[int]:
    """The database's clock as an expression, in microseconds since 1970."""
    return sa.literal_column(f"({_CLOCKS[name]})", sa.BigInteger)


class _Clock(FunctionElement[int]):
    """The same in a statement that is built before it is known for which database."""

    # A bare column element has no cache key: every statement with it would be compiled anew each time.
    inherit_cache = True
    type = sa.BigInteger()


@compiles(_Clock)
def _compiled_clock(_element: _Clock, compiler: Any, **_options: object) -> str:
    # A statement that is only shown is compiled for no database.
    return f"({_CLOCKS.get(compiler.dialect.name, 'clock()')})"


#: For `RETURNING`, and for the outside of a locking query: it is read behind the lock, without a
#: trip of its own. See `Transaction.heard`.
CLOCK = _Clock().label("clock")


def locking(query: sa.Select[Any]) -> sa.Select[Any]:
    """The same rows, locked, each with the clock behind its lock."""
    # A query that locks is never merged into the one around it.
    locked = query.with_for_update().cte("locked")
    return sa.select(locked, CLOCK)


@contextlib.contextmanager
def one_migration(url: str) -> Iterator[None]:
    """Wait for another process that upgrades the same SQLite file; Postgres has a lock for that."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        yield
        return
    private_file(sqlite_path(parsed))
    with file_lock(sqlite_path(parsed)):
        yield


def lock_migration(connection: sa.Connection) -> None:
    """Keep other migrations of a Postgres database out until this connection ends."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(MIGRATION_LOCK)
        # Alembic begins its own transactions, one a revision.
        connection.commit()


def check_foreign_keys(connection: sa.Connection) -> None:
    """Refuse to commit a revision that left a row on SQLite without the row that it names."""
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise RuntimeError(f"table {broken[0]} would name rows of {broken[2]} that are missing")


def offline_preamble(dialect: str) -> list[str]:
    """What a script of `--sql` begins with, so that it waits and locks as a live migration does."""
    if dialect != "postgresql":
        return ["PRAGMA foreign_keys=OFF"]
    limits = [f"SET {name} = {value}" for name, value in MIGRATION_TIMEOUTS.items()]
    return [*limits, MIGRATION_LOCK]


def _sqlite(url: sa.URL) -> Dialect:
    path = sqlite_path(url)
    private_file(path)
    writer = _sqlite_engine(path, is_writer=True, pool_size=1, max_overflow=0)
    reader = _sqlite_engine(path, is_writer=False, pool_size=POOL_SIZE, max_overflow=0)
    # Nothing is written to the disk before the commit, which has a thread.
    no_spill = "cache_spill=OFF"
    _on_sqlite(writer, "BEGIN IMMEDIATE", "foreign_keys=ON", "synchronous=FULL", no_spill)
    _on_sqlite(reader, "BEGIN", "query_only=ON")
    lock = asyncio.Lock()
    return Dialect("sqlite", writer, reader, lambda: lock, None, _sqlite_began_at)


def _sqlite_began_at(connection: AsyncConnection) -> int | None:
    pooled = connection.sync_connection
    driver: Any = pooled.connection.driver_connection if pooled else None
    return driver.began_at if driver else None


def _sqlite_engine(path: Path, *, is_writer: bool, **pool: Any) -> AsyncEngine:
    url = sa.URL.create("sqlite+aiosqlite", database=str(path))
    creator = connector(path, BUSY_SECONDS, is_writer=is_writer)
    return create_async_engine(url, **_ENGINE, async_creator=creator, **pool)


def _on_sqlite(engine: AsyncEngine, begin: str, *pragmas: str) -> None:
    def on_connect(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def on_begin(connection: sa.Connection) -> None:
        adapted: Any = connection.connection.dbapi_connection
        adapted.run_async(lambda driver: driver.begin(begin, _CLOCKS["sqlite"]))

    sa.event.listen(engine.sync_engine, "connect", on_connect)
    sa.event.listen(engine.sync_engine, "begin", on_begin)


def _postgres(url: sa.URL) -> Dialect:
    engine = create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        **_ENGINE,
        isolation_level="READ COMMITTED",
        pool_size=POOL_SIZE,
        max_overflow=POOL_SIZE,
        pool_timeout=STATEMENT_SECONDS,
        connect_args={
            "timeout": 10,
            "command_timeout": STATEMENT_SECONDS,
            "server_settings": _POSTGRES_SETTINGS,
            # All that there are: to prepare one anew costs two trips.
            "prepared_statement_cache_size": _PREPARED,
        },
    )
    sa.event.listen(engine.sync_engine, "checkout", _refuse_closed)
    # One snapshot for a whole read, as SQLite gives.
    reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    lock = sa.text("LOCK TABLE database IN SHARE ROW EXCLUSIVE MODE")
    return Dialect("postgresql", engine, reader, contextlib.nullcontext, lock)


def _refuse_closed(adapted: Any, _record: object, _proxy: object) -> None:
    """A connection that the server has ended is replaced; asking the server would cost three trips."""
    if adapted.driver_connection.is_closed():
        raise sa.exc.DisconnectionError("the server has ended this connection")
