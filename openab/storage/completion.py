"""Steps of a transaction that are done whole, or told in our own errors."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog

from openab.ports.tasks import spawn
from openab.storage.failures import CommitUnknown, translated

Result = TypeVar("Result")
log = structlog.get_logger()


async def in_our_errors(step: Awaitable[Result]) -> Result:
    """Do `step`; what the driver raises comes out as an error of our tree, or as the bug it is."""
    try:
        return await step
    except Exception as error:  # noqa: BLE001 - a bug comes out as it is
        # From None: the driver's own error quotes the values.
        raise translated(error) from None


async def to_its_end(
    name: str,
    step: Coroutine[Any, Any, Result],
    undo: Callable[[Result], Coroutine[Any, Any, None]] | None = None,
) -> Result:
    """Do `step` whole, whoever is cancelled meanwhile; the cancellation is raised afterwards.

    Then nobody gets the result, so `undo` gives back what it stands for.
    """
    task, cancelled = spawn(name, step), None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return _result(name, task)
    if task.cancelled() or task.exception() is not None:
        log.warning("cancelled_while_failing", step=name, error=repr(_failure(task)))
    elif undo is not None:
        await to_its_end(f"undo {name}", undo(task.result()))
    raise cancelled


def _result(name: str, task: "asyncio.Task[Result]") -> Result:
    if task.cancelled():
        # Only a loop that is being torn down cancels it.
        raise CommitUnknown(f"{name} was cut off")
    return task.result()


def _failure(task: "asyncio.Task[Any]") -> BaseException | None:
    return None if task.cancelled() else task.exception()
