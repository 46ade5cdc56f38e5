"""Signals stop, stop at once and reload; their former owners get them back."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from openab.app.signals import Signals

STOPS = [signal.SIGTERM, signal.SIGINT]

HANGING = """
import asyncio, time
from openab.app.signals import Signals

async def main():
    with Signals(reload=lambda: None) as signals:
        print("ready", flush=True)
        await signals.stop.wait()
        print("stopping", flush=True)
        while True:
            time.sleep(60)  # The event loop never comes round again.

asyncio.run(main())
"""


def taken() -> list[object]:
    return [signal.getsignal(number) for number in (*STOPS, signal.SIGHUP)]


@pytest.mark.parametrize("number", STOPS)
async def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    codes: list[int] = []
    with Signals(lambda: None, exit_now=codes.append) as signals, capture_logs() as told:
        assert not signals.stop.is_set()
        os.kill(os.getpid(), number)
        async with asyncio.timeout(5):
            await signals.stop.wait()
    assert codes == []
    assert [(line["event"], line["signal"]) for line in told] == [("stop_requested", number.name)]


@pytest.mark.parametrize("number", STOPS)
async def test_the_second_signal_ends_at_once(number: signal.Signals) -> None:
    codes: list[int] = []
    with Signals(lambda: None, exit_now=codes.append):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), number)
    assert codes == [128 + number]


async def test_a_hangup_reloads_each_time() -> None:
    reloads: asyncio.Queue[str] = asyncio.Queue()
    with Signals(lambda: reloads.put_nowait("again")) as signals:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            async with asyncio.timeout(5):
                await reloads.get()
    assert not signals.stop.is_set()


async def test_signals_are_given_back() -> None:
    before = taken()
    signals = Signals(lambda: None)
    signals.restore()
    signals.install()
    signals.install()
    assert all(now != then for now, then in zip(taken(), before, strict=True))
    signals.restore()
    signals.restore()
    assert taken() == before


def test_a_process_that_hangs_is_ended_by_the_second_signal() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        while (line := process.stdout.readline()) != "stopping\n":
            assert "stop_requested" in line
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    assert "second signal" in said
