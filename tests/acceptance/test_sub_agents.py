"""A sub-agent as people see it: a thread of its own, its answer there alone, and the one who asked is told."""

import json
import sys

from openab.simulator.discord import Message
from tests.acceptance.stage import PATIENCE, Broker, Stage


def _helping(stage: Stage, switch: str = "true") -> Broker:
    """A broker with a further agent."""
    log = stage.folder / "helper.jsonl"
    args = ["-m", "openab.simulator.agent", "--state-dir", str(stage.folder / "helper")]
    return stage.broker(
        more=(
            f"[discord.thread_bindings]\nspawn_subagent_sessions = {switch}\n"
            f"[agents.helper]\ncommand = {json.dumps(sys.executable)}\n"
            f"args = {json.dumps([*args, '--log', str(log)])}\n"
            f"working_dir = {json.dumps(str(stage.folder))}\n"
        )
    )


def _giving(task: str) -> str:
    """A request whose agent gives a task to the helper, and has a word for whatever comes of it."""
    return f"[[script={json.dumps([['say', f'[[spawn:helper]]{chr(10)}{task}']])}]]"


def _said(answer: str) -> str:
    return f"[[script={json.dumps([['say', answer]])}]]"


async def _child(stage: Stage, broker: Broker) -> Message:
    """The message in the channel that the sub-agent's thread hangs on."""

    def fits(message: Message) -> bool:
        return message.author.id == broker.bot.id and "🧵" in message.content

    return await stage.discord.wait_message(stage.channel, fits, PATIENCE)


def _ours(stage: Stage, place: str) -> list[str]:
    people = stage.people
    return [one.content for one in stage.discord.messages(place) if one.author.id not in people]


async def test_a_task_goes_to_a_thread_of_its_own_and_comes_back_once(stage: Stage) -> None:
    sol = _helping(stage)
    stage.discord.grant(sol.bot.id, stage.channel, "manage_webhooks")
    await sol.start()
    asked = await stage.ask(sol, _giving(f"Look at it. {_said('It is well.')}"))
    starter = await _child(stage, sol)
    await stage.answer(starter.id, sol, "It is well.")
    await stage.settled(starter)
    # The session that gave the task is told once, as no person's word, and answers where it lives.
    told = await stage.answer(asked.id, sol, "your sub-agent")
    assert "It is well." in told.content
    await stage.settled(asked)
    (last,) = sol.rows("SELECT id FROM turns WHERE source = 'completion'")
    await sol.logged("turn_settled", turn_id=last["id"])
    turns = sol.rows("SELECT source, state FROM turns ORDER BY created_at")
    assert [tuple(row.values()) for row in turns] == [
        ("message", "done"),
        ("spawn", "done"),
        ("completion", "done"),
    ]
    assert _ours(stage, stage.channel) == [starter.content]
    # People can talk to it there, and it remembers.
    await stage.ann.say(starter.id, "[[recall]]")
    memory = await stage.answer(starter.id, sol, "I remember 1 prompt")
    assert "Look at it." in memory.content
    # Under its own name, by a webhook whose message starts nothing.
    (echo,) = [one for one in stage.discord.messages(starter.id) if one.author.name == "helper"]
    assert echo.content.startswith("-# Look at it.")
    assert len(sol.rows("SELECT 1 FROM turns")) == 4
    assert await sol.stop() == 0


async def test_a_kill_between_the_word_and_the_thread_loses_and_doubles_nothing(
    stage: Stage,
) -> None:
    sol = _helping(stage)
    await sol.start()
    gate = stage.gate()
    held = f"[[script={json.dumps([['say', 'Half. '], ['until', str(gate.path)], ['say', 'Whole.']])}]]"
    asked = await stage.ask(sol, _giving(held))
    starter = await _child(stage, sol)
    await stage.live(starter.id, "Half.")
    await sol.kill()
    gate.open()
    await sol.start()
    await stage.answer(starter.id, sol, "Interrupted by a restart")
    await stage.settled(starter)
    await stage.answer(asked.id, sol, "your sub-agent")
    await stage.settled(asked)
    starters = [one for one in _ours(stage, stage.channel) if "🧵" in one]
    assert len(starters) == 1
    assert len(sol.rows("SELECT 1 FROM turns WHERE source = 'completion'")) == 1
    assert [row["state"] for row in sol.rows("SELECT state FROM spawns")] == ["finished"]
    assert await sol.stop() == 0


async def test_with_the_switch_off_nobody_notices_anything_new(stage: Stage) -> None:
    sol = _helping(stage, "false")
    await sol.start()
    asked = await stage.ask(sol, _giving("Look at it."))
    await stage.live(asked.id, "`switched_off`")
    await stage.settled(asked)
    assert not _ours(stage, stage.channel)
    assert not sol.rows("SELECT 1 FROM spawns")
    assert await sol.stop() == 0


async def test_a_person_gives_a_task_by_a_command(stage: Stage) -> None:
    sol = _helping(stage)
    await sol.start()
    await sol.logged("slash_commands_registered")
    pending = await stage.ann.slash(
        stage.channel, "spawn", sol.bot, agent="helper", task=_said("Done so.")
    )
    await pending.answer()
    starter = await _child(stage, sol)
    await stage.answer(starter.id, sol, "Done so.")
    await stage.settled(starter)
    assert _ours(stage, stage.channel) == [starter.content]
    assert [row["source"] for row in sol.rows("SELECT source FROM turns")] == ["spawn"]
    assert await sol.stop() == 0
