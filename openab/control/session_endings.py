"""Ends the agents of sessions that were reset: what is to be ended stands in the session's row."""

import asyncio
from collections.abc import Sequence

import structlog

from openab.control.persist import Waits
from openab.control.services import Services
from openab.domain.errors import Rejected, Transient, Unknown
from openab.ports.agent import AgentSession
from openab.storage import sessions
from openab.storage.sessions import EndingSession

log = structlog.get_logger()
#: From the reset to the end of the process, three seconds pass at most: the rest is for noticing.
_CLOSE_SECONDS = 2.0


class SessionEndings:
    """Looks whenever it is hinted at, and at every poll: whoever reset a session may be elsewhere.

    A host that dies takes its agents with it, so a row of another life of it needs nobody.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._hinted = asyncio.Event()

    def wake(self) -> None:
        """A session was reset; never waits."""
        self._hinted.set()

    async def run(self) -> None:
        """End what is to be ended, until the task is cancelled."""
        waits = Waits("session_endings_wait")
        while True:
            self._hinted.clear()
            try:
                found = await self._found()
            except (Transient, Unknown) as error:
                waits.note(error)
            else:
                waits.over()
                await self._end_all(found)
            await self._rest()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._services.settings.poll.total_seconds()):
                await self._hinted.wait()
        except TimeoutError:
            return

    async def _found(self) -> list[EndingSession]:
        services = self._services
        async with services.database.read() as tx:
            return await sessions.ending_at(
                tx, services.settings.account, services.agents.incarnation
            )

    async def _end_all(self, found: Sequence[EndingSession]) -> None:
        async with asyncio.TaskGroup() as group:
            for one in found:
                group.create_task(self._end(one), name=f"end {one.key}")

    async def _end(self, ending: EndingSession) -> None:
        services = self._services
        for generation in range(ending.first, ending.last + 1):
            name = AgentSession(services.database.id, ending.key, generation, ending.epoch)
            try:
                await services.agents.close(name, _CLOSE_SECONDS)
            except Rejected as error:
                # Somebody newer commands it, or the host stops: either ends it, too.
                log.info("session_not_closed", session=ending.key, told=str(error))
        try:
            async with services.database.transaction() as tx:
                await sessions.ended(tx, ending)
        except (Transient, Unknown) as error:
            # The row is found again; closing what is closed does nothing.
            log.warning("session_ending_unnoted", session=ending.key, error=str(error))
            return
        log.info("session_ended", session=ending.key, generation=ending.last)
        services.signals.tell("session_ended")
