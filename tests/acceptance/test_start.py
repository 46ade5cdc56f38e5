"""What a start says when something is wrong, and what is survived while it runs."""

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from openab.simulator.discord import refuse, server_error
from tests.acceptance.stage import PATIENCE, Broker, Stage

#: Events that no library expects: each must harm nothing.
_POISON: list[tuple[str, dict[str, Any]]] = [
    ("MESSAGE_CREATE", {"id": "no number", "author": None}),
    ("MESSAGE_CREATE", {}),
    ("INTERACTION_CREATE", {"id": "x"}),
    ("SOMETHING_NEW", {"a": 1}),
]


async def _checks(broker: Broker) -> tuple[int, dict[str, Any]]:
    status, page = await broker.page("/readyz")
    return status, json.loads(page)


async def _until_ready(broker: Broker, *, ready: bool, seconds: float = PATIENCE) -> dict[str, Any]:
    async with asyncio.timeout(seconds):
        while True:
            status, checks = await _checks(broker)
            if (status == 200) is ready:
                return checks
            # A page of another process: there is no signal to wait for.
            await asyncio.sleep(0.1)


async def _said(broker: Broker, *words: str) -> tuple[int, str]:
    """Run one command to its end: its exit code and everything it printed."""
    process = await asyncio.create_subprocess_exec(
        *broker.argv,
        *words,
        env=dict(broker.environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_an_unusable_configuration_exits_2_with_every_mistake(stage: Stage) -> None:
    sol = stage.broker()
    sol.config.write_text(
        '[discord]\nbot_token = "${NOT_SET_ANYWHERE}"\nallowed_chanels = ["1"]\n'
        "allowed_users = [1.5]\n"
        '[agent]\ncommand = 7\n[presentation]\nmode = "loud"\nedit_interval_ms = "soon"\n'
    )
    code, said = await _said(sol, "run", "-c", str(sol.config))
    assert code == 2
    for wrong in ("NOT_SET_ANYWHERE", "allowed_chanels", "command", "mode", "edit_interval_ms"):
        assert wrong in said
    assert "Traceback" not in said


async def test_a_token_that_discord_refuses_exits_2_and_says_so(stage: Stage) -> None:
    sol = stage.broker()
    sol.config.write_text(sol.config.read_text().replace(sol.bot.token, "not-the-token"))
    code, said = await _said(sol, "run", "-c", str(sol.config))
    assert code == 2
    assert "token" in said
    assert "not-the-token" not in said


async def test_a_missing_file_says_how_to_make_one(stage: Stage) -> None:
    code, said = await _said(stage.broker(), "run", "-c", "nowhere.toml")
    assert code == 2
    assert "openab setup" in said


@pytest.mark.parametrize(
    ("command", "args", "kind", "told"),
    [
        ("no-such-agent-anywhere", (), "not_found", "could not be started"),
        ("/bin/echo", (), "not_acp", "does not speak ACP"),
        (None, ("--mode", "not-acp"), "not_acp", "does not speak ACP"),
    ],
    ids=["missing", "echo", "greets and ends"],
)
async def test_an_agent_that_is_none_is_named_at_the_start_and_in_the_thread(
    stage: Stage, command: str | None, args: tuple[str, ...], kind: str, told: str
) -> None:
    sol = stage.broker(agent_command=command, agent_args=args)
    await sol.start()
    failed = await sol.logged("agent_failed", kind=kind)
    assert command is None or command in failed["told"]
    status, checks = await _checks(sol)
    assert status == 503
    assert kind in json.dumps(checks)
    asked = await stage.ask(sol, "hello?")
    answer = await stage.answer(asked.id, sol, told)
    assert command is None or command in answer.content
    await stage.settled(asked, "😱")
    assert stage.placeholders(asked.id) == []
    assert await sol.stop() == 0


async def test_whatever_is_wrong_with_the_connection_is_survived(stage: Stage) -> None:
    stage.discord.faults.refuse_connections(1)
    stage.discord.faults.add(server_error(503), route="me")
    sol = stage.broker()
    await sol.start(connected=False)
    await stage.discord.wait_connected(sol.bot)
    await _until_ready(sol, ready=True)
    stage.discord.gateway.poison(sol.bot.id)
    for name, data in _POISON:
        stage.discord.gateway.poison(sol.bot.id, name, data)
    asked = await stage.ask(sol, "[[say=I hear you]]")
    await stage.answer(asked.id, sol, "I hear you")
    await stage.settled(asked)
    assert await sol.stop() == 0


async def test_an_intent_that_is_switched_off_is_named_and_recovered_from(stage: Stage) -> None:
    bot = stage.discord.add_bot("sol", message_content=False)
    sol = stage.broker(bot=bot)
    await sol.start(connected=False)
    checks = await _named(sol, "Message Content Intent")
    assert not checks["checks"]["discord"]["ok"]
    assert await sol.stop() == 0


async def _named(broker: Broker, word: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        await broker.logged("http_listening")
        while True:
            _, checks = await _checks(broker)
            if word in json.dumps(checks):
                return checks
            # A page of another process: there is no signal to wait for.
            await asyncio.sleep(0.1)


@pytest.mark.timeout(180)
async def test_a_database_that_is_away_for_a_while_costs_time_and_nothing_else(
    stage: Stage,
) -> None:
    sol = stage.broker()
    await sol.start()
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=one ]]{gate.step}[[say=two]]")
    await stage.live(asked.id, "one")
    with closing(sqlite3.connect(sol.home / "openab.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        gate.open()
        second = await stage.ann.say(asked.id, "[[say=three]]")
        await sol.logged("intake_waits_for_database")
        checks = await _until_ready(sol, ready=False)
        assert not checks["checks"]["database"]["ok"]
        other.execute("ROLLBACK")
    await stage.answer(asked.id, sol, "two")
    await stage.answer(asked.id, sol, "three")
    await sol.turn_is(second, "done")
    await stage.bare(asked.id)
    await _until_ready(sol, ready=True)
    assert await sol.stop() == 0


async def test_slash_commands_that_cannot_be_registered_stop_nobody(stage: Stage) -> None:
    stage.discord.faults.add(refuse(50001), route="put_commands", times=-1)
    sol = stage.broker()
    await sol.start()
    asked = await stage.ask(sol, "[[say=here]]")
    await stage.answer(asked.id, sol, "here")
    assert await sol.stop() == 0
