"""Succeeds owners that are proved dead at once, instead of waiting for the ends of their leases."""

import asyncio

import structlog

from openab.control.services import Services
from openab.domain.errors import Transient, Unknown
from openab.domain.ids import WorkerId
from openab.storage import conversations

log = structlog.get_logger()
#: Between two looks: a living owner is asked after no more often than this.
_EVERY_SECONDS = 1.0
_AT_ONCE = 20


class Succession:
    """Frees the leases of the dead; the dispatcher asks it before each claim."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._next_at = float("-inf")

    async def step(self) -> None:
        """Look, unless that was done a moment ago, and free what holds up work for nobody."""
        now = self._services.clock()
        if now < self._next_at:
            return
        self._next_at = now + _EVERY_SECONDS
        try:
            owners = await self._blocking()
            dead = await asyncio.to_thread(self._dead, owners) if owners else []
            for owner, proof in dead:
                await self._free(owner, proof)
        except (Transient, Unknown) as error:
            # What was not freed is looked at again.
            log.warning("dead_owner_not_succeeded", error=str(error))

    async def _blocking(self) -> list[tuple[WorkerId, str]]:
        settings = self._services.settings
        async with self._services.database.read() as tx:
            return await conversations.blocking_owners(
                tx, settings.account, settings.worker, settings.call, _AT_ONCE
            )

    def _dead(self, owners: list[tuple[WorkerId, str]]) -> list[tuple[WorkerId, str]]:
        return [(owner, proof) for owner, proof in owners if self._services.is_buried(owner, proof)]

    async def _free(self, owner: WorkerId, proof: str) -> None:
        account = self._services.settings.account
        async with self._services.database.transaction() as tx:
            freed = await conversations.free_dead(tx, account, owner, proof)
        log.info("dead_owner_succeeded", owner=owner, conversations=freed)
        self._services.signals.tell("dead_owner_succeeded")
