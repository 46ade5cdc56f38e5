"""Agents in trouble: the thread tells, nothing of them is left, and the next message works."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.acceptance.stage import PATIENCE, Broker, Stage, open_stage, shared_broker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("troubles")]

Scene = tuple[Stage, Broker]

#: What is said before a tool call is no part of the answer in this mode, so a flood makes no parts.
_MODE = '[presentation]\nmode = "heartbeat"\nheartbeat_seconds = 1\n'
_THEN = "[[tool=execute:make:0]] [[say=the answer]]"
#: Only being ended thoroughly ends these agents.
_STUBBORN = ("--mode", "stay-on-eof", "--mode", "ignore-sigterm", "--delay", "0")
_ORPHANED = "[[child]] [[loud=1000000]] [[stderr=my last words]]"
_TROUBLES = {
    "crash": (f"[[say=half ]] {_ORPHANED} [[crash]]", "my last words"),
    "200,000 chunks": (f"[[flood=200000]] {_THEN}", "the answer"),
    "20 MB line": (f"[[line=20000000]] {_THEN}", "the answer"),
    "1 MB of stderr": (f"[[loud=1000000]] {_THEN}", "the answer"),
    "grandchild": (f"[[child]] {_THEN}", "the answer"),
}
#: What the largest trouble may still occupy when it is over, in bytes; descriptors of a new connection or two.
_MEMORY, _DESCRIPTORS = 150_000_000, 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder = tmp_path_factory.mktemp("troubles")
    async with shared_broker(folder, more=_MODE, agent_args=_STUBBORN) as (stage, sol):
        # From here on whatever a turn needs has been opened once.
        await stage.settled(await stage.ask(sol, "[[say=ready]]", room := stage.room()))
        await _until_reset(stage, sol, stage.discord.threads(room)[0].id)
        yield stage, sol


@pytest.mark.parametrize("trouble", _TROUBLES)
async def test_a_trouble_is_told_and_leaves_nothing(scene: Scene, trouble: str) -> None:
    stage, sol = scene
    steps, told = _TROUBLES[trouble]
    broker = psutil.Process(sol.pid)
    before, memory = broker.num_fds(), broker.memory_info().rss
    asked = await stage.ask(sol, steps, stage.room())
    await stage.answer(asked.id, sol, told)
    await _must_go_on(stage, sol, asked.id)
    await _until_reset(stage, sol, asked.id)
    assert broker.num_fds() <= before + _DESCRIPTORS
    assert broker.memory_info().rss <= memory + _MEMORY


async def test_an_agent_that_hangs_is_ended_at_the_hard_time_out(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        sol = stage.broker(more="[pool]\nprompt_hard_timeout_secs = 2\n")
        await sol.start()
        asked = await stage.ask(sol, "[[say=as far as I came ]] [[child]] [[hang]]")
        answer = await stage.answer(asked.id, sol, "ran too long")
        assert "as far as I came" in answer.content
        await stage.settled(asked, "😱")
        assert (await sol.turn_is(asked, "failed"))["outcome"] == "failed"
        assert stage.placeholders(asked.id) == []
        assert len(sol.started()) <= 1, "only the start's agent check may not be over"
        await _must_go_on(stage, sol, asked.id)
        assert await sol.stop() == 0


async def _must_go_on(stage: Stage, sol: Broker, thread: str) -> None:
    again = await stage.ann.say(thread, "[[say=as if nothing had been]]")
    await stage.answer(thread, sol, "as if nothing had been")
    await stage.settled(again)
    assert stage.placeholders(thread) == []


async def _until_reset(stage: Stage, sol: Broker, thread: str) -> None:
    """End the session; returns when no process is left of what the broker started."""
    await stage.ann.say(thread, "!reset")
    await stage.live(thread, "forgotten")
    async with asyncio.timeout(PATIENCE):
        while await asyncio.to_thread(sol.started):  # noqa: ASYNC110 - other processes give no signal
            await asyncio.sleep(0.05)
