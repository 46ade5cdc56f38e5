"""Focus, session and unfocus as people use them, and commands that follow a changed configuration."""

import json
from typing import Any

import pytest

from openab.simulator.discord import Message, Person
from tests.acceptance.stage import Broker, Stage


async def used(stage: Stage, sol: Broker, where: str, command: str, **options: str) -> str:
    """What only the person who uses a command is told."""
    return await _told(stage.ann, where, command, sol, **options)


async def _told(who: Person, where: str, command: str, sol: Broker, **options: str) -> str:
    pending = await who.slash(where, command, sol.bot, **options)
    await pending.answer()
    assert pending.original is not None
    assert pending.original.ephemeral_for == who.id
    return pending.original.content


async def thread(stage: Stage, sol: Broker, says: str) -> Message:
    asked = await stage.ask(sol, f"I say {says} [[say={says}]]")
    await stage.answer(asked.id, sol, says)
    await stage.settled(asked)
    return asked


async def test_a_thread_talks_to_another_session_until_it_is_unfocused(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    await sol.logged("slash_commands_registered")
    first, second = await thread(stage, sol, "apples"), await thread(stage, sol, "pears")

    link = f"https://discord.com/channels/1/{first.id}"
    assert f"<#{first.id}>" in await used(stage, sol, second.id, "focus", session=link)
    await stage.live(second.id, "What is said here goes to the session")
    await stage.ann.say(second.id, "[[recall]]")
    told = await stage.answer(second.id, sol, "I remember 1 prompt")
    assert "apples" in told.content
    assert "pears" not in told.content

    stranger = await _told(stage.person(), second.id, "unfocus", sol)
    assert "Only who bound this conversation" in stranger
    shown = await used(stage, sol, second.id, "session", idle="90m")
    assert "Silence: `1h30m`, age: off" in shown
    assert "nothing bound" not in await used(stage, sol, second.id, "session")
    await used(stage, sol, second.id, "unfocus")
    await stage.live(second.id, "does not talk to the session")
    await stage.ann.say(second.id, "[[recall]]")
    own = await stage.answer(second.id, sol, "pears")
    assert "apples" not in own.content
    assert await sol.stop() == 0


async def test_the_commands_follow_a_changed_configuration(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    await sol.logged("slash_commands_registered")
    with pytest.raises(LookupError, match="no command /spawn"):
        await stage.ann.slash(stage.channel, "spawn", sol.bot, agent="luna", task="x")
    assert await sol.stop() == 0

    written = sol.config.read_text()
    bindings = "[discord.thread_bindings]\nspawn_subagent_sessions = true\nmax_subagents = 2\n"
    agent = f"[agents.luna]\ncommand = {json.dumps('there-is-no-such-agent')}\n"
    sol.config.write_text(written + bindings + agent)
    await sol.start()
    await stage.discord.wait_until(lambda: "spawn" in offered(sol))
    (choice,) = offered(sol)["spawn"]["options"][0]["choices"]
    assert choice["value"] == "luna"
    assert await sol.stop() == 0

    sol.config.write_text(written + "[discord.thread_bindings]\nenabled = false\n")
    await sol.start()
    await stage.discord.wait_until(lambda: "focus" not in offered(sol))
    assert not {"spawn", "focus", "unfocus", "session"} & offered(sol).keys()
    assert await sol.stop() == 0


def offered(sol: Broker) -> dict[str, dict[str, Any]]:
    """The commands that people see, by name."""
    application = sol.bot.user.application
    assert application is not None
    return {one["name"]: one for one in application.commands.get("", [])}
