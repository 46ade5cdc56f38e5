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


async def outlast(task: "asyncio.Task[Any]") -> None:
    """Wait until a task has ended, however often the caller is cancelled meanwhile; raises its error.

    For what must be finished before anybody may go on: the cancellation comes out afterwards. The
    task needs bounds of its own.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.cancelled():
        task.result()
    if cancelled:
        raise cancelled
