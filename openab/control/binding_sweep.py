"""Ends bindings whose time is over, clears those of which everybody was told, and shows what waited for one."""

import asyncio

import structlog

from openab.control.completions import release_held
from openab.control.persist import Waits
from openab.control.services import Services
from openab.domain.errors import Transient, Unknown
from openab.storage import spawns
from openab.storage.transitions import StateChanged

log = structlog.get_logger()


class BindingSweep:
    """One account's. It is a matter of tidiness: whether a binding is over is judged on each read."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def run(self) -> None:
        """Sweep now and again until the task is cancelled, also where nothing is bound any more."""
        settings = self._services.settings
        waits = Waits("binding_sweep_waits")
        while True:
            try:
                await self.look()
            except (Transient, Unknown, StateChanged) as error:
                # What somebody else moved meanwhile, or nobody can tell, is looked at next time.
                waits.note(error)
            else:
                waits.over()
            await asyncio.sleep(settings.binding.sweep_every.total_seconds())

    async def look(self) -> int:
        """Sweep if there is something to do, so that nothing is written where nothing is due; how many moved on."""
        settings = self._services.settings
        async with self._services.database.read() as tx:
            has_work = await settings.bindings.is_any_due(
                tx, settings.account
            ) or await spawns.held_of(tx, settings.account)
        return await self.sweep() if has_work else 0

    async def sweep(self) -> int:
        """Move on all that is due, and what waits for a binding; how many moved on."""
        services = self._services
        async with services.database.transaction() as tx:
            moved = await services.settings.bindings.sweep(tx, services.settings.account)
        async with services.database.transaction() as tx:
            moved += await release_held(tx, services.settings)
        if moved:
            log.info("bindings_swept", bindings=moved)
        services.signals.tell("bindings_swept")
        return moved
