"""Runs git: no shell, no prompts, no hooks, none of our secrets in its environment, and a time limit."""

import asyncio
import os
import shutil
import signal
from asyncio import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from openab.agents.environment import agent_environment
from openab.ports.workspaces import Fault, WorkspaceRefused

#: Agents can write a repository's hooks and settings: what they name is not to run on our behalf.
_SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
_LONGEST_WORDS = 300


class Git:
    """git for the folders of one machine. Its answers are text without the last line end."""

    def __init__(self, environ: Mapping[str, str], seconds: float = 120.0) -> None:
        self._env = agent_environment(environ, {}, ())
        self._env.update(GIT_TERMINAL_PROMPT="0", LC_ALL="C")
        self._seconds = seconds

    async def __call__(self, folder: str, *arguments: str, held: Sequence[int] = ()) -> str:
        """Run it there; `held` are descriptors that it keeps open, and with them their locks.

        Raises WorkspaceRefused when git fails, is not there or takes too long; then it was ended.
        """
        process = await self._start(folder, arguments, held)
        try:
            async with asyncio.timeout(self._seconds):
                out, words = await process.communicate()
        except TimeoutError as error:
            said = f"git {arguments[0]} did not end within {self._seconds:g} s"
            raise WorkspaceRefused(Fault.GIT, said) from error
        finally:
            await _ended(process)
        if process.returncode:
            raise WorkspaceRefused(Fault.GIT, _last_words(words) or f"git {arguments[0]} failed")
        return out.decode("utf-8", "surrogateescape").removesuffix("\n")

    async def _start(
        self, folder: str, arguments: Sequence[str], held: Sequence[int]
    ) -> subprocess.Process:
        program = shutil.which("git", path=self._env.get("PATH"))
        if program is None:
            raise WorkspaceRefused(Fault.NO_GIT)
        try:
            return await asyncio.create_subprocess_exec(
                program,
                *_SAFE,
                *arguments,
                cwd=folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=tuple(held),
            )
        except OSError as error:
            raise WorkspaceRefused(Fault.MISSING, folder) from error


async def _ended(process: subprocess.Process) -> None:
    """It and whatever it has started are gone."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _last_words(words: bytes) -> str:
    lines = [line for line in words.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:_LONGEST_WORDS] if lines else ""
