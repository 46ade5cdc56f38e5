"""What `/readyz` and the status page say: each part's own word, asked anew each time."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openab.domain.errors import OpenabError
from openab.storage import turns
from openab.web.health import Check

if TYPE_CHECKING:
    from openab.agents.host.check import AgentChecked
    from openab.app.values import Live
    from openab.channels.discord.client import DiscordClient
    from openab.control.backfill import Backfill
    from openab.storage.engine import Database

_PATIENCE = 2.0
#: A hand-off lives by the clock: beyond this difference nobody knows for how long.
MOST_SKEW_SECONDS = 5.0


class Readiness:
    """The checks of one process. Parts that are not there yet are not ready."""

    def __init__(self) -> None:
        self.database: Database | None = None
        self.client: DiscordClient | None = None
        self.backfill: Backfill | None = None
        self.live: Live | None = None
        #: None: not tried yet.
        self.agent: AgentChecked | None = None

    async def checks(self) -> Mapping[str, Check]:
        """All checks by name."""
        return {
            "database": await self._database(),
            "discord": self._discord(),
            "agent": self._agent(),
            "handoffs": await self._handoffs(),
        }

    async def _database(self) -> Check:
        if self.database is None:
            return Check(ok=False, reason="not opened yet")
        health = self.database.health
        try:
            # A real write: what is full, read-only or held by somebody else can still be read.
            async with asyncio.timeout(_PATIENCE):
                await self.database.prove()
        except TimeoutError:
            slow = f"it takes no writes within {_PATIENCE:.0f} s"
            return Check(ok=False, reason=health.reason or slow)
        except OpenabError as error:
            return Check(ok=False, reason=health.reason or str(error))
        # Others' writes may fail though this one did not: a full disk lets small ones pass.
        return Check(ok=health.reason is None, reason=health.reason or "")

    def _discord(self) -> Check:
        if self.client is None:
            return Check(ok=False, reason="not logged in yet")
        health = self.client.health()
        lost = health.lost_events
        unread = f"; {lost} events could not be read since the start" if lost else ""
        is_late = self.backfill is not None and self.backfill.is_unfinished
        late = "; not everything is read that was said while nobody listened" if is_late else ""
        return Check(ok=health.ready, reason=health.reason + unread + late)

    def _agent(self) -> Check:
        if self.agent is None:
            return Check(ok=False, reason="not tried yet")
        failure = self.agent.failure
        if failure:
            return Check(ok=False, reason=f"{failure.kind.value}: {failure.message}")
        return Check(ok=True, reason=f"{self.agent.agent_name} {self.agent.agent_version}".strip())

    async def _handoffs(self) -> Check:
        if self.live is None or self.database is None or self.client is None:
            return Check(ok=False, reason="not logged in yet")
        if not self.live.policy().trusted_bots:
            return Check(ok=True, reason="none are taken: [discord].trusted_bot_ids is empty")
        try:
            async with asyncio.timeout(_PATIENCE), self.database.read() as tx:
                # Their expiry is compared with the database's clock.
                ahead = (await tx.now()).timestamp() - time.time() - self.client.rest.skew
        except (TimeoutError, OpenabError):
            return Check(ok=False, reason="the database's clock cannot be read")
        if abs(ahead) <= MOST_SKEW_SECONDS:
            return Check(ok=True)
        side = "ahead of" if ahead > 0 else "behind"
        told = f"the database's clock is {abs(ahead):.0f} s {side} Discord's: set it by NTP"
        return Check(ok=False, reason=told)

    async def live_turns(self) -> Sequence[Mapping[str, object]]:
        """The turns that are not settled, for the status page."""
        if self.database is None:
            return []
        async with self.database.read() as tx:
            rows = await turns.listed(tx, only_open=True, limit=100)
        return [
            {
                "turn": row["id"],
                "state": row["state"],
                "session": row["session_key"],
                "created": row["created_at"],
                "started": row["started_at"],
            }
            for row in rows
        ]
