"""A connection to one agent: its process, our transport, and the ACP SDK's correlation over both."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from openab.agents.acp.failures import ConnectionLost, RpcError
from openab.agents.acp.process import AgentProcess
from openab.agents.acp.sdk import Connection, RequestError
from openab.agents.acp.transport import GuardedTransport
from openab.agents.acp.wire import Json
from openab.agents.limits import Sizes, Timeouts
from openab.domain.agent_events import AgentFailure, FailureKind
from openab.ports.tasks import end, outlast, spawn

log = structlog.get_logger()


class NotServed(Exception):
    """The agent asked for something that we do not offer."""

    def __init__(self, method: str) -> None:
        super().__init__(method)
        self.method = method


class AgentConnection:
    """Requests, notifications, and one end that is the same for every cause.

    Once `lost` is set nothing is answered any more and the connection is never used again.
    """

    def __init__(
        self,
        process: AgentProcess,
        *,
        timeouts: Timeouts,
        sizes: Sizes,
        on_update: Callable[[Json], None],
        on_request: Callable[[str, Json], object],
    ) -> None:
        """Connect to a started process. A request's callback gives an awaitable, or NotServed."""
        self.process = process
        self._timeouts = timeouts
        self.lost = asyncio.Event()
        self._outlived = False
        self._transport = GuardedTransport(
            process.stdout,
            process.stdin,
            line_cap=sizes.line,
            write_seconds=timeouts.write,
            on_update=on_update,
            on_request=on_request,
        )
        self._sdk = Connection(_answer, self._transport)
        self._ending: asyncio.Task[None] | None = None
        self._watch = spawn(f"agent {process.pid} watch", self._watch_it())

    @property
    def quiet_seconds(self) -> float:
        """How long ago the agent wrote anything."""
        return time.monotonic() - self._transport.last_line_at

    async def request(
        self, method: str, params: Json, *, written: asyncio.Event | None = None
    ) -> Json:
        """The answer to a request; RpcError, or ConnectionLost. `written` is set once it is out."""
        if written is not None:
            self._transport.written[method] = written
        try:
            result = await self._sdk.send_request(method, params)
        except RequestError as error:
            raise RpcError(error.code, str(error), error.data) from error
        except OSError as error:
            self.lost.set()
            raise ConnectionLost(str(error)) from error
        return result if isinstance(result, dict) else {}

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification; ConnectionLost when it cannot be written."""
        try:
            await self._sdk.send_notification(method, params)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    async def why_lost(self) -> AgentFailure:
        """The failure that a lost connection is, with exit code and last words."""
        await asyncio.wait([self._watch], timeout=2 * self._timeouts.settle)
        tail = await self.process.last_words(self._timeouts.settle)
        code = self.process.exit_code
        if code is None or self._outlived:
            message = "the connection to the agent broke while its process was running"
            return AgentFailure(FailureKind.TRANSPORT, message, stderr_tail=tail)
        message = f"the agent's process ended {_how(code)}"
        return AgentFailure(FailureKind.EXITED, message, exit_code=code, stderr_tail=tail)

    async def end(self, timeouts: Timeouts | None = None) -> None:
        """End the process and all its descendants; twice is harmless.

        A caller that is cancelled waits all the same: the loop may end as soon as it has gone on.
        """
        if self._ending is None:
            ending = self._end(timeouts or self._timeouts)
            self._ending = spawn(f"agent {self.process.pid} end", ending)
        await outlast(self._ending)

    async def _end(self, timeouts: Timeouts) -> None:
        self.lost.set()
        try:
            await self._sdk.close()
        finally:
            await self.process.end(timeouts)
        await end(self._watch)

    async def _watch_it(self) -> None:
        """Turn either end of a dying agent, exit or closed pipe, into a lost connection."""
        exited = spawn("agent exit", _wait(self.process.exited))
        closed = spawn("agent pipe", _wait(self._transport.ended))
        try:
            await asyncio.wait([exited, closed], return_when=asyncio.FIRST_COMPLETED)
            # After an exit the pipe is read to its end, which a grandchild may hold open.
            await asyncio.wait([exited, closed], timeout=self._timeouts.settle)
        finally:
            await end(exited)
            await end(closed)
        self._outlived = not self.process.exited.is_set()
        self.lost.set()
        log.info("agent_connection_lost", pid=self.process.pid, exit_code=self.process.exit_code)
        if self._ending is None:
            self._ending = spawn(f"agent {self.process.pid} end", self._end(self._timeouts))


async def _answer(method: str, params: Any, _is_notification: bool) -> Json:  # noqa: FBT001 - the SDK's signature
    if isinstance(params, NotServed):
        raise RequestError.method_not_found(method)
    answer: Awaitable[Json] = params
    return await answer


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with code {code}"
