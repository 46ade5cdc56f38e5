"""SQLite's connections: one trip to the connection's thread for a whole statement, or none at all.

aiosqlite makes four (cursor, execute, fetch, close), and a trip costs more than the statement itself.
What may wait always goes to the thread: beginning, where another process holds the lock, and committing,
where the disk does. In between a writer waits for nothing, and what it holds the lock for is short by
rule, so its statements are done where they are asked for. A read may be of any size and is not.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite

_Parameters = Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Done:
    """What a statement came to."""

    description: Any = None
    rows: Sequence[Any] = ()
    rowcount: int = -1
    lastrowid: int | None = None


class WholeCursor:
    """As much of aiosqlite's cursor as SQLAlchemy uses; the rows are all here once it has executed."""

    arraysize = 1

    def __init__(self, connection: "WholeConnection") -> None:
        self._connection = connection
        self._done = _Done()

    async def __aenter__(self) -> "WholeCursor":
        return self

    @property
    def description(self) -> Any:
        """The columns; None: there are no rows to have."""
        return self._done.description

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        return self._done.rowcount

    @property
    def lastrowid(self) -> int | None:
        """The row that was added."""
        return self._done.lastrowid

    async def execute(self, sql: str, parameters: _Parameters = ()) -> "WholeCursor":
        """Run one statement and take all its rows."""
        return await self._run(lambda cursor: cursor.execute(sql, parameters))

    async def executemany(self, sql: str, parameters: Sequence[_Parameters]) -> "WholeCursor":
        """Run one statement for each of these."""
        return await self._run(lambda cursor: cursor.executemany(sql, parameters))

    async def fetchall(self) -> Sequence[Any]:
        """The rows."""
        return self._done.rows

    async def close(self) -> None:
        """Nothing is held."""

    async def _run(self, step: Callable[[sqlite3.Cursor], object]) -> "WholeCursor":
        self._done = await self._connection.with_cursor(step)
        return self


class WholeConnection(aiosqlite.Connection):
    """A connection that asks its thread for nothing that it knows."""

    #: SQLite's clock when the last transaction had begun, its lock included.
    began_at = 0
    #: Whether the statements of a transaction that has begun are done without the thread.
    is_writer = False

    async def begin(self, begin: str, clock: str) -> None:
        """Run `begin` and read the expression `clock`, in one trip."""

        def begun() -> int:
            self._conn.execute(begin)
            return int(self._conn.execute(f"SELECT {clock}").fetchone()[0])

        self.began_at = await self._execute(begun)  # type: ignore[no-untyped-call] # it tells no types

    def cursor(self) -> WholeCursor:  # type: ignore[override] # SQLAlchemy needs no more of it
        """A cursor, which SQLite's thread makes when there is something to execute."""
        return WholeCursor(self)

    async def with_cursor(self, step: Callable[[sqlite3.Cursor], object]) -> _Done:
        """Do `step` and all that belongs to it, in the connection's thread if it may wait."""

        def whole() -> _Done:
            cursor = self._conn.cursor()
            try:
                step(cursor)
                rows = cursor.fetchall() if cursor.description else ()
                return _Done(cursor.description, rows, cursor.rowcount, cursor.lastrowid)
            finally:
                cursor.close()

        if self.is_writer and self._conn.in_transaction:
            return whole()
        done: _Done = await self._execute(whole)  # type: ignore[no-untyped-call] # it tells no types
        return done

    async def rollback(self) -> None:
        """Undo what was not committed; a pooled connection is told so once more, for nothing."""
        if self.in_transaction:
            await super().rollback()


def connector(path: Path, busy_seconds: float, *, is_writer: bool) -> Callable[[], WholeConnection]:
    """What makes connections to this file, for SQLAlchemy, which awaits them."""

    def opened() -> sqlite3.Connection:
        # isolation_level None: the driver begins nothing by itself. Threads: the connection's own and the
        # loop's use it, never at once, since a statement is asked for when the one before is done.
        return sqlite3.connect(path, busy_seconds, isolation_level=None, check_same_thread=False)

    def connect() -> WholeConnection:
        connection = WholeConnection(opened, iter_chunk_size=64)
        connection.is_writer = is_writer
        # A statement that hangs must not keep a stopped process alive.
        connection._thread.daemon = True
        return connection

    return connect
