"""Ending a task: its cancellation is no error, its failure is, and the caller's own cancellation is not eaten."""

import asyncio

import pytest

from openab.ports.tasks import end, outlast, spawn


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_a_task_that_runs_is_ended_and_no_task_is_no_error() -> None:
    task = spawn("waits", for_ever())
    await end(task)
    await end(task)
    await end(None)
    assert task.cancelled()


async def test_how_a_task_failed_comes_out() -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    task = spawn("fails", fails())
    await asyncio.wait({task})
    with pytest.raises(ZeroDivisionError):
        await end(task)


async def test_a_caller_that_is_cancelled_while_it_waits_is_cancelled() -> None:
    ending, may_end = asyncio.Event(), asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await for_ever()
        finally:
            ending.set()
            await may_end.wait()

    slow = spawn("slow", slow_to_end())
    await asyncio.sleep(0)
    caller = spawn("caller", end(slow))
    await ending.wait()
    caller.cancel()
    await asyncio.wait({caller}, timeout=5)
    may_end.set()
    await asyncio.wait({slow})
    assert caller.cancelled()


async def test_what_must_be_finished_is_finished_before_the_cancelled_caller_goes_on() -> None:
    may_end = asyncio.Event()
    work = spawn("work", may_end.wait())
    caller = spawn("caller", outlast(work))
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.wait({caller}, timeout=0.05)
    assert not caller.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.result()


async def test_how_what_was_finished_failed_comes_out() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await outlast(spawn("failing", fail()))
