"""The one place where a task is made outside a TaskGroup: it has a name, and whoever holds it ends it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def spawn(name: str, coroutine: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
    """Start `coroutine` as a named task; the caller owns it and must await or `end` it."""
    return asyncio.get_running_loop().create_task(coroutine, name=name)


async def end(task: "asyncio.Task[Any] | None") -> None:
    """Cancel a task and wait until it has ended; its cancellation is not an error, others are raised.

    A cancellation of the caller meanwhile is its own, and comes out.
    """
    if task is None or task is asyncio.current_task():
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
