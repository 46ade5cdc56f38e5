"""`openab demo` as people start it: it proves what it shows, notices what is broken, and tidies up."""

import asyncio
import os
import pty
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from openab.cli.demo.proofs import CLAIMS

_BROKEN = Path(__file__).with_name("broken_demo_broker.py")
#: The agents work three times as fast as people would like to watch.
_PACE = ("--pace", "0.3", "--grace", "5")
_STOP_SECONDS = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def _environ(folder: Path, **more: str) -> dict[str, str]:
    home = folder / "home"
    home.mkdir()
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    return {**kept, "HOME": str(home), "TMPDIR": str(folder), "COLUMNS": "100", **more}


@asynccontextmanager
async def _started(
    folder: Path,
    *arguments: str,
    terminal: int | None = None,
    output: int = asyncio.subprocess.PIPE,
    errors: int = asyncio.subprocess.STDOUT,
    **environ: str,
) -> AsyncIterator[asyncio.subprocess.Process]:
    command = (sys.executable, "-m", "openab", "demo", *_PACE, *arguments)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL if terminal is None else terminal,
        stdout=output if terminal is None else terminal,
        stderr=errors,
        env=_environ(folder, **environ),
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()


async def _played(folder: Path, *arguments: str) -> tuple[int | None, str]:
    async with _started(folder, *arguments) as process:
        told, _ = await process.communicate()
        return process.returncode, told.decode()


def _kept(folder: Path) -> list[Path]:
    return list(folder.glob("openab-demo-*"))


def _processes(folder: Path) -> list[str]:
    """Every process that has to do with this folder."""
    lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(folder) in line]


async def test_the_demo_proves_every_claim_and_leaves_nothing_behind(tmp_path: Path) -> None:
    code, told = await _played(tmp_path)
    assert code == 0, told
    assert [claim for claim, _ in CLAIMS if f"✓ {claim}" not in told] == [], told
    assert "✗" not in told
    assert "✅ `grep -rn tokenize src`" in told, "the answer is not in the picture"
    assert _kept(tmp_path) == []
    assert list((tmp_path / "home").iterdir()) == [], "it wrote outside its own folder"
    assert _processes(tmp_path) == []


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        ("nonce", "The part whose connection was dropped stands exactly once"),
        ("neutralising", "No live mention is ever shown, but for Ann's and the hand-off's"),
        ("recovery", "The live message of the killed broker goes on, and is gone at the end"),
    ],
)
async def test_a_broken_broker_fails_the_demo_by_name(
    tmp_path: Path, broken: str, claim: str
) -> None:
    broker = shlex.join([sys.executable, str(_BROKEN), broken])
    code, told = await _played(tmp_path, "--broker-command", broker)
    assert code == 1, told
    assert f"✗ {claim}" in told
    assert claim in told.partition("Not proved:")[2]
    (folder,) = _kept(tmp_path)
    assert f"kept in {folder}" in told
    assert (folder / "sol" / "broker.jsonl").stat().st_size > 0
    assert _processes(tmp_path) == []


async def test_a_broker_that_does_not_start_ends_the_demo_at_once(tmp_path: Path) -> None:
    code, told = await _played(tmp_path, "--broker-command", f"{sys.executable} -c pass")
    assert code == 1, told
    assert "'s broker did not come up" in told
    assert "✓" not in told


async def test_an_interrupted_demo_stops_its_brokers_and_removes_its_folder(tmp_path: Path) -> None:
    async with _started(tmp_path) as process:
        assert process.stdout
        async with asyncio.timeout(180):
            async for line in process.stdout:
                if b"running pytest" in line:
                    break
        assert _processes(tmp_path), "the brokers were not running yet"
        process.send_signal(signal.SIGINT)
        rest, _ = await process.communicate()
    assert process.returncode == 130, rest.decode()
    assert b"Stopped; nothing is left behind." in rest
    assert _kept(tmp_path) == []
    assert _processes(tmp_path) == []


async def test_a_demo_that_nobody_reads_any_more_ends_in_order(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    async with _started(tmp_path, output=writing, errors=asyncio.subprocess.DEVNULL) as process:
        os.close(writing)
        os.close(reading)
        async with asyncio.timeout(180):
            assert await process.wait() == 130
    assert _kept(tmp_path) == []
    assert _processes(tmp_path) == []


class Terminal:
    """A person's end of a terminal: what it shows, and keys to press."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.shown = b""
        self._grew = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> None:
        try:
            self.shown += os.read(self._descriptor, 65536)
        except OSError:  # the other end is closed
            asyncio.get_running_loop().remove_reader(self._descriptor)
        self._grew.set()

    async def shows(self, text: str, seconds: float) -> None:
        """Wait until the text was on the screen."""
        async with asyncio.timeout(seconds):
            while text.encode() not in self.shown:
                self._grew.clear()
                await self._grew.wait()

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._descriptor, keys.encode())

    def close(self) -> None:
        """Switch it off."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)


async def test_people_can_type_into_the_thread_afterwards(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    terminal = Terminal(ours)
    try:
        async with _started(tmp_path, terminal=theirs, TERM="xterm-256color") as process:
            os.close(theirs)
            await terminal.shows("You are Ann", 240)
            terminal.press("@luna what is up?\n")
            await terminal.shows("You said: what is up?", 60)
            terminal.press("\n")
            async with asyncio.timeout(_STOP_SECONDS):
                assert await process.wait() == 0, terminal.shown.decode()
    finally:
        terminal.close()
    assert _kept(tmp_path) == []
    assert _processes(tmp_path) == []
