"""How a turn ends when something goes wrong: told clearly, with the text so far, nothing left over."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from openab.simulator.discord import commit_then, hang, refuse, server_error
from openab.simulator.discord.faults import RestFault
from tests.acceptance.stage import Broker, Gate, Stage, shared_broker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("endings")]

Scene = tuple[Stage, Broker]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    more = "[presentation]\nedit_interval_ms = 300\nheartbeat_seconds = 2\n"
    more += "[cluster]\ncall_seconds = 2\n"
    async with shared_broker(tmp_path_factory.mktemp("endings"), more=more) as opened:
        yield opened


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("[[fail=-32603:the model is overloaded]]", "the model is overloaded"),
        ("[[exit=3]]", "exit code 3"),
        ("[[crash]]", "signal 9"),
    ],
    ids=["error", "exit", "crash"],
)
async def test_a_turn_that_fails_says_why_and_keeps_its_text(
    scene: Scene, steps: str, told: str
) -> None:
    stage, sol = scene
    asked = await stage.ask(sol, f"[[say=as far as I came ]]{steps}", stage.room())
    answer = await stage.answer(asked.id, sol, told)
    await stage.settled(asked, "😱")
    assert "as far as I came" in answer.content
    assert stage.placeholders(asked.id) == []
    assert (await sol.turn_is(asked, "failed"))["outcome"] == "failed"


async def test_the_session_of_a_crashed_agent_goes_on(scene: Scene) -> None:
    stage, sol = scene
    asked = await stage.ask(sol, "[[say=the first ]][[crash]]", stage.room())
    await stage.answer(asked.id, sol, "signal 9")
    again = await stage.ann.say(asked.id, "[[recall]]")
    answer = await stage.answer(asked.id, sol, "I remember 1 prompts")
    await stage.settled(again)
    assert "starts anew" not in answer.content


def _streaming(gate: Gate) -> str:
    """Words come until the gate, and more after it."""
    return f"[[delay=0.05]] [[words=10]] {gate.step} [[words=20]] [[say=the very end]]"


#: Says that a message is gone which stands there: if the final is told so, nobody deletes it.
_GONE = refuse(10008)
_EDIT_FAULTS = {
    "503": server_error(503),
    "forbidden": refuse(50001),
    "hang": hang(60.0, "after"),
    "commit then 502": commit_then(502),
    "message gone": _GONE,
}


async def test_edits_that_go_wrong_never_spoil_the_final(scene: Scene) -> None:
    async with asyncio.TaskGroup() as group:
        for name, fault in _EDIT_FAULTS.items():
            group.create_task(_must_end_well(scene, fault), name=name)


async def _must_end_well(scene: Scene, fault: RestFault) -> None:
    stage, sol = scene
    gate = stage.gate()
    asked = await stage.ask(sol, _streaming(gate), stage.room())
    rule = stage.discord.faults.add(
        fault,
        route="edit_message",
        when=lambda request: request.channel_id == asked.id,
        times=-1,
    )
    await rule.wait_hits()
    gate.open()
    answer = await stage.answer(asked.id, sol, "the very end")
    await stage.settled(asked)
    rule.release()
    await sol.turn_is(asked, "done")
    assert [one.id for one in stage.finals(asked.id, sol)] == [answer.id], fault.name
    assert answer.content.endswith("the very end"), fault.name
    if fault is not _GONE:
        assert stage.placeholders(asked.id) == [], fault.name


async def test_a_late_edit_does_not_undo_the_final(scene: Scene) -> None:
    stage, sol = scene
    gate = stage.gate()
    asked = await stage.ask(sol, _streaming(gate), stage.room())
    late = stage.discord.faults.add(
        hang(60.0, "after"),
        route="edit_message",
        when=lambda request: request.channel_id == asked.id,
    )
    await late.wait_hits()
    gate.open()
    answer = await stage.answer(asked.id, sol, "the very end")
    await stage.settled(asked)
    late.release()
    await stage.discord.wait_until(lambda: late.requests[0].answered_at is not None)
    assert [one.content for one in stage.finals(asked.id, sol)] == [answer.content]
    assert answer.content.endswith("the very end")
    assert stage.placeholders(asked.id) == []


async def test_a_final_that_cannot_be_delivered_is_told_and_marked_failed(scene: Scene) -> None:
    stage, sol = scene
    room = stage.room()
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=a secret of mine]] {gate.step}", room)
    await stage.live(asked.id, "a secret")
    stage.discord.faults.add(
        refuse(50013),
        route={"create_message", "edit_message"},
        when=lambda request: request.channel_id == asked.id,
        times=-1,
    )
    gate.open()
    told = await stage.discord.wait_message(
        room, lambda one: "could not be delivered" in one.content
    )
    turn = await sol.turn_is(asked, "failed")
    assert told.author.id == sol.bot.id
    assert "a secret of mine" in bytes(turn["raw"]).decode()
