"""Agents in this process: the agent port without processes, playing the scripted agent's steps.

It passes the port's conformance suite. Give two of them the same `memory` and the second one is
a restarted host whose agents still know their sessions.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from openab.domain.agent_events import (
    AgentEvent,
    AgentFailure,
    EndKind,
    FailureKind,
    Numbered,
    OptionKind,
    PermissionAsked,
    PermissionOption,
    PermissionSettled,
    PlanChanged,
    PlanEntry,
    Position,
    PromptEnded,
    TextDelta,
    Thought,
    ToolChanged,
    ToolKind,
    ToolStatus,
    UsageChanged,
)
from openab.domain.ids import AcpSessionId, Incarnation, SessionKey, TurnId
from openab.domain.options import Option, by_id
from openab.ports.agent import (
    AgentRefused,
    AgentSession,
    AgentSpec,
    AgentUnavailable,
    Liveness,
    Opened,
    OpenedBy,
    OptionRefused,
    Prompt,
    PromptLost,
    SessionBusy,
    SessionStatus,
    StaleEpoch,
)
from openab.ports.tasks import end, spawn
from openab.simulator.agent import kind_title_seconds, parse_steps

_OPTIONS = tuple(
    PermissionOption(f"id-{kind}", kind.replace("_", " "), kind)
    for kind in (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ONCE)
)
Name = tuple[str, SessionKey, int]
Memory = dict[AcpSessionId, list[str]]


class _Died(Exception):
    """The agent ended in the middle of a turn."""


class _Failed(Exception):
    """The agent answered with an error."""


@dataclass
class _Turn:
    attempt: int = 1
    events: list[AgentEvent] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def add(self, event: AgentEvent) -> None:
        async with self.news:
            self.events.append(event)
            self.news.notify_all()


@dataclass
class _Live:
    spec: AgentSpec
    acp_session_id: AcpSessionId
    task: asyncio.Task[None] | None = None
    turn: TurnId | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    questions: dict[str, asyncio.Future[str | None]] = field(default_factory=dict)
    #: What the present turn's end tells of its cost.
    tokens: int | None = None
    options: tuple[Option, ...] = ()


class ScriptedAgents:
    """Fulfils `ports.agent.Agents`. `delay` stands before each piece of text."""

    def __init__(
        self,
        incarnation: str = "fake-1",
        *,
        memory: Memory | None = None,
        delay: float = 0.0,
        can_restore: bool = True,
        options: tuple[Option, ...] = (),
    ) -> None:
        self._incarnation = Incarnation(incarnation)
        self._memory: Memory = {} if memory is None else memory
        self._delay, self._can_restore, self._options = delay, can_restore, options
        self._epochs: dict[Name, int] = {}
        self._live: dict[Name, _Live] = {}
        self._turns: dict[TurnId, _Turn] = {}
        self._given: set[tuple[TurnId, int, int]] = set()
        self._count = itertools.count(1)
        #: Every prompt that reached an agent, in order.
        self.prompts: list[Prompt] = []
        #: Every choice that reached an agent: (option id, value).
        self.choices: list[tuple[str, str]] = []
        #: The generations whose session was ended by `close`.
        self.closed: list[int] = []
        #: What `[[until=name]]` waits for.
        self.gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        #: Raised by the next `open`, once.
        self.refuse_open: Exception | None = None

    @property
    def incarnation(self) -> Incarnation:
        """This life of the host."""
        return self._incarnation

    async def stop(self) -> None:
        """End everything; running turns get no end event."""
        for live in self._live.values():
            await end(live.task)
        self._live.clear()

    async def open(
        self, session: AgentSession, spec: AgentSpec, acp_session_id: AcpSessionId | None
    ) -> Opened:
        """See the port."""
        name = self._command(session)
        if self.refuse_open:
            error, self.refuse_open = self.refuse_open, None
            raise error
        if name in self._live:
            live = self._live[name]
            return Opened(live.acp_session_id, OpenedBy.LIVE, options=live.options)
        if spec.command == "/does/not/exist":
            raise AgentRefused(AgentFailure(FailureKind.NOT_FOUND, f"{spec.command} was not found"))
        known = self._can_restore and acp_session_id in self._memory
        if acp_session_id is not None and known:
            self._live[name] = _Live(spec, acp_session_id, options=self._options)
            return Opened(acp_session_id, OpenedBy.RESUMED, options=self._options)
        fresh = AcpSessionId(f"{self._incarnation}-{next(self._count)}")
        self._memory[fresh] = []
        self._live[name] = _Live(spec, fresh, options=self._options)
        lost = acp_session_id is not None
        return Opened(fresh, OpenedBy.NEW, context_lost=lost, options=self._options)

    async def prompt(self, session: AgentSession, prompt: Prompt) -> None:
        """See the port."""
        name = self._command(session)
        if prompt.incarnation != self._incarnation:
            raise PromptLost("another life of the host")
        step = (prompt.turn, prompt.attempt, prompt.step)
        if step in self._given:
            return
        live = self._live.get(name)
        if live and live.turn:
            raise SessionBusy(f"turn {live.turn} is running")
        self._given.add(step)
        turn = self._turns.get(prompt.turn)
        if turn is None or turn.attempt != prompt.attempt:
            turn = self._turns[prompt.turn] = _Turn(prompt.attempt)
        if live is None:
            failure = AgentFailure(FailureKind.TRANSPORT, "the session is not open")
            await turn.add(PromptEnded(EndKind.FAILED, failure=failure))
            return
        live.turn = prompt.turn
        live.cancelled.clear()
        self.prompts.append(prompt)
        text = self.script(prompt)
        self._memory[live.acp_session_id].append(text)
        live.task = spawn(f"fake turn {prompt.turn}", self._play(name, live, turn, text))

    def script(self, prompt: Prompt) -> str:
        """What is played for a prompt: its last block."""
        return prompt.content[-1].text

    def unwritten(
        self, session: AgentSession, turn: TurnId, attempt: int, step: int, incarnation: Incarnation
    ) -> bool:
        """See the port."""
        known = (session.database_id, session.key, session.generation) in self._epochs
        is_ours = known and incarnation == self._incarnation
        return is_ours and (turn, attempt, step) not in self._given

    async def events(self, turn: TurnId, after: int) -> AsyncIterator[Numbered]:
        """See the port."""
        if turn not in self._turns:
            raise PromptLost("unknown turn")
        journal, n = self._turns[turn], after
        while True:
            async with journal.news:
                while n >= len(journal.events):
                    if not self._runs(turn):
                        return
                    await journal.news.wait()
                event = journal.events[n]
            n += 1
            yield Numbered(Position(self._incarnation, n), event)
            if isinstance(event, PromptEnded):
                return

    async def ack(self, turn: TurnId, position: Position, *, outcome: bool = False) -> None:
        """See the port."""
        if outcome and not self._runs(turn) and position.incarnation == self._incarnation:
            self._turns.pop(turn, None)

    async def cancel(self, session: AgentSession, turn: TurnId) -> None:
        """See the port."""
        live = self._live.get(self._command(session))
        if live and live.turn == turn:
            live.cancelled.set()
            for question in live.questions.values():
                question.set_result(None)
            live.questions.clear()

    async def answer(self, session: AgentSession, request_id: str, option_id: str | None) -> bool:
        """See the port."""
        live = self._live.get(self._command(session))
        question = live.questions.pop(request_id, None) if live else None
        if question is None:
            return False
        question.set_result(option_id)
        return True

    def options(self, session: AgentSession) -> tuple[Option, ...]:
        """See the port."""
        live = self._live.get((session.database_id, session.key, session.generation))
        return live.options if live else ()

    async def set_option(self, session: AgentSession, option_id: str, value: str) -> None:
        """See the port."""
        live = self._live.get(self._command(session))
        if live is None:
            failure = AgentFailure(FailureKind.TRANSPORT, "the session is not open")
            raise AgentUnavailable(failure)
        if live.turn:
            raise SessionBusy(f"turn {live.turn} is running")
        option = by_id(live.options, option_id)
        if option is None or not option.offers(value):
            raise OptionRefused(f"no such value: {value}")
        self.choices.append((option_id, value))
        live.options = tuple(
            replace(one, current=value) if one.option_id == option_id else one
            for one in live.options
        )

    async def close(self, session: AgentSession, within: float | None = None) -> None:
        """See the port."""
        live = self._live.pop(self._command(session), None)
        if live:
            self.closed.append(session.generation)
        if live and live.task and live.turn:
            await self._cancel_live(live)

    async def _cancel_live(self, live: _Live) -> None:
        """Cancel what runs and wait for its end."""
        live.cancelled.set()
        for question in live.questions.values():
            question.set_result(None)
        live.questions.clear()
        if live.task:
            await live.task

    def status(self, session: AgentSession) -> SessionStatus:
        """See the port."""
        live = self._live.get((session.database_id, session.key, session.generation))
        if live is None:
            return SessionStatus(Liveness.ABSENT)
        kind = Liveness.PROMPTING if live.turn else Liveness.IDLE
        return SessionStatus(kind, turn=live.turn, pid=1)

    def _command(self, session: AgentSession) -> Name:
        name = (session.database_id, session.key, session.generation)
        if session.epoch < self._epochs.get(name, 0):
            raise StaleEpoch(f"epoch {session.epoch}")
        self._epochs[name] = session.epoch
        return name

    def _runs(self, turn: TurnId) -> bool:
        return any(live.turn == turn for live in self._live.values())

    async def _play(self, name: Name, live: _Live, turn: _Turn, text: str) -> None:
        ended = PromptEnded(EndKind.COMPLETED, "end_turn")
        try:
            memory = self._memory[live.acp_session_id]
            await _Player(live, turn, memory, self._delay, self.gates).play(text)
        except _Died as died:
            self._live.pop(name, None)
            failure = AgentFailure(FailureKind.EXITED, "the agent ended", exit_code=int(str(died)))
            ended = PromptEnded(EndKind.FAILED, failure=failure)
        except _Failed as failed:
            code, message = failed.args
            failure = AgentFailure(FailureKind.ERROR, message, code=code)
            ended = PromptEnded(EndKind.FAILED, failure=failure)
        if live.cancelled.is_set():
            ended = PromptEnded(EndKind.CANCELLED, "cancelled")
        ended, live.tokens = replace(ended, output_tokens=live.tokens), None
        live.turn = None
        await turn.add(ended)


class _Player:
    def __init__(
        self,
        live: _Live,
        turn: _Turn,
        memory: Sequence[str],
        delay: float,
        gates: Mapping[str, asyncio.Event],
    ) -> None:
        self._live, self._turn, self._memory, self._delay = live, turn, memory, delay
        self._gates = gates
        self._count = itertools.count(1)

    async def play(self, text: str) -> None:
        steps = parse_steps(text)
        for step, value in steps or [("say", f"You said: {text}")]:
            if self._live.cancelled.is_set():
                return
            await getattr(self, f"step_{step}")(value)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._live.cancelled.wait()
        except TimeoutError:
            return

    async def step_say(self, value: str) -> None:
        await self._pause(self._delay)
        if not self._live.cancelled.is_set():
            await self._turn.add(TextDelta(value))

    async def step_words(self, value: str) -> None:
        for n in range(int(value)):
            await self.step_say(f"word{n} ")

    async def step_delay(self, value: str) -> None:
        self._delay = float(value)

    async def step_wait(self, value: str) -> None:
        await self._pause(float(value))

    async def step_until(self, value: str) -> None:
        waits = [spawn(value, event.wait()) for event in (self._gates[value], self._live.cancelled)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            await end(wait)

    async def step_hang(self, _value: str) -> None:
        await self._live.cancelled.wait()

    async def step_think(self, value: str) -> None:
        await self._turn.add(Thought(value))

    async def step_plan(self, value: str) -> None:
        await self._turn.add(PlanChanged(tuple(PlanEntry(entry) for entry in value.split("|"))))

    async def step_usage(self, value: str) -> None:
        used, _, size = value.partition(":")
        await self._turn.add(UsageChanged(int(used), int(size)))

    async def step_tool(self, value: str) -> None:
        kind, title, seconds = kind_title_seconds(value)
        tool_id = f"call-{next(self._count)}"
        started = ToolChanged(tool_id, title, ToolKind(kind), ToolStatus.IN_PROGRESS)
        await self._turn.add(started)
        await self._pause(seconds)
        await self._turn.add(ToolChanged(tool_id, status=ToolStatus.COMPLETED))

    async def step_permission(self, value: str) -> None:
        kind, title, _ = kind_title_seconds(value)
        name = f"question-{id(self._turn)}-{next(self._count)}"
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._live.questions[name] = answer
        tool = ToolChanged(f"ask-{name}", title, ToolKind(kind))
        await self._turn.add(PermissionAsked(name, tool, _OPTIONS))
        if self._live.spec.permission_mode != "ask":
            del self._live.questions[name]
            answer.set_result("id-allow_always")
        chosen = await answer
        kinds = {option.option_id: option.kind for option in _OPTIONS}
        await self._turn.add(PermissionSettled(name, chosen, kinds.get(chosen or "")))
        if not self._live.cancelled.is_set():
            await self._turn.add(TextDelta(f"permission: {chosen}"))

    async def step_recall(self, _value: str) -> None:
        earlier = self._memory[:-1]
        lines = [f"{n}. {text}" for n, text in enumerate(earlier, 1)]
        await self.step_say("\n".join([f"I remember {len(earlier)} prompts.", *lines]))

    async def step_tokens(self, value: str) -> None:
        self._live.tokens = int(value)

    async def step_fail(self, value: str) -> None:
        code, _, message = value.partition(":")
        raise _Failed(int(code), message)

    async def step_exit(self, value: str) -> None:
        raise _Died(value)
