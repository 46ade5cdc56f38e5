"""The database: transactions that end whole whatever happens to their task, and its clock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction

from openab.ports.tasks import spawn
from openab.storage import schema
from openab.storage.dialect import Dialect, clock, connect
from openab.storage.failures import (
    CommitUnknown,
    Conflict,
    DatabaseUnavailable,
    Unwritable,
    translated,
    translated_commit,
)
from openab.storage.types import from_micros

__all__ = [
    "CommitUnknown",
    "Conflict",
    "Database",
    "DatabaseUnavailable",
    "Transaction",
    "Unwritable",
    "in_transaction",
]

Result = TypeVar("Result")
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]
log = structlog.get_logger()
_current: ContextVar["Transaction | None"] = ContextVar("openab_transaction", default=None)


def in_transaction() -> bool:
    """Whether this task stands inside a transaction or a read: then it must not talk to the world."""
    return _innermost() is not None


class Transaction:
    """One open transaction; its methods raise `DatabaseUnavailable`, `Conflict` and `Unwritable`.

    After a statement failed outside a savepoint nothing more can be done, on either dialect: the
    transaction does not commit even if the caller swallowed the error.
    """

    def __init__(
        self, database: "Database", connection: AsyncConnection, outer: "Transaction | None"
    ) -> None:
        self.database = database
        self.dialect = database.dialect
        self.outer = outer
        self.task = asyncio.current_task()
        self.is_open = True
        self.is_committed = False
        self._connection = connection
        self._hints: list[Callable[[], None]] = []
        self._is_broken = False

    async def execute(
        self, statement: sa.Executable, parameters: Parameters | None = None
    ) -> CursorResult[Any]:
        """Run one statement; its rows are all here when this returns."""
        return await self._step(lambda: self._connection.execute(statement, parameters))

    async def now(self) -> datetime:
        """The database's clock at this moment (so after any lock already taken), plus the offset."""
        result = await self.execute(self.database.clock)
        return from_micros(result.scalar_one()) + self.database.offset()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A part that is undone alone when it raises; the transaction can go on."""
        hints = len(self._hints)
        nested = await self._step(lambda: self._connection.begin_nested().start())
        try:
            yield
            await self._step(nested.commit)
        except BaseException:
            del self._hints[hints:]
            await self._undo(nested)
            raise

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the commit is done, never otherwise: a hint; its error is only logged."""
        self._hints.append(callback)

    async def has_table(self, table: sa.Table) -> bool:
        """Whether the database has this table."""

        def look(connection: sa.Connection) -> bool:
            return sa.inspect(connection).has_table(table.name)

        return await self._step(lambda: self._connection.run_sync(look))

    async def commit(self) -> None:
        """For `Database` only: make it last, or raise `DatabaseUnavailable` or `CommitUnknown`."""
        self._must_be_sound()
        try:
            await self._connection.commit()
        except Exception as error:  # noqa: BLE001 - a bug comes out as it is
            raise translated_commit(error) from None
        self.is_committed = True

    async def rollback(self) -> None:
        """For `Database` only: undo what was not committed; a broken connection has done so itself."""
        try:
            await self._connection.rollback()
        except Exception as error:  # noqa: BLE001 - the error that led here matters more
            log.warning("rollback_failed", error=type(error).__name__)

    def run_hints(self) -> None:
        """For `Database` only: call what was given to `after_commit`."""
        for hint in self._hints:
            try:
                hint()
            except Exception:
                log.exception("after_commit_failed")

    async def _step(self, step: Callable[[], Awaitable[Result]]) -> Result:
        self._must_be_sound()
        try:
            return await _translated(step())
        except BaseException:
            self._is_broken = True
            raise

    async def _undo(self, nested: AsyncTransaction) -> None:
        if self._connection.invalidated or not nested.is_active:
            return
        await _to_its_end("rollback to savepoint", nested.rollback())
        self._is_broken = False

    def _must_be_sound(self) -> None:
        if not self.is_open:
            raise RuntimeError("this transaction has ended")
        if self._is_broken:
            raise RuntimeError("a statement failed; only rolling back is left (use a savepoint)")


class Database:
    """One database, SQLite or PostgreSQL, used from one event loop."""

    def __init__(self, dialect: Dialect, offset: Callable[[], timedelta]) -> None:
        self._dialect = dialect
        self._is_closed = False
        self.offset = offset
        self.dialect = dialect.name
        self.clock = sa.select(clock(dialect.name))
        #: Write transactions that were committed through this object.
        self.commits = 0
        #: Which database this is; empty while it has no tables.
        self.id = ""

    @classmethod
    async def open(cls, url: str, *, offset: Callable[[], timedelta] | None = None) -> "Database":
        """Connect to a SQLAlchemy URL; `offset` is added to the clock. Raises `DatabaseUnavailable`."""
        try:
            database = cls(connect(url), offset or timedelta)
        except Exception as error:
            raise translated(error) from error
        try:
            database.id = await database._identify()
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        """End all connections; one that is still in use ends with its transaction."""
        self._is_closed = True
        await _to_its_end("database close", self._dialect.dispose())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Write: committed on a clean exit, rolled back on any exception, cancellation included.

        A cancellation that comes once the commit has begun waits for its end and is raised then:
        the commit is done, or its failure is logged. If a commit cannot be told done or not done,
        `CommitUnknown` is raised. On SQLite the writers of a process take turns, first come, first
        served, and a failed wait for another process is `DatabaseUnavailable`.
        """
        self._refuse_nesting()
        tx = None
        try:
            async with self._dialect.write_turn(), self._open(self._dialect.writer) as tx:
                try:
                    yield tx
                    await _to_its_end("commit", tx.commit())
                except BaseException:
                    await _to_its_end("rollback", tx.rollback())
                    raise
        finally:
            # Also when a cancellation came during a commit that succeeded.
            if tx is not None and tx.is_committed:
                self.commits += 1
                tx.run_hints()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        """Read one snapshot; the database refuses a write in here."""
        self._refuse_nesting()
        async with self._open(self._dialect.reader) as tx:
            try:
                yield tx
            finally:
                await _to_its_end("rollback", tx.rollback())

    @asynccontextmanager
    async def _open(self, engine: AsyncEngine) -> AsyncIterator[Transaction]:
        if self._is_closed:
            raise DatabaseUnavailable("the database was closed")
        connection = await _translated(engine.connect())
        outer = _current.get()
        tx = Transaction(self, connection, outer)
        try:
            await _translated(connection.begin().start())
            _current.set(tx)
            yield tx
        finally:
            tx.is_open = False
            _current.set(outer)
            await _to_its_end("connection close", self._give_back(connection))

    async def _give_back(self, connection: AsyncConnection) -> None:
        if self._is_closed and not connection.invalidated:
            # Its pool is gone; nobody else would end it.
            await connection.invalidate()
        await connection.close()

    def _refuse_nesting(self) -> None:
        task, tx = asyncio.current_task(), _current.get()
        while tx is not None:
            if tx.is_open and tx.database is self and tx.task is task:
                raise RuntimeError("a transaction inside a transaction waits for itself")
            tx = tx.outer

    async def _identify(self) -> str:
        async with self.read() as tx:
            if not await tx.has_table(schema.database):
                return ""
            known = await tx.execute(sa.select(schema.database.c.id))
            found: str | None = known.scalar()
        return found or await self._name_itself()

    async def _name_itself(self) -> str:
        async with self.transaction() as tx:
            if self._dialect.lock_database_row is not None:
                await tx.execute(self._dialect.lock_database_row)
            known: str | None = (await tx.execute(sa.select(schema.database.c.id))).scalar()
            if known is not None:
                return known
            own = str(uuid4())
            await tx.execute(schema.database.insert().values(id=own, created_at=await tx.now()))
            return own


async def _translated(step: Awaitable[Result]) -> Result:
    try:
        return await step
    except Exception as error:  # noqa: BLE001 - a bug comes out as it is
        # From None: the driver's own error quotes the values.
        raise translated(error) from None


async def _to_its_end(name: str, step: Coroutine[Any, Any, Result]) -> Result:
    """Do `step` whole, whoever is cancelled meanwhile; the cancellation is raised afterwards."""
    task, cancelled = spawn(name, step), None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return _result(name, task)
    if task.cancelled() or task.exception() is not None:
        log.warning("cancelled_while_failing", step=name, error=repr(_failure(task)))
    raise cancelled


def _result(name: str, task: "asyncio.Task[Result]") -> Result:
    if task.cancelled():
        # Only a loop that is being torn down cancels it.
        raise CommitUnknown(f"{name} was cut off")
    return task.result()


def _failure(task: "asyncio.Task[Any]") -> BaseException | None:
    return None if task.cancelled() else task.exception()


def _innermost() -> Transaction | None:
    tx = _current.get()
    while tx is not None and not tx.is_open:
        tx = tx.outer
    return tx
