"""Test signals: named points of a service that are free in production and can be awaited in tests."""

import asyncio
from collections import Counter


class Signals:
    """Counts how often each point was passed and wakes whoever waits for one."""

    def __init__(self) -> None:
        self._passed: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def tell(self, point: str) -> None:
        """This point was passed; never waits."""
        self._passed[point] += 1
        self._changed.set()

    async def wait(self, point: str, *, times: int = 1, seconds: float = 60.0) -> None:
        """Until the point was passed so often; TimeoutError after `seconds`."""
        async with asyncio.timeout(seconds):
            while self._passed[point] < times:
                self._changed.clear()
                await self._changed.wait()
