"""The database: transactions that end whole whatever happens to their task."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from datetime import timedelta
from functools import partial
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from openab.storage import schema
from openab.storage.completion import in_our_errors, to_its_end
from openab.storage.dialect import Dialect, connect
from openab.storage.failures import (
    CommitUnknown,
    Conflict,
    DatabaseUnavailable,
    Unwritable,
    translated,
)
from openab.storage.health import Health
from openab.storage.transaction import Transaction, current, in_transaction

__all__ = [
    "CommitUnknown",
    "Conflict",
    "Database",
    "DatabaseUnavailable",
    "Transaction",
    "Unwritable",
    "in_transaction",
]


class Database:
    """One database, SQLite or PostgreSQL, used from one event loop."""

    def __init__(self, dialect: Dialect, offset: Callable[[], timedelta], health: Health) -> None:
        self._dialect = dialect
        self._is_closed = False
        self.offset = offset
        self.dialect = dialect.name
        self.health = health
        #: Write transactions that were committed through this object.
        self.commits = 0
        #: Which database this is; empty while it has no tables.
        self.id = ""
        self._work_listeners: list[Callable[[str], None]] = []

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        offset: Callable[[], timedelta] | None = None,
        health: Health | None = None,
    ) -> "Database":
        """Connect to a SQLAlchemy URL; `offset` is added to the clock. Raises `DatabaseUnavailable`."""
        try:
            database = cls(connect(url), offset or timedelta, health or Health())
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
        await to_its_end("database close", self._dialect.dispose())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Write: committed on a clean exit, rolled back on any exception, cancellation included.

        A cancellation that comes once the commit has begun waits for its end and is raised then:
        the commit is done, or its failure is logged. If a commit cannot be told done or not done,
        `CommitUnknown` is raised. On SQLite the writers of a process take turns, first come, first
        served, and a failed wait for another process is `DatabaseUnavailable`.
        """
        self._refuse_nesting()
        tx, failures = None, 0
        try:
            with self._watched():
                async with self._dialect.write_turn():
                    failures = self.health.failures
                    async with self._open(self._dialect.writer) as tx:
                        yield tx
                        await to_its_end("commit", tx.commit())
        finally:
            # Also when a cancellation came during a commit that succeeded.
            if tx is not None and tx.is_committed:
                self.commits += 1
                self.health.committed(failures)
                self._hint_at_work(tx)
                tx.run_hints()

    def hear_of_work(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with each conversation that a commit of ours put something into, for as long as we are open.

        Not with those that their owner put something into itself. It is a hint: there may be nothing new,
        and a commit of another process is not heard of.
        """
        self._work_listeners.append(listener)

    def _hint_at_work(self, tx: Transaction) -> None:
        for conversation in tx.work_for_others:
            for listener in self._work_listeners:
                tx.after_commit(partial(listener, conversation))

    async def prove(self) -> None:
        """Write something for good that changes nothing, or raise what keeps the database from it."""
        same = schema.database.c.created_at
        async with self.transaction() as tx:
            await tx.execute(sa.update(schema.database).values(created_at=same))

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        """Read one snapshot; the database refuses a write in here."""
        self._refuse_nesting()
        with self._watched():
            async with self._open(self._dialect.reader) as tx:
                yield tx

    def _watched(self) -> AbstractContextManager[None]:
        return nullcontext() if self._is_closed else self.health.watched()

    @asynccontextmanager
    async def _open(self, engine: AsyncEngine) -> AsyncIterator[Transaction]:
        if self._is_closed:
            raise DatabaseUnavailable("the database was closed")
        # A cancelled caller gets no connection, and then nobody else would give it back.
        begun = in_our_errors(self._begun(engine))
        connection = await to_its_end("begin", begun, self._give_back)
        tx = Transaction(connection, self, self.offset, self._dialect.began_at(connection))
        current.set(tx)
        try:
            yield tx
        finally:
            tx.is_open = False
            current.set(tx.outer)
            await to_its_end("end", self._end(tx, connection))

    async def _begun(self, engine: AsyncEngine) -> AsyncConnection:
        connection = await engine.connect()
        try:
            await connection.begin()
        except BaseException:
            await self._give_back(connection)
            raise
        return connection

    async def _end(self, tx: Transaction, connection: AsyncConnection) -> None:
        if not tx.is_committed:
            await tx.rollback()
        await self._give_back(connection)

    async def _give_back(self, connection: AsyncConnection) -> None:
        if self._is_closed and not connection.invalidated:
            # Its pool is gone; nobody else would end it.
            await connection.invalidate()
        await connection.close()

    def _refuse_nesting(self) -> None:
        task, tx = asyncio.current_task(), current.get()
        while tx is not None:
            if tx.is_open and tx.owner is self and tx.task is task:
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
