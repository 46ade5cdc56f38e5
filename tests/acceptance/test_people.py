"""People interfere while a turn runs: they delete, they ask again, they come in numbers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.acceptance.stage import Broker, Gate, Stage, shared_broker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("people")]

Scene = tuple[Stage, Broker]


def _turn(gate: Gate) -> str:
    return f"[[say=half ]]{gate.step}[[say=and half]]"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    more = "[presentation]\nedit_interval_ms = 300\n"
    async with shared_broker(tmp_path_factory.mktemp("people"), more=more) as opened:
        yield opened


async def test_a_placeholder_that_somebody_deletes_costs_nothing_of_the_answer(
    scene: Scene,
) -> None:
    stage, sol = scene
    gate = stage.gate()
    asked = await stage.ask(sol, _turn(gate), stage.room())
    shown = await stage.live(asked.id, "half")
    await stage.ann.delete(shown)
    gate.open()
    await stage.answer(asked.id, sol, "half and half")
    await stage.settled(asked)
    await sol.turn_is(asked, "done")
    assert len(stage.finals(asked.id, sol)) == 1
    assert stage.placeholders(asked.id) == []


async def test_a_request_that_is_deleted_meanwhile_is_answered_without_a_reference(
    scene: Scene,
) -> None:
    stage, sol = scene
    asked = await stage.ask(sol, "[[say=hello]]", stage.room())
    await stage.answer(asked.id, sol, "hello")
    await stage.settled(asked)
    await stage.discord.add_bot("stranger").say(asked.id, "so that the final is fresh")
    gate = stage.gate()
    again = await stage.ann.say(asked.id, _turn(gate))
    await stage.live(asked.id, "half")
    await stage.ann.delete(again)
    gate.open()
    answer = await stage.answer(asked.id, sol, "half and half")
    assert answer.referenced is None
    await sol.turn_is(again, "done")
    await stage.bare(asked.id)


async def test_a_thread_that_is_deleted_meanwhile_is_told_in_the_parent(scene: Scene) -> None:
    stage, sol = scene
    room = stage.room()
    gate = stage.gate()
    asked = await stage.ask(sol, _turn(gate), room)
    await stage.live(asked.id, "half")
    stage.discord.delete_channel(asked.id)
    gate.open()
    told = await stage.discord.wait_message(
        room, lambda one: "could not be delivered" in one.content
    )
    assert told.author.id == sol.bot.id
    await sol.turn_is(asked, "failed")


async def test_a_mention_that_is_deleted_at_once_is_told_and_not_given_to_the_agent(
    scene: Scene,
) -> None:
    stage, sol = scene
    room = stage.room()
    asked = await stage.ask(sol, "[[say=never seen]]", room)
    await stage.ann.delete(asked)
    await sol.taken_in(asked)
    turn = await sol.turn_is(asked, "failed")
    assert turn["attempt"] == 0
    told = await stage.discord.wait_message(room, lambda one: one.author.id == sol.bot.id)
    assert "No thread could be opened" in told.content


async def test_many_people_in_many_threads_at_once_are_all_answered(scene: Scene) -> None:
    stage, sol = scene
    people = [stage.person(f"p{n}") for n in range(6)]
    said = [
        await one.say(stage.room(), f"{sol.bot.mention} [[words=30]] [[say=for {one.name}]]")
        for one in people
    ]
    async with asyncio.TaskGroup() as group:
        for one, message in zip(people, said, strict=True):
            group.create_task(stage.answer(message.id, sol, f"for {one.name}"))
    for message in said:
        await stage.bare(message.id)
        assert len(stage.finals(message.id, sol)) == 1


async def test_several_people_in_one_thread_are_answered_one_after_the_other(scene: Scene) -> None:
    stage, sol = scene
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=first ]]{gate.step}", stage.room())
    await stage.live(asked.id, "first")
    people = [stage.person(f"q{n}") for n in range(2)]
    said = [await one.say(asked.id, f"[[say=to {one.name}]]") for one in people]
    await sol.taken_in(said[-1])
    gate.open()
    for one, message in zip(people, said, strict=True):
        await sol.turn_is(message, "done")
        answer = await stage.answer(asked.id, sol, f"to {one.name}")
        assert answer.reference is None or answer.reference["message_id"] == message.id
    order = [one.content[-2:] for one in stage.finals(asked.id, sol)[1:]]
    assert order == ["q0", "q1"]
    await stage.bare(asked.id)


async def test_a_stranger_is_refused_and_an_unasked_bot_stays_silent(scene: Scene) -> None:
    stage, sol = scene
    room = stage.room()
    await stage.ann.say(room, "just talking")
    said = await stage.ask(sol, "[[say=now asked]]", room)
    await stage.answer(said.id, sol, "now asked")
    assert [one.author.id for one in stage.discord.messages(room)].count(sol.bot.id) == 0
    assert len(stage.discord.threads(room)) == 1
