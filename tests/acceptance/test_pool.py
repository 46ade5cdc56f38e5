"""More threads than agents: real processes make room for each other and know their sessions again."""

import asyncio
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from tests.acceptance.stage import PATIENCE, Broker, Stage, shared_broker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("pool")]

Scene = tuple[Stage, Broker]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    more = "[pool]\nmax_sessions = 1\n"
    args = ("--delay", "0")
    folder = tmp_path_factory.mktemp("pool")
    async with shared_broker(folder, agent_args=args, more=more) as opened:
        yield opened


def agents(sol: Broker) -> int:
    """The agent processes of this broker that live now."""
    children = psutil.Process(sol.pid).children()
    return sum("openab.simulator.agent" in " ".join(one.cmdline()) for one in children)


async def test_two_threads_take_one_agent_in_turn_and_forget_nothing(scene: Scene) -> None:
    stage, sol = scene
    first = await stage.ask(sol, "the word is swordfish", stage.room())
    await stage.settled(first)
    second = await stage.ask(sol, "[[say=here]]", stage.room())
    await stage.settled(second)
    assert agents(sol) == 1
    again = await stage.ann.say(first.id, "[[recall]]")
    await stage.answer(first.id, sol, "swordfish")
    await stage.settled(again)
    assert agents(sol) == 1


async def test_where_all_are_busy_people_are_told_and_it_goes_on_by_itself(scene: Scene) -> None:
    stage, sol = scene
    busy = await stage.ask(sol, "[[say=hello]] [[hang]]", stage.room())
    await stage.live(busy.id, "hello")
    waiting = await stage.ask(sol, "[[say=at last]]", stage.room())
    await stage.live(waiting.id, "The only agent is busy")
    assert agents(sol) == 1
    await stage.ann.say(busy.id, "!cancel")
    async with asyncio.timeout(PATIENCE):
        await stage.answer(waiting.id, sol, "at last")
        await stage.bare(waiting.id)
