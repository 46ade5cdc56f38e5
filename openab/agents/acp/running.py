"""One prompt from its first byte to its end event."""

import asyncio
from typing import Protocol

import structlog

from openab.agents.acp.connection import AgentConnection
from openab.agents.acp.failures import (
    REQUEST_CANCELLED,
    ConnectionLost,
    RpcError,
    failure_of,
)
from openab.agents.acp.permissions import Questions
from openab.agents.acp.translate import event_of, output_tokens
from openab.agents.acp.wire import Json
from openab.agents.limits import Timeouts
from openab.domain.agent_events import (
    AgentEvent,
    AgentFailure,
    EndKind,
    FailureKind,
    HostNotice,
    PromptEnded,
)
from openab.domain.ids import TurnId

log = structlog.get_logger()


class Recorder(Protocol):
    """Where a turn's events go, in order."""

    def add(self, event: AgentEvent) -> bool:
        """Record one event; False when there is no room for more."""
        ...


class RunningPrompt:
    """Owns the prompt's request; every way in which it ends leads through `_outcome`."""

    def __init__(
        self,
        turn: TurnId,
        connection: AgentConnection,
        recorder: Recorder,
        timeouts: Timeouts,
        *,
        hard_seconds: float,
        asks_people: bool,
        auth_methods: tuple[str, ...],
    ) -> None:
        self.turn = turn
        self._connection, self._recorder, self._timeouts = connection, recorder, timeouts
        self._hard_seconds, self._auth_methods = hard_seconds, auth_methods
        self.questions = Questions(f"{turn}-permission", self._record, asks_people=asks_people)
        self.written = asyncio.Event()
        self._limit = asyncio.Timeout(None)
        self._cancelled = False
        self._too_large = False
        self._answered = False

    def update(self, update: object) -> None:
        """Take one session/update."""
        if (event := event_of(update)) is not None:
            self._record(event)

    def question(self, params: Json) -> "asyncio.Future[Json]":
        """Take one permission question."""
        return self.questions.ask(params)

    async def cancel(self, session_id: str) -> None:
        """Ask the agent to stop, once, and only while it works; then it has its time to obey."""
        if self._cancelled or self._answered:
            return
        self._cancelled = True
        self._hurry(self._timeouts.cancel)
        try:
            async with asyncio.timeout(self._timeouts.cancel):
                await self.written.wait()
                if not self._answered:
                    await self._connection.notify("session/cancel", {"sessionId": session_id})
        except (ConnectionLost, TimeoutError):
            log.warning("agent_cancel_not_written", turn_id=self.turn)
        self.questions.close()

    async def run(self, params: Json) -> None:
        """Send the prompt and record everything up to and including its end."""
        notice = self._plan_notice()
        try:
            ended = await self._outcome(params)
        except Exception as error:
            # A fault of ours must not leave a turn without its end.
            log.exception("agent_turn_broke", turn_id=self.turn)
            ended = _failed(AgentFailure(FailureKind.TRANSPORT, f"the host failed: {error!r}"))
        finally:
            if notice:
                notice.cancel()
            self.written.set()
        self.questions.close()
        self._recorder.add(ended)

    def _plan_notice(self) -> asyncio.TimerHandle | None:
        ahead = self._hard_seconds - self._timeouts.hard_notice
        return asyncio.get_running_loop().call_later(ahead, self._warn) if ahead > 0 else None

    async def _outcome(self, params: Json) -> PromptEnded:
        try:
            async with asyncio.timeout(self._hard_seconds) as self._limit:
                if self._cancelled:
                    self._hurry(self._timeouts.cancel)
                answer = await self._connection.request(
                    "session/prompt", params, written=self.written
                )
            return await self._completed(answer)
        except TimeoutError:
            return await self._stopped()
        except RpcError as error:
            return await self._refused(error)
        except ConnectionLost:
            return await self._lost()

    async def _completed(self, answer: Json) -> PromptEnded:
        await self._late_text()
        reason = answer.get("stopReason")
        stop_reason = reason if isinstance(reason, str) else None
        kind = EndKind.CANCELLED if stop_reason == "cancelled" else EndKind.COMPLETED
        return PromptEnded(kind, stop_reason, output_tokens=output_tokens(answer))

    async def _refused(self, error: RpcError) -> PromptEnded:
        await self._late_text()
        if self._cancelled and error.code != REQUEST_CANCELLED:
            # Some agents break over a cancel, and then take no other prompt in that process.
            log.warning("agent_broke_over_cancel", turn_id=self.turn, code=error.code)
            await self._connection.end()
        if self._cancelled or error.code == REQUEST_CANCELLED:
            return PromptEnded(EndKind.CANCELLED, "cancelled")
        tail = self._connection.process.stderr_tail()
        return _failed(failure_of(error, self._auth_methods, tail))

    async def _stopped(self) -> PromptEnded:
        """A limit ran out: the agent is ended first, so that nothing follows the end event."""
        tail = self._connection.process.stderr_tail()
        await self._connection.end()
        if self._too_large:
            return _failed(AgentFailure(FailureKind.OUTPUT_TOO_LARGE, "the output is too large"))
        if self._cancelled:
            return PromptEnded(EndKind.CANCELLED, "cancelled")
        said = f"the agent worked for {self._hard_seconds:g} s without coming to an end"
        return _failed(AgentFailure(FailureKind.HARD_TIMEOUT, said, stderr_tail=tail))

    async def _lost(self) -> PromptEnded:
        self._answered = True
        why = await self._connection.why_lost()
        await self._connection.end()
        return PromptEnded(EndKind.CANCELLED, "cancelled") if self._cancelled else _failed(why)

    async def _late_text(self) -> None:
        """Some agents still send text after their answer; the window is the whole promise."""
        self._answered = True
        await asyncio.sleep(self._timeouts.late_text)

    def _record(self, event: AgentEvent) -> None:
        if not self._recorder.add(event) and not self._too_large:
            self._too_large = True
            self._hurry(0)

    def _hurry(self, seconds: float) -> None:
        """Bring the limit nearer, never farther away."""
        when = asyncio.get_running_loop().time() + seconds
        current = self._limit.when()
        if current is not None and not self._answered and not self._limit.expired():
            self._limit.reschedule(min(current, when))

    def _warn(self) -> None:
        if not self._answered and not self._cancelled:
            minutes = round(self._timeouts.hard_notice / 60)
            self._record(HostNotice("hard_timeout_near", minutes))


def _failed(failure: AgentFailure) -> PromptEnded:
    return PromptEnded(EndKind.FAILED, failure=failure)
