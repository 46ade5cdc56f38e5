"""Killed in the middle of a turn: it goes on, asks before it repeats anything, and is given up in the end."""

import asyncio

from openab.simulator.discord import Message
from openab.text.notices import given_up, went_on_after_restart
from tests.acceptance.stage import Broker, Gate, Stage

LINE = went_on_after_restart()


async def test_a_killed_turn_goes_on_or_asks_and_a_poisonous_one_is_given_up(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    gates = [stage.gate() for _ in range(3)]
    spoken, published, poison = await asyncio.gather(
        _begun(stage, sol, "", gates[0]),
        _begun(stage, sol, "[[toolopen=execute:cargo publish]]", gates[1]),
        _begun(stage, sol, "", gates[2]),
    )
    (before,) = stage.placeholders(spoken.id)
    later = await stage.ann.say(spoken.id, "[[say=I waited]]")
    await sol.taken_in(later)
    await sol.kill()
    await sol.start()
    await _goes_on(stage, sol, spoken, before, gates[0])
    await sol.turn_is(later, "done", 60)
    texts = [one.content for one in stage.finals(spoken.id, sol)]
    assert texts[-1].endswith("I waited"), "the order is kept"
    await _asks(stage, sol, published, gates[1])
    await _is_given_up(stage, sol, poison)
    assert await sol.stop() == 0


async def _begun(stage: Stage, sol: Broker, call: str, gate: Gate) -> Message:
    """A turn that has said half and waits at its gate, all of which people see."""
    steps = f"[[say=before the crash]]{call}{gate.step}[[say= and after it]]"
    asked = await stage.ask(sol, steps, stage.room())
    await stage.live(asked.id, "before the crash")
    if call:
        await stage.live(asked.id, "cargo publish")
    return asked


async def _goes_on(stage: Stage, sol: Broker, asked: Message, before: Message, gate: Gate) -> None:
    shown = await stage.live(asked.id, LINE)
    assert shown.id == before.id, "the same placeholder goes on"
    gate.open()
    turn = await sol.turn_is(asked, "done", 60)
    final = await stage.answer(asked.id, sol, "and after it")
    assert f"before the crash\n\n{LINE}\n\nbefore the crash and after it" in final.content
    assert turn["raw"] == b"before the crash" + b"before the crash and after it"
    again = [one for one in sol.prompts if "you may know it already" in one]
    assert any("before the crash" in one for one in again)
    await stage.settled(asked)


async def _asks(stage: Stage, sol: Broker, asked: Message, gate: Gate) -> None:
    question = await stage.live(asked.id, "Is the agent to go on?")
    assert "`cargo publish`" in question.content
    assert [one.id for one in stage.placeholders(asked.id)] == [question.id]
    prompts = len(sol.prompts)
    buttons = question.components[0]["components"]
    pending = await stage.ann.click(question, buttons[0]["custom_id"])
    await pending.answer()
    assert "It goes on" in await pending.text()
    gate.open()
    final = await stage.answer(asked.id, sol, "and after it")
    assert "✂️ `cargo publish` (interrupted)" in final.content
    assert LINE in final.content
    await sol.turn_is(asked, "done", 60)
    await stage.bare(asked.id)
    assert len(sol.prompts) == prompts + 1


async def _is_given_up(stage: Stage, sol: Broker, asked: Message) -> None:
    await stage.live(asked.id, f"{LINE}\n\nbefore the crash")
    await sol.kill()
    await sol.start()
    await sol.turn_is(asked, "failed", 60)
    await stage.bare(asked.id)
    (final,) = stage.finals(asked.id, sol)
    assert given_up(2) in final.content
    assert f"before the crash\n\n{LINE}\n\nbefore the crash" in final.content
    await stage.settled(asked, "😱")
