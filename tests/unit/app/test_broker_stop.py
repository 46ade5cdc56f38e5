"""A start-up can be stopped anywhere: what it waits for is cancelled, and what failed is told."""

import asyncio

import pytest

from openab.app.broker import _unless_stopped
from openab.ports.tasks import spawn


async def test_a_start_that_is_done_counts() -> None:
    stopping = asyncio.Event()

    async def start() -> str:
        return "started"

    assert await _unless_stopped(stopping, start()) == "started"


async def test_a_stop_cancels_it_wherever_it_is() -> None:
    stopping, begun, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def start() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return "started"

    starting = spawn("start", _unless_stopped(stopping, start()))
    await begun.wait()
    stopping.set()
    assert await starting is None
    assert cleaned.is_set()


async def test_its_failure_comes_out() -> None:
    async def start() -> str:
        raise LookupError("no token")

    with pytest.raises(LookupError):
        await _unless_stopped(asyncio.Event(), start())
