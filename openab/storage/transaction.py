"""One open transaction: statements, savepoints, the clock, hints, and whether one is open here."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncTransaction

from openab.storage.completion import in_our_errors, to_its_end
from openab.storage.dialect import clock, waits_inside
from openab.storage.failures import translated_commit
from openab.storage.types import from_micros

Result = TypeVar("Result")
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]
log = structlog.get_logger()
current: ContextVar["Transaction | None"] = ContextVar("openab_transaction", default=None)


def in_transaction() -> bool:
    """Whether this task stands inside a transaction or a read: then it must not talk to the world."""
    return _innermost() is not None


class Transaction:
    """One open transaction; its methods raise `DatabaseUnavailable`, `Conflict` and `Unwritable`.

    After a statement failed outside a savepoint nothing more can be done, on either dialect: the
    transaction does not commit even if the caller swallowed the error.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        owner: object,
        offset: Callable[[], timedelta],
        began_at: int | None = None,
    ) -> None:
        """`began_at`: the database's clock when it had begun, where that is known."""
        #: The database it belongs to.
        self.owner = owner
        self.dialect = connection.dialect.name
        self.outer = current.get()
        self._offset = offset
        self.task = asyncio.current_task()
        self.is_open = True
        self.is_committed = False
        self._connection = connection
        self._hints: list[Callable[[], None]] = []
        #: Conversations that something was put into, and those whose owner does all this itself.
        self._given_work: set[str] = set()
        self._acting_for: set[str] = set()
        self._now = None if began_at is None else from_micros(began_at)
        self._waits_inside = waits_inside(self.dialect)
        self._is_broken = False

    async def execute(
        self, statement: sa.Executable, parameters: Parameters | None = None
    ) -> CursorResult[Any]:
        """Run one statement; its rows are all here when this returns."""
        if self._waits_inside and _may_wait(statement):
            self._now = None
        return await self._step(lambda: self._connection.execute(statement, parameters))

    async def now(self) -> datetime:
        """The database's clock after the last lock that this transaction took, plus the offset.

        A transaction is short, so one reading serves until a statement may have waited for a lock.
        """
        self._must_be_sound()
        if self._now is None:
            result = await self.execute(sa.select(clock(self.dialect)))
            self._now = from_micros(result.scalar_one())
        return self._now + self._offset()

    def heard(self, clock: int) -> None:
        """The database's clock, which a statement has read behind its lock."""
        self._now = from_micros(clock)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A part that is undone alone when it raises; the transaction can go on."""
        hints, acting_for = len(self._hints), set(self._acting_for)
        nested = await self._step(lambda: self._connection.begin_nested().start())
        try:
            yield
            await self._step(nested.commit)
        except BaseException:
            del self._hints[hints:]
            self._acting_for = acting_for
            await self._undo(nested)
            raise

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the commit is done, never otherwise: a hint; its error is only logged."""
        self._hints.append(callback)

    def acts_for(self, conversation: str) -> None:
        """The conversation's owner does this in its round: it needs no hint at what it gives itself to do."""
        self._acting_for.add(conversation)

    def gives_work(self, conversation: str) -> None:
        """Something was put into this conversation: whoever listens to the database hears it afterwards."""
        self._given_work.add(conversation)

    @property
    def work_for_others(self) -> set[str]:
        """For `Database` only: the conversations whose owners learn by a hint that there is something."""
        return self._given_work - self._acting_for

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
            return await to_its_end("statement", in_our_errors(step()))
        except BaseException:
            self._is_broken = True
            raise

    async def _undo(self, nested: AsyncTransaction) -> None:
        if self._connection.invalidated or not nested.is_active:
            return
        try:
            await to_its_end("rollback to savepoint", nested.rollback())
        except sa.exc.DBAPIError as error:
            # With a full or broken disk SQLite rolls the whole transaction back by itself.
            log.info("savepoint_gone", error=type(error).__name__)
        else:
            self._is_broken = False

    def _must_be_sound(self) -> None:
        if not self.is_open:
            raise RuntimeError("this transaction has ended")
        if self._is_broken:
            raise RuntimeError("a statement failed; only rolling back is left (use a savepoint)")


def _innermost() -> Transaction | None:
    tx = current.get()
    while tx is not None and not tx.is_open:
        tx = tx.outer
    return tx


def _may_wait(statement: sa.Executable) -> bool:
    """Whether a statement can wait for somebody else's lock, so that a moment read before is stale."""
    is_locking = getattr(statement, "_for_update_arg", None) is not None
    return is_locking or isinstance(statement, sa.Update | sa.Delete | sa.TextClause)
