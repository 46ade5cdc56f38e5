"""A prompt ends exactly once, whatever the connection does."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from openab.agents.acp.failures import RpcError
from openab.agents.acp.running import RunningPrompt
from openab.agents.limits import Timeouts
from openab.domain.agent_events import AgentEvent, EndKind, FailureKind, PromptEnded
from openab.domain.ids import TurnId

if TYPE_CHECKING:
    from openab.agents.acp.connection import AgentConnection


class Process:
    """A process that says nothing."""

    def stderr_tail(self) -> str:
        return ""


class Connection:
    """Answers the prompt with what it is told."""

    def __init__(self, answer: object) -> None:
        self.process = Process()
        self.answer = answer
        self.ended = False
        self.notified: list[str] = []

    async def request(self, _method: str, _params: object, *, written: asyncio.Event) -> Any:
        written.set()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if self.answer is not None else await asyncio.Event().wait()

    async def notify(self, method: str, _params: object) -> None:
        self.notified.append(method)

    async def end(self) -> None:
        self.ended = True


class Record(list[AgentEvent]):
    """Takes every event."""

    def add(self, event: AgentEvent) -> bool:
        self.append(event)
        return True


def a_prompt(answer: object, **times: float) -> tuple[RunningPrompt, Connection, Record]:
    connection, record = Connection(answer), Record()
    running = RunningPrompt(
        TurnId("t"),
        cast("AgentConnection", connection),
        record,
        Timeouts(late_text=0.01, cancel=times.get("cancel", 0.05)),
        hard_seconds=times.get("hard", 10),
        asks_people=False,
        auth_methods=("Log in",),
    )
    return running, connection, record


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        ({"stopReason": "end_turn"}, EndKind.COMPLETED, "end_turn"),
        ({"stopReason": "refusal"}, EndKind.COMPLETED, "refusal"),
        ({"stopReason": 7}, EndKind.COMPLETED, None),
        ({"stopReason": "cancelled"}, EndKind.CANCELLED, "cancelled"),
        (RpcError(-32800, "cancelled"), EndKind.CANCELLED, "cancelled"),
    ],
)
async def test_each_answer_is_an_end(answer: object, kind: EndKind, reason: str | None) -> None:
    running, _, record = a_prompt(answer)
    await running.run({})
    assert record == [PromptEnded(kind, reason)]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RpcError(-32603, "x"), FailureKind.ERROR),
        (RpcError(-32000, "x"), FailureKind.AUTH_REQUIRED),
        (LookupError("a fault of ours"), FailureKind.TRANSPORT),
    ],
)
async def test_each_error_is_an_end_too(error: Exception, kind: FailureKind) -> None:
    running, _, record = a_prompt(error)
    await running.run({})
    (ended,) = record
    assert isinstance(ended, PromptEnded)
    assert ended.failure is not None
    assert ended.failure.kind is kind


async def test_a_cancel_before_the_prompt_is_out_is_kept() -> None:
    running, connection, record = a_prompt(None)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(running.cancel("s"))
        group.create_task(running.run({}))
    assert connection.notified == ["session/cancel"]
    assert connection.ended
    assert record == [PromptEnded(EndKind.CANCELLED, "cancelled")]


async def test_a_cancel_is_sent_once_and_not_after_the_answer() -> None:
    running, connection, _ = a_prompt(None)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(running.run({}))
        await running.written.wait()
        await running.cancel("s")
        await running.cancel("s")
    await running.cancel("s")
    assert connection.notified == ["session/cancel"]


async def test_the_hard_time_out_ends_the_agent_before_the_turn() -> None:
    running, connection, record = a_prompt(None, hard=0.05)
    await running.run({})
    assert connection.ended
    (ended,) = record
    assert isinstance(ended, PromptEnded)
    assert ended.failure is not None
    assert ended.failure.kind is FailureKind.HARD_TIMEOUT
