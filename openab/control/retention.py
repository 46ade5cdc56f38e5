"""Deletes finished rows after their time: small steps with rests between, the oldest rows first."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

import structlog

from openab.control.services import Services
from openab.domain.errors import Transient, Unknown
from openab.domain.ids import AccountId, PlatformId
from openab.ports.agent import AgentSession, Liveness
from openab.storage import retention
from openab.storage.absences import mark_of
from openab.storage.engine import Transaction
from openab.storage.retention import Deleted, UnusedSession

log = structlog.get_logger()
#: A turn has some fifteen rows, so that every step deletes a few hundred at most.
TURNS_A_STEP = 20
ROWS_A_STEP = 300
_EVERY = timedelta(hours=1)
#: After a failure, which is the database being away.
_RETRY = timedelta(minutes=1)
#: A backfill begins two minutes before the account's mark and takes for new whatever the inbox does
#: not know. The mark is a moment of the network's clock, a row's age one of the database's: a day
#: is far more than the two can differ.
MARK_MARGIN = timedelta(days=1)

Delete = Callable[[Transaction, AccountId, datetime, int], Awaitable[Deleted]]
Step = Callable[[datetime], Awaitable[Deleted]]


class Retention:
    """One account's. Killed at any moment it has done whole steps, and its next life goes on."""

    def __init__(
        self,
        services: Services,
        moment_of: Callable[[PlatformId], datetime],
        rest: timedelta = timedelta(seconds=0.5),
    ) -> None:
        """`moment_of` tells when a message was written; `rest` stands between two steps."""
        self._services = services
        self._settings = services.settings
        self._moment_of = moment_of
        self._rest = rest.total_seconds()
        #: What others point at goes after them.
        self._steps: tuple[Step, ...] = (
            partial(self._delete, retention.delete_turns, TURNS_A_STEP),
            partial(self._delete, retention.delete_deliveries, ROWS_A_STEP),
            partial(self._delete, retention.delete_inbox, ROWS_A_STEP),
            partial(self._delete, retention.delete_handoffs, ROWS_A_STEP),
            partial(self._delete, retention.delete_bindings, ROWS_A_STEP),
            self._delete_sessions,
            partial(self._delete, retention.delete_spawns, ROWS_A_STEP),
            partial(self._delete, retention.delete_conversations, ROWS_A_STEP),
        )

    async def run(self) -> None:
        """Sweep now and every hour until the task is cancelled; at once over if all is kept for good."""
        while self._settings.keep:
            try:
                await self.sweep()
            except (Transient, Unknown) as error:
                log.info("retention_waits_for_database", error=str(error))
                await asyncio.sleep(_RETRY.total_seconds())
            else:
                await asyncio.sleep(_EVERY.total_seconds())

    async def sweep(self) -> Deleted:
        """Delete what is old enough now, step by step; returns how many rows went, by table."""
        swept = Deleted()
        before = await self._limit()
        if before is not None:
            for step in self._steps:
                while deleted := await self._counted(step(before)):
                    swept += deleted
                    await asyncio.sleep(self._rest)
        if swept:
            log.info("retention_swept", before=before, **swept)
        self._services.signals.tell("retention_swept")
        return swept

    async def _limit(self) -> datetime | None:
        """What was over before this moment may go; None: nothing may, since no message ever came."""
        settings = self._settings
        async with self._services.database.read() as tx:
            mark = (await mark_of(tx, settings.channel, settings.account)).heard
            oldest_kept = await tx.now() - settings.keep
        return min(oldest_kept, self._moment_of(mark) - MARK_MARGIN) if mark else None

    async def _counted(self, step: Awaitable[Deleted]) -> Deleted:
        deleted = await step
        for table, rows in deleted.items():
            self._services.counters.deleted(table, rows)
        self._services.signals.tell("retention_step")
        return deleted

    async def _delete(self, delete: Delete, limit: int, before: datetime) -> Deleted:
        async with self._services.database.transaction() as tx:
            return await delete(tx, self._settings.account, before, limit)

    async def _delete_sessions(self, before: datetime) -> Deleted:
        """One whose agent lives here stays: people may come back to what it remembers."""
        account, database = self._settings.account, self._services.database
        async with database.read() as tx:
            unused = await retention.unused_sessions(tx, account, before, ROWS_A_STEP)
        gone = [one for one in unused if not self._lives(one)]
        if not gone:
            return Deleted()
        async with database.transaction() as tx:
            return await retention.delete_sessions(tx, account, before, gone)

    def _lives(self, session: UnusedSession) -> bool:
        database = self._services.database.id
        name = AgentSession(database, session.key, session.generation, session.epoch)
        return self._services.agents.status(name).liveness is not Liveness.ABSENT
