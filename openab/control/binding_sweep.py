"""Ends bindings whose time is over, clears those of which everybody was told, and shows what waited for one."""

import asyncio

import structlog

from openab.control.completions import release_held
from openab.control.persist import Waits
from openab.control.services import Services
from openab.domain.errors import Transient, Unknown
from openab.storage import bindings, spawns
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
                if await self._has_any():
                    await self.sweep()
            except (Transient, Unknown, StateChanged) as error:
                # What somebody else moved meanwhile, or nobody can tell, is looked at next time.
                waits.note(error)
            else:
                waits.over()
            await asyncio.sleep(settings.binding.sweep_every.total_seconds())

    async def _has_any(self) -> bool:
        services = self._services
        async with services.database.read() as tx:
            account = services.settings.account
            return bool(await bindings.open_of(tx, account) or await spawns.held_of(tx, account))

    async def sweep(self) -> int:
        """One look at all that is not ended, and at what waits for a binding; how many moved on."""
        services = self._services
        async with services.database.transaction() as tx:
            moved = await services.settings.bindings.sweep(tx, services.settings.account)
        async with services.database.transaction() as tx:
            moved += await release_held(tx, services.settings)
        if moved:
            log.info("bindings_swept", bindings=moved)
        services.signals.tell("bindings_swept")
        return moved
