"""Stopping a turn: by slash command, by text, by button; while it streams and while it waits."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from openab.simulator.discord import Message, Person
from tests.acceptance.stage import Broker, Stage, shared_broker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("cancel")]

Scene = tuple[Stage, Broker]
_LONG = "[[say=what I have so far ]] [[delay=0.2]] [[words=600]]"
_CANCELLED = "🛑"
WAYS = ["slash", "text", "button"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    more = "[presentation]\nedit_interval_ms = 300\n"
    async with shared_broker(tmp_path_factory.mktemp("cancel"), more=more) as opened:
        yield opened


async def _stop(
    stage: Stage, sol: Broker, who: Person, way: str, thread: str, shown: Message
) -> str:
    """What the person is told for it; nothing for a message."""
    if way == "text":
        await who.say(thread, "!cancel")
        return ""
    if way == "slash":
        pending = await who.slash(thread, "cancel", sol.bot)
    else:
        pending = await who.click(shown, shown.components[0]["components"][0]["custom_id"])
    await pending.answer()
    return await pending.text()


@pytest.mark.parametrize("way", WAYS)
async def test_a_streaming_turn_stops_and_keeps_its_text(scene: Scene, way: str) -> None:
    stage, sol = scene
    asked = await stage.ask(sol, _LONG, stage.room())
    shown = await stage.live(asked.id, "what I have so far")
    told = await _stop(stage, sol, stage.ann, way, asked.id, shown)
    answer = await stage.answer(asked.id, sol, "Cancelled by ann")
    await stage.settled(asked, _CANCELLED)
    assert "what I have so far" in answer.content
    assert stage.placeholders(asked.id) == []
    assert "ann" in told or way == "text"
    assert (await sol.turn_is(asked, "cancelled"))["outcome"] == "cancelled"


@pytest.mark.parametrize("way", WAYS)
async def test_a_strangers_stop_is_refused(scene: Scene, way: str) -> None:
    stage, sol = scene
    bob = stage.person()
    asked = await stage.ask(sol, _LONG + "[[say=the end]]", stage.room())
    shown = await stage.live(asked.id, "what I have so far")
    told = await _stop(stage, sol, bob, way, asked.id, shown)
    if way == "text":
        told = (await stage.live(asked.id, "⛔")).content
    assert "Only ann" in told
    assert sol.turn(asked)["cancel_requested_at"] is None
    await _stop(stage, sol, stage.ann, "slash", asked.id, shown)
    await sol.turn_is(asked, "cancelled")


@pytest.mark.parametrize("way", WAYS)
async def test_a_waiting_turn_is_taken_back_and_the_running_one_goes_on(
    scene: Scene, way: str
) -> None:
    stage, sol = scene
    bob = stage.person()
    gate = stage.gate()
    steps = f"[[say=busy ]]{gate.step} [[say=and done in peace]]"
    asked = await stage.ask(sol, steps, stage.room())
    await stage.live(asked.id, "busy")
    waiting = await bob.say(asked.id, f"{sol.bot.mention} [[say=never said]]")
    shown = await stage.live(asked.id, "ueued behind 1")
    # The running turn is Ann's; a stop by Bob is meant for his own.
    told = await _stop(stage, sol, bob, way, asked.id, shown)
    assert "before it started" in told or way == "text"
    await sol.turn_is(waiting, "cancelled")
    gate.open()
    await stage.answer(asked.id, sol, "and done in peace")
    await stage.settled(asked)
    assert not [one for one in sol.prompts if "never said" in one]
    assert (await stage.live(asked.id, "before it started")).content
    assert not stage.finals(asked.id, sol)[1:]


async def test_still_there_is_told_that_it_waits_and_answered_in_the_same_session(
    scene: Scene,
) -> None:
    stage, sol = scene
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=thinking hard ]]{gate.step}[[say=done]]", stage.room())
    await stage.live(asked.id, "thinking hard")
    again = await stage.ann.say(asked.id, "Still there? [[recall]]")
    await stage.live(asked.id, "ueued behind 1")
    gate.open()
    await stage.answer(asked.id, sol, "done")
    answer = await stage.answer(asked.id, sol, "I remember 1 prompts")
    await stage.settled(again)
    assert "thinking hard" in answer.content
    assert stage.placeholders(asked.id) == []


async def test_nothing_to_cancel_is_told_and_changes_nothing(scene: Scene) -> None:
    stage, sol = scene
    asked = await stage.ask(sol, "[[say=all done]]", stage.room())
    await stage.answer(asked.id, sol, "all done")
    await stage.settled(asked)
    pending = await stage.ann.slash(asked.id, "cancel", sol.bot)
    assert "Nothing to cancel" in await pending.text()
    again = await stage.ann.say(asked.id, "[[say=works as before]]")
    await stage.answer(asked.id, sol, "works as before")
    await stage.settled(again)
