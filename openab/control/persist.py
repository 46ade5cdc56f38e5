"""Repeats a short step while the database is away: it costs time, never the work that was under way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from openab.domain.errors import Transient, Unknown

log = structlog.get_logger()
Result = TypeVar("Result")
RETRY_SECONDS = 0.5
#: A database that is away for long is asked no more often than this.
_LONGEST_SECONDS = 5.0
_MOST_DOUBLINGS = 10


class Waits:
    """One part's waits for the database: each longer than the last. Only the first is a warning.

    A disk that is full must not be filled with lines about it.
    """

    def __init__(self, event: str, **fields: object) -> None:
        """`event` and `fields` are what is logged."""
        self._event = event
        self._fields = fields
        self._tries = 0

    def note(self, error: Exception, **fields: object) -> None:
        """It failed, and its caller has a pace of its own."""
        tell = log.debug if self._tries else log.warning
        tell(self._event, error=str(error), **self._fields, **fields)
        self._tries += 1

    async def rest(self, error: Exception, **fields: object) -> None:
        """It failed: wait until it may be tried again."""
        wait = RETRY_SECONDS * 2 ** min(self._tries, _MOST_DOUBLINGS)
        self.note(error, **fields)
        await asyncio.sleep(min(wait, _LONGEST_SECONDS))

    def over(self) -> None:
        """It was done: the next failure is the first one of its kind."""
        self._tries = 0


async def persist(what: str, step: Callable[[], Awaitable[Result]]) -> Result:
    """Do `step` until it is done. It must be right to repeat it after a commit in doubt.

    LeaseLost, and every error that repeating cannot mend, comes out at once.
    """
    waits = Waits("waits_for_database", step=what)
    while True:
        try:
            return await step()
        except (Transient, Unknown) as error:
            await waits.rest(error)
