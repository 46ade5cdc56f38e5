"""A signal that wakes everybody who waits for the world or the journal to change."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
#: How long something is waited for unless told otherwise: a slow machine needs it, a sign ends it.
PATIENCE = 60.0


class Signal:
    """Waiters re-read what they wait for on each `notify`; nobody polls."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Event] = set()

    def notify(self) -> None:
        """Something changed: wake every waiter."""
        for waiter in self._waiters:
            waiter.set()

    async def until(
        self,
        probe: Callable[[], Found | None],
        *,
        within: float,
        picture: Callable[[], str] = lambda: "nothing to show",
    ) -> Found:
        """Return the first truthy answer of `probe`; TimeoutError, with `picture`, after `within`."""
        wake = asyncio.Event()
        self._waiters.add(wake)
        try:
            async with asyncio.timeout(within):
                return await self._probe(probe, wake)
        except TimeoutError as error:
            raise TimeoutError(f"not seen within {within} s; instead: {picture()}") from error
        finally:
            self._waiters.discard(wake)

    @staticmethod
    async def _probe(probe: Callable[[], Found | None], wake: asyncio.Event) -> Found:
        while True:
            wake.clear()
            found = probe()
            if found:
                return found
            await wake.wait()
