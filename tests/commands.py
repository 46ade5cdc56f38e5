"""`openab` as a process, for tests: with pipes, or on a terminal of its own."""

import asyncio
import os
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Long enough for a start on two busy cores.
_SECONDS = 30.0


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a command gets: its own home folder, and nothing of openab's from outside."""
    kept = {name: value for name, value in os.environ.items() if not _is_ours(name)}
    return {**kept, "HOME": str(home), "PYTHONUTF8": "1", **more}


async def openab(*words: str, env: Mapping[str, str], folder: Path) -> Ended:
    """Run a command to its end, without a terminal."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openab", *words),
        env=env,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(process.returncode or 0, out.decode(), err.decode())


class Terminal:
    """A command on a pseudo-terminal: `expect` what it shows, `type` the answers."""

    def __init__(self, *words: str, env: Mapping[str, str], folder: Path) -> None:
        self._words, self._env, self._folder = words, env, folder
        self._master = -1
        self._fresh = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        #: Everything that was shown so far.
        self.shown = ""
        self._expected_to = 0

    async def __aenter__(self) -> "Terminal":
        self._master, slave = os.openpty()
        try:
            # A session of its own: without a controlling terminal, secrets are read from stdin.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "openab", *self._words),
                env={**self._env, "TERM": "dumb", "COLUMNS": "200"},
                cwd=self._folder,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
            )
            self._slave_settings = slave
        except BaseException:
            os.close(slave)
            raise
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._slave_settings)
        os.close(self._master)
        if self._process and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def expect(self, text: str) -> None:
        """Wait until it is shown, after what was expected before."""
        try:
            async with asyncio.timeout(_SECONDS):
                while (found := self.shown.find(text, self._expected_to)) < 0:
                    self._fresh.clear()
                    await self._fresh.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} was not shown; shown is:\n{self.shown}") from None
        self._expected_to = found + len(text)

    def type(self, text: str) -> None:
        """Answer, with the return key."""
        os.write(self._master, f"{text}\n".encode())

    async def hides(self) -> None:
        """Wait until what is typed is not shown any more."""
        async with asyncio.timeout(_SECONDS):
            while termios.tcgetattr(self._slave_settings)[3] & termios.ECHO:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.005)

    async def ended(self) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        async with asyncio.timeout(_SECONDS):
            return await self._process.wait()

    def _read(self) -> None:
        try:
            self.shown += os.read(self._master, 65536).decode(errors="replace")
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)
        self._fresh.set()


def _is_ours(name: str) -> bool:
    return name.startswith("OPENAB_") or name in {"DISCORD_BOT_TOKEN", "RUST_LOG"}
