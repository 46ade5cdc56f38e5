"""What the database takes on disk: how much it is, and giving back what deleted rows took."""

import asyncio
import contextlib
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from openab.storage import dialect
from openab.storage.engine import Transaction
from openab.storage.failures import translated
from openab.storage.schema import metadata
from openab.storage.upgrade import SchemaRefused

#: Beside a broker SQLite's file is held no longer than a broker waits for it without a failure.
BESIDE_SECONDS = 3.0
#: Steps of SQLite's machine between two looks at the clock.
_LOOK_EVERY = 1000


class TooBig(SchemaRefused):
    """It cannot be vacuumed beside a running process; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum came to, in bytes."""

    before: int
    after: int
    #: A sentence for people, where there is something to say.
    told: str = ""


async def rows(tx: Transaction) -> dict[str, int]:
    """How many rows each table has; on Postgres an estimate."""
    found = await tx.execute(dialect.rows_query(tx.dialect, sorted(metadata.tables)))
    return {row["name"]: int(row["rows"]) for row in found.mappings()}


async def size(tx: Transaction) -> int:
    """How many bytes the database takes."""
    return int((await tx.execute(dialect.size_query(tx.dialect))).scalar_one())


async def vacuum(url: str, beside_seconds: float = BESIDE_SECONDS) -> Vacuumed:
    """Give the space of deleted rows back. Raises `DatabaseUnavailable` if the database is busy.

    Brokers may be at work. On SQLite they wait, so then it is tried for `beside_seconds` and raises
    `TooBig` if that was not enough.
    """
    if dialect.is_missing(url):
        raise SchemaRefused("there is no database yet; type: openab db upgrade")
    try:
        file = dialect.file_of(url)
        if file is None:
            return await _vacuum_postgres(url)
        return await asyncio.to_thread(_vacuum_sqlite, file, beside_seconds)
    except Exception as error:
        raise translated(error) from error


def _vacuum_sqlite(path: Path, beside_seconds: float) -> Vacuumed:
    before = _bytes(path)
    with contextlib.closing(
        sqlite3.connect(path, dialect.BUSY_SECONDS, isolation_level=None)
    ) as connection:
        is_alone = _is_alone(path)
        # The log may be larger than the file.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _vacuum_within(connection, None if is_alone else beside_seconds)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Vacuumed(before, _bytes(path))


def _is_alone(path: Path) -> bool:
    """Whether no process has the file open but this one."""
    with contextlib.closing(sqlite3.connect(path, 0, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
    return True


def _vacuum_within(connection: sqlite3.Connection, seconds: float | None) -> None:
    if seconds is not None:
        until = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > until, _LOOK_EVERY)
    try:
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        raise TooBig(
            f"a broker is at work, and {seconds:g} s were not enough: stop it and try again. "
            "Nothing was changed; the space of deleted rows is used again in any case"
        ) from error


def _bytes(path: Path) -> int:
    parts = (path, path.with_name(f"{path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


async def _vacuum_postgres(url: str) -> Vacuumed:
    engine = dialect.vacuum_engine(url)
    try:
        async with engine.connect() as connection:
            asked = dialect.POSTGRES_SIZE
            before = (await connection.execute(asked)).scalar_one()
            tables = ", ".join(sorted(metadata.tables))
            await connection.exec_driver_sql(f"VACUUM (ANALYZE) {tables}")
            after = (await connection.execute(asked)).scalar_one()
    finally:
        await engine.dispose()
    return Vacuumed(before, after, "autovacuum does this by itself; files seldom become smaller")
