"""What every agent host promises: the same suite for the embedded host and the in-process fake."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pytest

import openab.simulator.agent
from openab.agents.host.embedded import EmbeddedAgents
from openab.agents.limits import Timeouts
from openab.domain.agent_events import (
    AgentEvent,
    EndKind,
    FailureKind,
    PermissionAsked,
    PermissionSettled,
    Position,
    PromptEnded,
    TextDelta,
    ToolChanged,
    ToolStatus,
)
from openab.domain.ids import AccountId, AcpSessionId, Incarnation, SessionKey, TurnId
from openab.domain.options import Choice, Option
from openab.ports.agent import (
    AgentRefused,
    Agents,
    AgentSession,
    AgentSpec,
    AgentUnavailable,
    Liveness,
    OpenedBy,
    OptionRefused,
    Prompt,
    PromptLost,
    SessionBusy,
    StaleEpoch,
    TextBlock,
)
from tests.fakes.agent import Memory, ScriptedAgents

SHORT = Timeouts(late_text=0.05, replay_quiet=0.05, replay_start=0.2, leave=0.5, terminate=0.3)
MODEL = Option(
    "model", "Model", "model", (Choice("fast", "fast"), Choice("smart", "smart")), "fast"
)
SESSION = AgentSession("db", SessionKey("discord:1:2"), generation=1, epoch=5)


class Stoppable(Agents, Protocol):
    """A host as its owner sees it."""

    async def stop(self) -> None:
        """End everything."""


@dataclass
class World:
    """Makes hosts: each one is another life, over agents that remember their sessions."""

    kind: str
    folder: Path
    memory: Memory = field(default_factory=dict)
    hosts: list[Stoppable] = field(default_factory=list)

    def host(self) -> Stoppable:
        name = Incarnation(f"life-{len(self.hosts) + 1}")
        host: Stoppable
        if self.kind == "fake":
            host = ScriptedAgents(name, memory=self.memory, options=(MODEL,))
        else:
            host = EmbeddedAgents(
                database_id="db", account=AccountId("1"), incarnation=name, timeouts=SHORT
            )
        self.hosts.append(host)
        return host

    @property
    def spec(self) -> AgentSpec:
        return AgentSpec(
            name="scripted",
            command=sys.executable,
            args=(
                str(openab.simulator.agent.__file__),
                *("--delay", "0", "--state-dir", str(self.folder / "state")),
                *("--mode", "config-options"),
            ),
            working_dir=str(self.folder),
            env={"PATH": os.defpath},
        )


@pytest.fixture(params=["embedded", "fake"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    made = World(request.param, tmp_path)
    yield made
    for host in made.hosts:
        await host.stop()


@pytest.fixture
async def host(world: World) -> Stoppable:
    made = world.host()
    await made.open(SESSION, world.spec, None)
    return made


def a_prompt(host: Agents, text: str, turn: str = "t1", attempt: int = 1, step: int = 1) -> Prompt:
    return Prompt(TurnId(turn), attempt, step, host.incarnation, [TextBlock(text)])


async def events(host: Agents, turn: str = "t1", after: int = 0) -> list[AgentEvent]:
    async with asyncio.timeout(60):
        return [numbered.event async for numbered in host.events(TurnId(turn), after)]


async def until(host: Agents, wanted: type[AgentEvent], turn: str = "t1") -> AgentEvent:
    async with asyncio.timeout(60):
        async for numbered in host.events(TurnId(turn), 0):
            if isinstance(numbered.event, wanted):
                return numbered.event
    raise AssertionError(f"the turn ended without {wanted}")


def text(of: list[AgentEvent]) -> str:
    return "".join(event.text for event in of if isinstance(event, TextDelta))


def ended(of: list[AgentEvent]) -> PromptEnded:
    last = of[-1]
    assert isinstance(last, PromptEnded)
    return last


async def test_a_turn_is_told_in_order_and_ends_once(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=a]][[tool=execute:make:0]][[say=b]]"))
    told = await events(host)
    assert text(told) == "ab"
    tools = [event for event in told if isinstance(event, ToolChanged)]
    assert [tool.status for tool in tools] == [ToolStatus.IN_PROGRESS, ToolStatus.COMPLETED]
    assert told.index(tools[0]) < told.index(tools[1])
    assert ended(told) == PromptEnded(EndKind.COMPLETED, "end_turn")
    assert sum(isinstance(event, PromptEnded) for event in told) == 1


async def test_positions_count_from_one_in_this_life_and_can_be_resumed(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=a]][[tool=read:x:0]][[say=b]]"))
    numbered = [n async for n in host.events(TurnId("t1"), 0)]
    assert [n.position.incarnation for n in numbered] == [host.incarnation] * len(numbered)
    assert numbered[0].position.n == 1
    half = numbered[1].position.n
    assert [n async for n in host.events(TurnId("t1"), half)] == numbered[2:]


async def test_a_prompt_reaches_the_agent_once_however_often_it_is_given(host: Stoppable) -> None:
    for _ in range(3):
        await host.prompt(SESSION, a_prompt(host, "[[say=once]]"))
    assert text(await events(host)) == "once"
    await host.prompt(SESSION, a_prompt(host, "[[say=once]]"))
    await host.prompt(SESSION, a_prompt(host, "[[recall]]", turn="t2"))
    assert "I remember 1 prompts" in text(await events(host, "t2"))


async def test_a_further_step_is_a_prompt_and_numbers_go_on(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=first]]"))
    first = [n async for n in host.events(TurnId("t1"), 0)]
    await host.prompt(SESSION, a_prompt(host, "[[say=second]]", step=2))
    second = [n async for n in host.events(TurnId("t1"), first[-1].position.n)]
    assert text([n.event for n in second]) == "second"
    assert second[0].position.n == first[-1].position.n + 1


async def test_a_further_attempt_is_a_prompt_and_its_numbers_begin_anew(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=first]]"))
    assert text(await events(host)) == "first"
    await host.prompt(SESSION, a_prompt(host, "[[say=again]]", attempt=2))
    again = [n async for n in host.events(TurnId("t1"), 0)]
    assert text([n.event for n in again]) == "again"
    assert again[0].position.n == 1


async def test_what_was_never_given_is_known_to_be_unwritten(host: Stoppable) -> None:
    key = (TurnId("t1"), 1, 1, host.incarnation)
    assert host.unwritten(SESSION, *key)
    await host.prompt(SESSION, a_prompt(host, "[[say=a]]"))
    assert not host.unwritten(SESSION, *key)
    assert host.unwritten(SESSION, TurnId("t1"), 2, 1, host.incarnation)
    await events(host)
    await host.ack(TurnId("t1"), Position(host.incarnation, 1), outcome=True)
    await host.close(SESSION)
    assert not host.unwritten(SESSION, *key)


async def test_of_another_life_or_session_nothing_is_known(host: Stoppable, world: World) -> None:
    assert not host.unwritten(SESSION, TurnId("t1"), 1, 1, Incarnation("gone"))
    other = replace(SESSION, key=SessionKey("discord:1:3"))
    assert not host.unwritten(other, TurnId("t1"), 1, 1, host.incarnation)
    heir = world.host()
    assert not heir.unwritten(SESSION, TurnId("t1"), 1, 1, host.incarnation)


async def test_another_life_never_prompts(host: Stoppable) -> None:
    prompt = replace(a_prompt(host, "[[say=a]]"), incarnation=Incarnation("gone"))
    with pytest.raises(PromptLost):
        await host.prompt(SESSION, prompt)
    await host.prompt(SESSION, a_prompt(host, "[[recall]]", turn="t2"))
    assert "I remember 0 prompts" in text(await events(host, "t2"))


async def test_an_unknown_turn_is_lost(host: Stoppable) -> None:
    with pytest.raises(PromptLost):
        await events(host, "never")


async def test_an_old_epoch_commands_nothing(host: Stoppable, world: World) -> None:
    newer, older = replace(SESSION, epoch=6), replace(SESSION, epoch=4)
    await host.open(newer, world.spec, None)
    for stale in (older, SESSION):
        with pytest.raises(StaleEpoch):
            await host.open(stale, world.spec, None)
        with pytest.raises(StaleEpoch):
            await host.prompt(stale, a_prompt(host, "[[say=x]]"))
        with pytest.raises(StaleEpoch):
            await host.cancel(stale, TurnId("t1"))
        with pytest.raises(StaleEpoch):
            await host.answer(stale, "any", None)
        with pytest.raises(StaleEpoch):
            await host.close(stale)
    assert host.status(newer).liveness is Liveness.IDLE


async def test_one_prompt_at_a_time(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=a]][[hang]]"))
    assert host.status(SESSION).liveness is Liveness.PROMPTING
    assert host.status(SESSION).turn == "t1"
    with pytest.raises(SessionBusy):
        await host.prompt(SESSION, a_prompt(host, "[[say=b]]", turn="t2"))
    await host.cancel(SESSION, TurnId("t1"))
    assert ended(await events(host)).kind is EndKind.CANCELLED


async def test_cancel_keeps_the_text_and_the_session(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=half an answer]][[hang]]"))
    await until(host, TextDelta)
    await host.cancel(SESSION, TurnId("t1"))
    await host.cancel(SESSION, TurnId("t1"))
    told = await events(host)
    assert text(told) == "half an answer"
    assert ended(told) == PromptEnded(EndKind.CANCELLED, "cancelled")
    await host.prompt(SESSION, a_prompt(host, "[[recall]]", turn="t2"))
    assert "half an answer" in text(await events(host, "t2"))


async def test_a_cancel_for_another_turn_or_an_idle_session_does_nothing(host: Stoppable) -> None:
    await host.cancel(SESSION, TurnId("t1"))
    await host.prompt(SESSION, a_prompt(host, "[[say=a]][[permission=execute:x]][[say=b]]"))
    await host.cancel(SESSION, TurnId("other"))
    assert ended(await events(host)).kind is EndKind.COMPLETED


async def test_permissions_are_granted_by_kind(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[permission=execute:rm -rf]]"))
    told = await events(host)
    asked = next(event for event in told if isinstance(event, PermissionAsked))
    settled = next(event for event in told if isinstance(event, PermissionSettled))
    assert asked.tool.title == "rm -rf"
    assert (settled.request_id, settled.option_id) == (asked.request_id, "id-allow_always")


async def test_in_mode_ask_a_question_waits_for_its_one_answer(world: World) -> None:
    host = world.host()
    await host.open(SESSION, replace(world.spec, permission_mode="ask"), None)
    await host.prompt(SESSION, a_prompt(host, "[[permission=execute:rm]]"))
    asked = await until(host, PermissionAsked)
    assert isinstance(asked, PermissionAsked)
    assert await host.answer(SESSION, asked.request_id, "id-reject_once")
    assert not await host.answer(SESSION, asked.request_id, "id-allow_once")
    assert "id-reject_once" in text(await events(host))


async def test_cancel_settles_a_pending_question(world: World) -> None:
    host = world.host()
    await host.open(SESSION, replace(world.spec, permission_mode="ask"), None)
    await host.prompt(SESSION, a_prompt(host, "[[permission=execute:rm]]"))
    asked = await until(host, PermissionAsked)
    await host.cancel(SESSION, TurnId("t1"))
    told = await events(host)
    assert isinstance(asked, PermissionAsked)
    assert PermissionSettled(asked.request_id, None) in told
    assert ended(told).kind is EndKind.CANCELLED
    assert not await host.answer(SESSION, asked.request_id, "id-allow_once")


async def test_an_error_and_an_exit_end_the_turn(host: Stoppable, world: World) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=a]][[fail=-32603:no money]]"))
    failure = ended(await events(host)).failure
    assert failure is not None
    assert (failure.kind, failure.code, failure.message) == (FailureKind.ERROR, -32603, "no money")
    await host.prompt(SESSION, a_prompt(host, "[[say=b]][[exit=3]]", turn="t2"))
    told = await events(host, "t2")
    failure = ended(told).failure
    assert text(told) == "b"
    assert failure is not None
    assert (failure.kind, failure.exit_code) == (FailureKind.EXITED, 3)
    assert host.status(SESSION).liveness is Liveness.ABSENT


async def test_a_session_that_is_not_open_ends_the_turn_with_an_event(world: World) -> None:
    host = world.host()
    await host.prompt(SESSION, a_prompt(host, "[[say=a]]"))
    assert ended(await events(host)).kind is EndKind.FAILED


async def test_opening_twice_is_live(host: Stoppable, world: World) -> None:
    pid = host.status(SESSION).pid
    assert (await host.open(SESSION, world.spec, None)).by is OpenedBy.LIVE
    assert host.status(SESSION).pid == pid


async def test_a_restarted_host_brings_the_session_back(world: World) -> None:
    first = world.host()
    opened = await first.open(SESSION, world.spec, None)
    await first.prompt(SESSION, a_prompt(first, "remember the cat"))
    await events(first)
    await first.stop()
    second = world.host()
    again = await second.open(SESSION, world.spec, opened.acp_session_id)
    assert (again.by, again.acp_session_id) == (OpenedBy.RESUMED, opened.acp_session_id)
    assert not again.context_lost
    await second.prompt(SESSION, a_prompt(second, "[[recall]]", turn="t2"))
    assert "remember the cat" in text(await events(second, "t2"))


async def test_an_unknown_session_is_replaced_and_said_to_be(world: World) -> None:
    host = world.host()
    opened = await host.open(SESSION, world.spec, AcpSessionId("s-bogus"))
    assert (opened.by, opened.context_lost) == (OpenedBy.NEW, True)
    assert opened.acp_session_id != "s-bogus"


async def test_a_closed_session_can_be_opened_again(host: Stoppable, world: World) -> None:
    await host.close(SESSION)
    await host.close(SESSION)
    assert host.status(SESSION).liveness is Liveness.ABSENT
    opened = await host.open(SESSION, world.spec, None)
    assert (opened.by, opened.context_lost) == (OpenedBy.NEW, False)


async def test_closing_ends_what_runs(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=a]][[hang]]"))
    await host.close(SESSION)
    assert ended(await events(host)).kind is EndKind.CANCELLED


async def test_a_command_that_does_not_exist_is_refused(world: World) -> None:
    host = world.host()
    with pytest.raises(AgentRefused) as refused:
        await host.open(SESSION, replace(world.spec, command="/does/not/exist"), None)
    assert refused.value.failure.kind is FailureKind.NOT_FOUND


async def test_events_stay_until_the_outcome_is_acknowledged(host: Stoppable) -> None:
    await host.prompt(SESSION, a_prompt(host, "[[say=a]]"))
    told = [n async for n in host.events(TurnId("t1"), 0)]
    last = told[-1].position
    await host.ack(TurnId("t1"), last)
    assert [n async for n in host.events(TurnId("t1"), 0)] == told
    await host.ack(TurnId("t1"), Position(Incarnation("other"), last.n), outcome=True)
    assert [n async for n in host.events(TurnId("t1"), 0)] == told
    await host.ack(TurnId("t1"), last, outcome=True)
    with pytest.raises(PromptLost):
        await events(host)
    await host.prompt(SESSION, a_prompt(host, "[[say=a]]"))
    await host.prompt(SESSION, a_prompt(host, "[[recall]]", turn="t2"))
    assert "I remember 1 prompts" in text(await events(host, "t2"))


async def test_sessions_do_not_share_anything(host: Stoppable, world: World) -> None:
    other = replace(SESSION, key=SessionKey("discord:1:3"))
    await host.open(other, world.spec, None)
    await host.prompt(SESSION, a_prompt(host, "[[say=mine]][[hang]]"))
    await host.prompt(other, a_prompt(host, "[[recall]]", turn="t2"))
    assert "I remember 0 prompts" in text(await events(host, "t2"))
    await host.close(other)
    assert host.status(SESSION).liveness is Liveness.PROMPTING
    with suppress(StaleEpoch):
        await host.cancel(SESSION, TurnId("t1"))


async def test_what_can_be_chosen_is_told_and_a_choice_holds(host: Stoppable, world: World) -> None:
    assert host.options(SESSION) == (MODEL,)
    for _ in range(2):
        await host.set_option(SESSION, "model", "smart")
    assert host.options(SESSION) == (replace(MODEL, current="smart"),)
    again = await host.open(SESSION, world.spec, None)
    assert again.options == (replace(MODEL, current="smart"),)


async def test_a_value_that_is_not_offered_is_refused_with_the_agents_words(
    host: Stoppable,
) -> None:
    with pytest.raises(OptionRefused, match="no such value: huge"):
        await host.set_option(SESSION, "model", "huge")
    assert host.options(SESSION) == (MODEL,)


async def test_nothing_is_chosen_while_a_prompt_runs_or_by_a_former_owner(host: Stoppable) -> None:
    with pytest.raises(StaleEpoch):
        await host.set_option(replace(SESSION, epoch=4), "model", "smart")
    await host.prompt(SESSION, a_prompt(host, "[[say=a]][[hang]]"))
    await until(host, TextDelta)
    with pytest.raises(SessionBusy):
        await host.set_option(SESSION, "model", "smart")
    await host.cancel(SESSION, TurnId("t1"))
    await events(host)
    assert host.options(SESSION) == (MODEL,)


async def test_a_session_that_is_not_open_has_no_options_and_takes_no_choice(
    host: Stoppable,
) -> None:
    other = replace(SESSION, generation=2)
    assert host.options(other) == ()
    with pytest.raises(AgentUnavailable):
        await host.set_option(other, "model", "smart")


async def test_another_generation_is_another_session(host: Stoppable, world: World) -> None:
    fresh = replace(SESSION, generation=2)
    await host.prompt(SESSION, a_prompt(host, "[[say=a]][[hang]]"))
    await until(host, TextDelta)
    await host.close(SESSION, within=2.0)
    assert ended(await events(host)).kind is EndKind.CANCELLED
    assert (await host.open(fresh, world.spec, None)).by is OpenedBy.NEW
    await host.prompt(fresh, a_prompt(host, "[[recall]]", turn="t2"))
    assert "I remember 0 prompts" in text(await events(host, "t2"))
