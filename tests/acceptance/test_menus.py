"""Commands as people use them: menus of many models and agents, usage, sessions, a reset that ends a process."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
import pytest_asyncio

from openab.simulator.discord import Message, Person
from tests.acceptance.stage import Broker, Stage, shared_broker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("menus")]

Scene = tuple[Stage, Broker]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    args = ("--mode", "many-options", "--delay", "0")
    async with shared_broker(tmp_path_factory.mktemp("menus"), agent_args=args) as opened:
        yield opened


async def asked(scene: Scene, text: str = "[[say=here]]") -> Message:
    """A session whose agent has answered once and is idle."""
    stage, sol = scene
    trigger = await stage.ask(sol, text, stage.room())
    await stage.answer(trigger.id, sol, "here")
    await stage.settled(trigger)
    return trigger


async def menu_of(scene: Scene, thread: str, command: str, who: Person | None = None) -> Message:
    """Use a command; the message that only its author sees."""
    stage, sol = scene
    pending = await (who or stage.ann).slash(thread, command, sol.bot)
    await pending.answer()
    assert pending.original is not None
    assert pending.original.ephemeral_for == (who or stage.ann).id
    return pending.original


def options(shown: Message) -> list[dict[str, Any]]:
    return list(shown.components[0]["components"][0]["options"])


@pytest.mark.parametrize(
    ("command", "what", "number"), [("models", "model", 30), ("agents", "agent", 26)]
)
async def test_a_long_menu_is_turned_and_picked_from_where_it_is(
    scene: Scene, command: str, what: str, number: int
) -> None:
    stage, sol = scene
    trigger = await asked(scene)
    shown = await menu_of(scene, trigger.id, command)
    assert len(options(shown)) == 25
    turned = await stage.ann.click(shown, f"openab:page:{what}:1")
    assert (await turned.answer()).type == 7
    assert len(options(shown)) == number - 25
    last = f"{what}-{number}"
    picked = await stage.ann.choose(shown, f"openab:config:{what}", [last])
    assert (await picked.answer()).type == 7
    assert f"`{what.title()} {number}`" in shown.content
    assert (options(shown)[0]["value"], options(shown)[0]["default"]) == (last, True)
    await stage.ann.say(trigger.id, f"{sol.bot.mention} [[chosen]]")
    await stage.answer(trigger.id, sol, f"{what}={last}")


async def test_usage_and_sessions_are_for_the_asker_alone(scene: Scene) -> None:
    trigger = await asked(scene, "[[usage=500:1000]][[say=here]]")
    usage = await menu_of(scene, trigger.id, "usage")
    assert "500 of 1,000 tokens" in usage.content
    listed = await menu_of(scene, trigger.id, "sessions")
    assert f"<#{trigger.id}>" in listed.content
    assert len(listed.content) <= 2000


@pytest.mark.parametrize("way", ["slash", "text"])
async def test_a_reset_ends_the_process_and_keeps_the_thread(scene: Scene, way: str) -> None:
    stage, sol = scene
    trigger = await asked(scene, "remember the cat [[say=here]]")
    (process,) = _agents_of(sol)[-1:]
    if way == "slash":
        told = await menu_of(scene, trigger.id, "reset")
        assert "forgotten" in told.content
    else:
        await stage.ann.say(trigger.id, "!reset")
        await stage.live(trigger.id, "forgotten")
    gone = await asyncio.to_thread(psutil.wait_procs, [process], 60)
    assert not gone[1]
    await stage.ann.say(trigger.id, f"{sol.bot.mention} [[recall]]")
    await stage.answer(trigger.id, sol, "I remember 0 prompts")


def _agents_of(sol: Broker) -> list[psutil.Process]:
    """Its agents' processes, oldest first."""
    children = psutil.Process(sol.pid).children()
    return sorted(children, key=lambda child: child.create_time())
