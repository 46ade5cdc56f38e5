"""SQLite's connections: a statement is one trip to the thread or none, and nothing is asked that is known."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from openab.ports.tasks import spawn
from openab.storage.sqlite_driver import WholeConnection, connector

_CLOCK = "CAST(strftime('%s', 'now') AS INTEGER)"


class Trips:
    """Counts what the connection's thread is asked for."""

    def __init__(self, connection: WholeConnection) -> None:
        self._queue: Any = connection._tx
        self.count = 0
        connection._tx = self  # type: ignore[assignment] # what the connection uses of a queue

    def put_nowait(self, item: object) -> None:
        self.count += 1
        self._queue.put_nowait(item)


@asynccontextmanager
async def _open(folder: Path, *, is_writer: bool = False) -> AsyncIterator[WholeConnection]:
    connection = await connector(folder / "x.db", 1.0, is_writer=is_writer)()
    try:
        yield connection  # type: ignore[misc] # aiosqlite answers as its own type
    finally:
        await connection.close()


async def test_a_query_and_its_rows_are_one_trip(tmp_path: Path) -> None:
    async with _open(tmp_path) as connection:
        trips = Trips(connection)
        cursor = connection.cursor()
        await cursor.execute("SELECT ? UNION SELECT 2", (1,))
        assert await cursor.fetchall() == [(1,), (2,)]
        assert cursor.description is not None
        await cursor.close()
        assert trips.count == 1


async def test_many_rows_are_written_in_one_trip(tmp_path: Path) -> None:
    async with _open(tmp_path) as connection:
        await connection.cursor().execute("CREATE TABLE t (n INTEGER)")
        trips = Trips(connection)
        cursor = connection.cursor()
        await cursor.executemany("INSERT INTO t VALUES (?)", [(1,), (2,), (3,)])
        assert (cursor.rowcount, cursor.description, trips.count) == (3, None, 1)


@pytest.mark.parametrize(("is_writer", "trips_of_statements"), [(True, 0), (False, 2)])
async def test_only_a_writers_begin_and_commit_go_to_the_thread(
    tmp_path: Path, *, is_writer: bool, trips_of_statements: int
) -> None:
    async with _open(tmp_path, is_writer=is_writer) as connection:
        await connection.cursor().execute("CREATE TABLE t (n INTEGER)")
        trips = Trips(connection)
        await connection.begin("BEGIN IMMEDIATE", _CLOCK)
        assert trips.count == 1
        await connection.cursor().execute("INSERT INTO t VALUES (1)")
        cursor = await connection.cursor().execute("SELECT n FROM t")
        assert (await cursor.fetchall(), trips.count) == ([(1,)], 1 + trips_of_statements)
        await connection.commit()
        assert trips.count == 2 + trips_of_statements


async def test_a_writer_that_waits_for_another_holds_nobody_else_up(tmp_path: Path) -> None:
    async with _open(tmp_path) as other, _open(tmp_path, is_writer=True) as writer:
        await other.begin("BEGIN IMMEDIATE", _CLOCK)
        waiting = spawn("waits", writer.begin("BEGIN IMMEDIATE", _CLOCK))
        # The loop goes on, or the other could never end what is waited for.
        await other.cursor().execute("CREATE TABLE t (n INTEGER)")
        assert not waiting.done()
        await other.commit()
        await waiting
        await writer.rollback()


async def test_a_transaction_begins_with_the_clock_behind_its_lock(tmp_path: Path) -> None:
    async with _open(tmp_path) as first, _open(tmp_path) as second:
        await first.begin("BEGIN IMMEDIATE", _CLOCK)
        began = first.began_at
        waiting = spawn("waits", second.begin("BEGIN IMMEDIATE", f"1 + {began}"))
        await first.commit()
        await waiting
        assert second.began_at == began + 1
        await second.rollback()


async def test_nothing_is_rolled_back_that_was_not_begun(tmp_path: Path) -> None:
    async with _open(tmp_path) as connection:
        trips = Trips(connection)
        await connection.rollback()
        assert trips.count == 0


async def test_an_error_leaves_the_cursor_without_rows(tmp_path: Path) -> None:
    async with _open(tmp_path) as connection:
        cursor = connection.cursor()
        with pytest.raises(sqlite3.OperationalError):
            await cursor.execute("SELECT nothing")
        assert await cursor.fetchall() == ()
