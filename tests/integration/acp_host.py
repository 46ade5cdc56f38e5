"""An embedded host over the scripted agent, with short time-outs: what the ACP tests have in common."""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

import openab.simulator.agent
from openab.agents.acp.process_tree import AGENT_VARIABLE, OWNER_VARIABLE, marked
from openab.agents.host.embedded import EmbeddedAgents
from openab.agents.limits import Sizes, Timeouts
from openab.domain.agent_events import (
    AgentEvent,
    AgentFailure,
    PromptEnded,
    TextDelta,
)
from openab.domain.ids import AccountId, AcpSessionId, Incarnation, SessionKey, TurnId
from openab.ports.agent import AgentSession, AgentSpec, Liveness, Opened, Prompt, TextBlock

AGENT = str(openab.simulator.agent.__file__)
SESSION = AgentSession("db", SessionKey("discord:1:2"), generation=1, epoch=1)
#: What a well-behaved agent needs on the slowest machine; only what every turn waits for is short.
PATIENT = Timeouts(
    initialize=60,
    open_session=60,
    close_session=20,
    cancel=20,
    late_text=0.1,
    write=20,
    replay_quiet=0.1,
    replay_start=0.3,
    leave=20,
    terminate=20,
    settle=20,
)
#: For agents that let every patience run out.
SHORT = replace(
    PATIENT,
    close_session=0.5,
    cancel=0.5,
    write=0.5,
    leave=0.3,
    terminate=0.3,
    settle=0.5,
)


def a_spec(folder: Path, *modes: str, more: Sequence[str] = (), **fields: object) -> AgentSpec:
    """The scripted agent in these modes, with more arguments, a durable state and a log."""
    arguments = [f"--mode={mode}" for mode in modes]
    arguments += ["--state-dir", str(folder / "state"), "--log", str(folder / "log"), *more]
    wanted: dict[str, object] = {
        "name": "scripted",
        "command": sys.executable,
        "args": (AGENT, "--delay", "0", *arguments),
        "working_dir": str(folder),
        "env": {"PATH": os.defpath},
    }
    return AgentSpec(**(wanted | fields))  # type: ignore[arg-type]


@dataclass
class Host:
    """One life of a host with one session."""

    folder: Path
    timeouts: Timeouts = PATIENT
    sizes: Sizes = field(default_factory=Sizes)
    incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.agents = EmbeddedAgents(
            database_id="db",
            account=AccountId("1"),
            incarnation=Incarnation(self.incarnation),
            timeouts=self.timeouts,
            sizes=self.sizes,
        )
        self._turns = 0

    async def open(self, spec: AgentSpec, wanted: str | None = None) -> Opened:
        """Open the session."""
        return await self.agents.open(SESSION, spec, AcpSessionId(wanted) if wanted else None)

    async def prompt(self, text: str) -> TurnId:
        """Begin a turn."""
        self._turns += 1
        turn = TurnId(f"t{self._turns}")
        blocks = [TextBlock("<sender_context>\n{}\n</sender_context>"), TextBlock(text)]
        prompt = Prompt(turn, 1, 1, self.agents.incarnation, blocks)
        await self.agents.prompt(SESSION, prompt)
        return turn

    async def told(self, turn: TurnId) -> list[AgentEvent]:
        """Every event of the turn, once it has ended."""
        async with asyncio.timeout(60):
            return [n.event async for n in self.agents.events(turn, 0)]

    async def ask(self, text: str) -> list[AgentEvent]:
        """A whole turn."""
        return await self.told(await self.prompt(text))

    async def until(self, turn: TurnId, wanted: Callable[[AgentEvent], bool]) -> AgentEvent:
        """Wait for an event of the turn."""
        async with asyncio.timeout(60):
            async for n in self.agents.events(turn, 0):
                if wanted(n.event):
                    return n.event
        raise AssertionError("the turn ended first")

    async def idle(self) -> None:
        """Return when no prompt runs, without reading any event."""
        async with asyncio.timeout(60):
            while self.agents.status(SESSION).liveness is Liveness.PROMPTING:  # noqa: ASYNC110 - the port has no other sign that needs no reader
                await asyncio.sleep(0.02)

    def received(self) -> list[dict[str, Any]]:
        """Every message that the agent's log says it received."""
        log = self.folder / "log"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [line["message"] for line in lines if line["event"] == "in"]

    async def until_received(self, method: str) -> None:
        """Return when the agent's log has a message of this method."""
        async with asyncio.timeout(60):
            while method not in [message.get("method") for message in self.received()]:  # noqa: ASYNC110 - the sign is in another process's file
                await asyncio.sleep(0.02)

    def left(self) -> list[int]:
        """Every living process that this host's agents are or started."""
        owner = f"db:1:{self.incarnation}"
        return [process.pid for process in marked(OWNER_VARIABLE, lambda value: value == owner)]

    def agent(self) -> psutil.Process:
        """The session's process."""
        pid = self.agents.status(SESSION).pid
        assert pid is not None
        return psutil.Process(pid)


def text_of(events: list[AgentEvent]) -> str:
    """The answer."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def end_of(events: list[AgentEvent]) -> PromptEnded:
    """The one end event."""
    last = events[-1]
    assert isinstance(last, PromptEnded)
    return last


def failure_of(events: list[AgentEvent]) -> AgentFailure:
    """The failure that the turn ended with."""
    failure = end_of(events).failure
    assert failure is not None
    return failure


def mark_of(process: psutil.Process) -> str:
    """The mark that an agent and all its descendants carry."""
    return process.environ()[AGENT_VARIABLE]


def family(mark: str) -> list[int]:
    """Every living process that carries the mark."""
    return [process.pid for process in marked(AGENT_VARIABLE, lambda value: value == mark)]
