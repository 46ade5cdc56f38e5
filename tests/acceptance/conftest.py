"""The stage that acceptance tests play on."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests import leaks, loopback
from tests.acceptance.stage import Stage, open_stage, shared_pids


@pytest.fixture(autouse=True)
def _leaves_nothing_behind() -> Iterator[None]:
    """As everywhere, but agents may stay that a broker shared by a module keeps for later."""
    loopback.refused.clear()
    children, threads = leaks.children(), set(threading.enumerate())
    yield
    left = leaks.children_left(children + _kept()) + leaks.threads_left(threads)
    assert not left, f"the test left something running: {left}"
    assert not loopback.refused, f"the test tried to leave this machine: {loopback.refused}"


def _kept() -> list[psutil.Process]:
    kept: list[psutil.Process] = []
    for pid in shared_pids:
        # One that has died is told by the tests that find it so.
        with suppress(psutil.NoSuchProcess):
            kept += psutil.Process(pid).children(recursive=True)
    return kept


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A loopback Discord with a channel and Ann; brokers are started by the test."""
    async with open_stage(tmp_path) as opened:
        yield opened
