"""Lets one long step go on while others are taken beside it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from openab.domain.errors import OpenabError
from openab.ports.tasks import end, spawn

Result = TypeVar("Result")


async def beside(
    name: str,
    step: Coroutine[Any, Any, Result],
    woken: asyncio.Event,
    meanwhile: Callable[[], Awaitable[None]],
) -> tuple[Result, bool]:
    """Do `step`, and `meanwhile` whenever `woken` is set before it has ended; `woken` is cleared.

    Returns what the step did, and whether anybody woke us: that may have been about more.
    """
    was_woken = False
    going = spawn(name, step)
    try:
        while await _comes_first(woken, going):
            was_woken = True
            woken.clear()
            await meanwhile()
        return await going, was_woken
    except OpenabError:
        # The step is not cut off by what happened beside it.
        await asyncio.wait([going])
        raise
    finally:
        # Whoever is cancelled ends, whatever the step has to tell of its own end.
        with suppress(OpenabError):
            await end(going)


async def _comes_first(woken: asyncio.Event, going: "asyncio.Task[Any]") -> bool:
    waking = spawn("woken", woken.wait())
    try:
        await asyncio.wait({waking, going}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(waking)
    return not going.done()
