"""Every few seconds: the numbers that nobody reports by itself, and the counts that all processes share."""

import asyncio
import time

import structlog

from openab.app.values import DISCORD
from openab.app.wiring import Parts
from openab.domain.errors import OpenabError
from openab.domain.ids import AccountId
from openab.observability.metrics import Metrics
from openab.storage import counts, space
from openab.storage.engine import Database, Transaction

log = structlog.get_logger()
_EVERY_SECONDS = 10.0
_WEIGH_SECONDS = 300.0
#: Discord resets the token at 1000 IDENTIFYs a day, and bans the address at 10,000 invalid requests in ten minutes.
_MANY_IDENTIFIES = 800
_MANY_INVALID = 5_000


class Gauges:
    """Counts come in from the adapter at any time; `run` writes them down."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._identifies = 0
        self._invalid = 0
        self._commits = 0
        self._weigh_at = 0.0

    def identified(self) -> None:
        """An IDENTIFY was sent."""
        self._metrics.identifies.inc()
        self._identifies += 1

    def invalid(self, status: int) -> None:
        """A request was answered 401, 403 or 429."""
        self._metrics.invalid_requests.labels(str(status)).inc()
        self._invalid += 1

    async def run(self, parts: Parts, account: AccountId) -> None:
        """Measure until the task is cancelled; a database that is away only postpones it."""
        while True:
            try:
                await self._measure(parts, account)
                await self._weigh(parts.database)
            except OpenabError as error:
                log.debug("gauges_not_measured", error=str(error))
            await asyncio.sleep(_EVERY_SECONDS)

    async def _weigh(self, database: Database) -> None:
        """How large the tables are: seldom, since SQLite has to count."""
        if time.monotonic() < self._weigh_at:
            return
        async with database.read() as tx:
            found, taken = await space.rows(tx), await space.size(tx)
        for table, rows in found.items():
            self._metrics.table_rows.labels(table).set(rows)
        self._metrics.database_bytes.set(taken)
        self._weigh_at = time.monotonic() + _WEIGH_SECONDS

    async def _measure(self, parts: Parts, account: AccountId) -> None:
        metrics = self._metrics
        metrics.database_well.set(parts.database.health.reason is None)
        metrics.gateway_ready.set(parts.client.health().ready)
        metrics.agent_processes.set(parts.agents.processes)
        metrics.turns_in_line.set(parts.pool.waiting)
        metrics.commits.inc(parts.database.commits - self._commits)
        self._commits = parts.database.commits
        async with parts.database.read() as tx:
            open_turns = await counts.open_turns(tx, account)
            open_bindings = await counts.open_bindings(tx, account)
        for state in ("queued", "running", "answered"):
            metrics.open_turns.labels(state).set(open_turns.get(state, 0))
        for state in ("active", "ending"):
            metrics.bindings.labels(state).set(open_bindings.get(state, 0))
        if self._identifies or self._invalid:
            identifies, invalid = self._identifies, self._invalid
            async with parts.database.transaction() as tx:
                await self._share(tx, account, identifies, invalid)
            # Only now, so that a failed commit loses no count; more may have come meanwhile.
            self._identifies -= identifies
            self._invalid -= invalid

    async def _share(
        self, tx: Transaction, account: AccountId, identifies: int, invalid: int
    ) -> None:
        if identifies:
            today = await counts.count_identifies(tx, DISCORD, account, identifies)
            if today > _MANY_IDENTIFIES:
                log.error("identify_budget_low", today=today)
        if invalid:
            lately = await counts.count_invalid(tx, DISCORD, account, invalid)
            if lately > _MANY_INVALID:
                log.error("many_invalid_requests", in_ten_minutes=lately)
