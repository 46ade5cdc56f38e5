"""One agent process: started with its own session and environment, ended with all its descendants."""

import asyncio
import errno
import functools
import os
import shutil
import signal
import uuid
from asyncio import subprocess as streams
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError, run

import structlog

from openab.agents.acp.process_tree import AGENT_VARIABLE, descendants, kill_all
from openab.agents.acp.stderr import StderrTail
from openab.agents.limits import Timeouts
from openab.domain.agent_events import AgentFailure, FailureKind
from openab.ports.agent import AgentRefused, AgentSpec, AgentUnavailable
from openab.ports.tasks import end, spawn

log = structlog.get_logger()

#: How much of stdout is buffered before the agent is made to wait.
_READ_LIMIT = 1024 * 1024
#: What a shell and `setpriv` answer when the command cannot be executed.
_CANNOT_EXECUTE = frozenset({126, 127})
#: The machine is short of something; nothing is wrong with the agent.
_PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class _Protocol(streams.SubprocessStreamProtocol):
    """Tells the exit when it happens: `Process.wait` also waits for pipes a grandchild may hold."""

    def __init__(self, exited: asyncio.Event) -> None:
        super().__init__(limit=_READ_LIMIT, loop=asyncio.get_running_loop())
        self._exited = exited

    def process_exited(self) -> None:
        self._exited.set()
        super().process_exited()


class AgentProcess:
    """A started agent. `end` must be called whatever happens to the process by itself."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        protocol: _Protocol,
        exited: asyncio.Event,
        mark: str,
    ) -> None:
        self._transport = transport
        process = streams.Process(transport, protocol, asyncio.get_running_loop())
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin, self.stdout = process.stdin, process.stdout
        self.pid = process.pid
        self.exited = exited
        self._mark = mark
        self._stderr = StderrTail()
        self._drain = spawn(f"agent {self.pid} stderr", self._stderr.drain(process.stderr))

    @classmethod
    async def start(cls, spec: AgentSpec, markers: Mapping[str, str]) -> "AgentProcess":
        """Start the agent; raises AgentRefused, or AgentUnavailable when the machine is short."""
        command = _resolve(spec)
        launcher = await asyncio.to_thread(_tied_to_us)
        mark, exited = uuid.uuid4().hex, asyncio.Event()
        env = {**spec.env, **markers, AGENT_VARIABLE: mark}
        try:
            transport, protocol = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Protocol(exited),
                *launcher,
                command,
                *spec.args,
                cwd=spec.working_dir,
                env=env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            failure = _not_found(f"{spec.command} cannot be started: {error}")
            if isinstance(error, OSError) and error.errno in _PASSING:
                raise AgentUnavailable(failure) from error
            raise AgentRefused(failure) from error
        return cls(transport, protocol, exited, mark)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal."""
        return self._transport.get_returncode()

    def stderr_tail(self) -> str:
        """The last words on stderr, fit to be shown."""
        return str(self._stderr)

    async def last_words(self, seconds: float) -> str:
        """The tail after stderr has been read to its end, where that comes in time."""
        await asyncio.wait([self._drain], timeout=seconds)
        return self.stderr_tail()

    def could_not_execute(self) -> bool:
        """Whether the command was never run, though our launcher was."""
        return self.exit_code in _CANNOT_EXECUTE and self.stderr_tail().startswith("setpriv:")

    async def end(self, timeouts: Timeouts) -> None:
        """Close stdin and wait, SIGTERM the group and wait, SIGKILL every descendant."""
        family = await asyncio.to_thread(descendants, self.pid)
        self.stdin.close()
        if not await self._exits(timeouts.leave):
            family += await asyncio.to_thread(descendants, self.pid)
            self._terminate_group()
            await self._exits(timeouts.terminate)
        family += await asyncio.to_thread(descendants, self.pid)
        self._kill()
        # Tool shells sit in sessions of their own, where no signal to the group reaches them.
        await asyncio.to_thread(kill_all, family, self._mark)
        await self.exited.wait()
        await end(self._drain)
        self._transport.close()

    async def _exits(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        return self.exited.is_set()

    def _terminate_group(self) -> None:
        if not self.exited.is_set():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGTERM)

    def _kill(self) -> None:
        if not self.exited.is_set():
            with suppress(ProcessLookupError):
                self._transport.kill()


def _resolve(spec: AgentSpec) -> str:
    if not Path(spec.working_dir).is_dir():
        raise AgentRefused(_not_found(f"the working directory {spec.working_dir} does not exist"))
    found = shutil.which(spec.command, path=spec.env.get("PATH", os.defpath))
    if found is None:
        raise AgentRefused(_not_found(f"the command {spec.command} was not found or is no program"))
    # A relative command is meant from where we stand, not from the agent's working directory.
    return str(Path(found).absolute())


@functools.cache
def _tied_to_us() -> tuple[str, ...]:
    """The launcher that makes the agent get a SIGTERM when we die (PR_SET_PDEATHSIG).

    `preexec_fn` would run Python between fork and exec of a process with threads, which can
    deadlock, and would forbid vfork. setpriv sets it and execs, so the pid stays the agent's.
    Where it is missing (macOS, busybox) a leftover is found by its mark at the next start.
    """
    setpriv = shutil.which("setpriv", path=os.defpath)
    if setpriv is None:
        return ()
    try:
        told = run([setpriv, "--help"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, SubprocessError):
        return ()
    return (setpriv, "--pdeathsig", "TERM", "--") if "pdeathsig" in told.stdout else ()


def _not_found(message: str) -> AgentFailure:
    return AgentFailure(kind=FailureKind.NOT_FOUND, message=message)
