"""Repeats a short step while the database is away: it costs time, never the work that was under way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from openab.domain.errors import Transient, Unknown

log = structlog.get_logger()
Result = TypeVar("Result")
RETRY_SECONDS = 0.5


async def persist(what: str, step: Callable[[], Awaitable[Result]]) -> Result:
    """Do `step` until it is done. It must be right to repeat it after a commit in doubt.

    LeaseLost, and every error that repeating cannot mend, comes out at once.
    """
    while True:
        try:
            return await step()
        except (Transient, Unknown) as error:
            log.warning("waits_for_database", step=what, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
