"""One ACP session in a process of its own: opened once, prompted one at a time, ended with its process."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog

from openab.agents.acp.connection import AgentConnection, NotServed
from openab.agents.acp.failures import METHOD_NOT_FOUND, ConnectionLost, RpcError, words
from openab.agents.acp.opening import Abilities, Opening, Replay
from openab.agents.acp.options import SessionOptions
from openab.agents.acp.permissions import CANCELLED
from openab.agents.acp.process import AgentProcess
from openab.agents.acp.running import Recorder, RunningPrompt
from openab.agents.acp.wire import Json, sendable
from openab.agents.limits import Sizes, Timeouts
from openab.domain.agent_events import AgentFailure, FailureKind
from openab.domain.ids import AcpSessionId, TurnId
from openab.ports.agent import (
    AgentSpec,
    AgentUnavailable,
    ContentBlock,
    Opened,
    OptionRefused,
)
from openab.ports.tasks import outlast, spawn

log = structlog.get_logger()


class AcpSession:
    """A dead one is never used again: its owner ends it and makes another."""

    def __init__(
        self, spec: AgentSpec, markers: Mapping[str, str], timeouts: Timeouts, sizes: Sizes
    ) -> None:
        self._spec, self._markers = spec, markers
        self._timeouts, self._sizes = timeouts, sizes
        self._connection: AgentConnection | None = None
        self._abilities = Abilities()
        self._replay = Replay()
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._running: RunningPrompt | None = None
        self.acp_session_id: AcpSessionId | None = None
        #: What can be chosen here, kept up to date by whatever the agent says.
        self.options = SessionOptions()

    @property
    def is_usable(self) -> bool:
        """Open, and its process can be spoken to."""
        alive = self._connection is not None and not self._connection.lost.is_set()
        return alive and self.acp_session_id is not None and not self._ended

    @property
    def running(self) -> RunningPrompt | None:
        """The prompt that has not ended, if there is one."""
        return self._running

    @property
    def pid(self) -> int | None:
        """The process, while it can be spoken to."""
        dead = self._connection is None or self._connection.lost.is_set()
        return None if dead or self._connection is None else self._connection.process.pid

    @property
    def quiet_seconds(self) -> float:
        """How long the process has written nothing."""
        return self._connection.quiet_seconds if self._connection else 0.0

    async def initialize(self) -> Opening:
        """Start the process and agree on the protocol; whoever calls must `end` it in any case."""
        process = await AgentProcess.start(self._spec, self._markers)
        self._connection = AgentConnection(
            process,
            timeouts=self._timeouts,
            sizes=self._sizes,
            on_update=self._update,
            on_request=self._request,
        )
        if self._ended:
            raise AgentUnavailable(_closed())
        opening = Opening(self._connection, self._spec, self._timeouts, self._replay, self.options)
        self._abilities = await opening.initialize()
        return opening

    async def open(self, wanted: AcpSessionId | None) -> Opened:
        """Make the session usable; whatever goes wrong, the process is ended."""
        try:
            opening = await self.initialize()
            opened = await opening.session(wanted)
        except BaseException:
            await self.end()
            raise
        self.acp_session_id = opened.acp_session_id
        return opened

    async def prompt(
        self, turn: TurnId, content: Sequence[ContentBlock], recorder: Recorder
    ) -> None:
        """Give a prompt to the agent; returns when it is written, or has already ended."""
        assert self._connection is not None
        self._running = running = RunningPrompt(
            turn,
            self._connection,
            recorder,
            self._timeouts,
            hard_seconds=self._spec.hard_timeout_seconds,
            asks_people=self._spec.permission_mode == "ask",
            auth_methods=self._abilities.auth_methods,
        )
        blocks = [{"type": "text", "text": sendable(block.text)} for block in content]
        params: Json = {"sessionId": self.acp_session_id, "prompt": blocks}
        self._task = spawn(f"prompt of turn {turn}", self._run(running, params))
        await running.written.wait()

    async def cancel(self) -> None:
        """Ask the agent to stop what it does; nothing for an idle one."""
        if self._running and self.acp_session_id:
            await self._running.cancel(self.acp_session_id)

    async def set_option(self, option_id: str, value: str) -> None:
        """Choose a value; OptionRefused with the agent's words, AgentUnavailable without an answer."""
        assert self._connection is not None
        refused: RpcError | None = None
        for method, params in self.options.calls(self.acp_session_id or "", option_id, value):
            try:
                async with asyncio.timeout(self._timeouts.open_session):
                    answer = await self._connection.request(method, params)
            except RpcError as error:
                refused = error
                if error.code != METHOD_NOT_FOUND:
                    break
            except (ConnectionLost, TimeoutError) as error:
                raise AgentUnavailable(_unanswered(method)) from error
            else:
                self.options.chosen(option_id, value, answer)
                return
        assert refused is not None
        raise OptionRefused(words(refused)) from refused

    async def end(self, within: float | None = None) -> None:
        """Cancel what runs, close the session where that is offered, end the process tree.

        A caller that is cancelled cuts the goodbye short and waits for the end of the process.
        """
        self._ended = True
        if self._connection is None:
            return
        timeouts = self._timeouts if within is None else self._timeouts.hurried(within)
        try:
            if not self._connection.lost.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeouts.close_session):
                        await self._take_leave()
        finally:
            try:
                await self._connection.end(timeouts)
            finally:
                if self._task:
                    await outlast(self._task)

    async def _take_leave(self) -> None:
        assert self._connection is not None
        await self.cancel()
        if self._task:
            await asyncio.wait([self._task])
        if self._abilities.can_close and self.acp_session_id:
            params: Json = {"sessionId": self.acp_session_id}
            with suppress(RpcError, ConnectionLost):
                await self._connection.request("session/close", params)

    async def _run(self, running: RunningPrompt, params: Json) -> None:
        try:
            await running.run(params)
        finally:
            self._running = None

    def _update(self, params: Json) -> None:
        session_id = params.get("sessionId")
        if session_id in {None, self.acp_session_id} or self.acp_session_id is None:
            self.options.update(params.get("update"))
        if self.acp_session_id is None:
            self._replay.add(params.get("update"))
        elif self._running is not None and session_id in {None, self.acp_session_id}:
            self._running.update(params.get("update"))

    def _request(self, method: str, params: Json) -> object:
        if method != "session/request_permission":
            return NotServed(method)
        if self._running is not None:
            return self._running.question(params)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        answer.set_result(CANCELLED)
        return answer


def _unanswered(method: str) -> AgentFailure:
    return AgentFailure(FailureKind.TRANSPORT, f"the agent did not answer {method}")


def _closed() -> AgentFailure:
    return AgentFailure(FailureKind.TRANSPORT, "the session was closed while it was being opened")
