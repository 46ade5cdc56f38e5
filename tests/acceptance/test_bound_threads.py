"""A sub-agent's thread on Discord: its task under its own name, and what the archive does to it."""

import asyncio
import json
import sys

from openab.simulator.discord import Message, hang
from tests.acceptance.stage import PATIENCE, Broker, Stage


def _helping(stage: Stage) -> Broker:
    """A broker with a further agent, and sub-agents switched on."""
    args = ["-m", "openab.simulator.agent", "--state-dir", str(stage.folder / "helper")]
    return stage.broker(
        more=(
            "[discord.thread_bindings]\nspawn_subagent_sessions = true\n"
            f"[agents.helper]\ncommand = {json.dumps(sys.executable)}\n"
            f"args = {json.dumps(args)}\nworking_dir = {json.dumps(str(stage.folder))}\n"
        )
    )


async def _given(stage: Stage, broker: Broker, task: str) -> Message:
    """Ann gives the helper a task; the message that its thread hangs on."""
    await broker.logged("slash_commands_registered")
    await stage.ann.slash(stage.channel, "spawn", broker.bot, agent="helper", task=task)

    def fits(message: Message) -> bool:
        return message.author.id == broker.bot.id and "🧵" in message.content

    return await stage.discord.wait_message(stage.channel, fits, PATIENCE)


def _by_webhook(message: Message) -> bool:
    return message.webhook_id is not None


async def _status(broker: Broker, state: str, reason: str | None) -> None:
    """Wait until the one binding is so."""
    async with asyncio.timeout(PATIENCE):
        while True:
            rows = broker.rows("SELECT state, end_reason FROM bindings")
            if [(row["state"], row["end_reason"]) for row in rows] == [(state, reason)]:
                return
            # A row of another process: there is no signal to wait for.
            await asyncio.sleep(0.05)


async def test_the_task_is_shown_once_though_its_echo_comes_before_a_lost_answer(
    stage: Stage,
) -> None:
    sol = _helping(stage)
    stage.discord.grant(sol.bot.id, stage.channel, "manage_webhooks")
    lost = stage.discord.faults.add(hang(60), route="execute_webhook")
    await sol.start()
    starter = await _given(stage, sol, "[[say=Done so.]]")
    await lost.wait_hits()
    shown = await stage.discord.wait_message(starter.id, _by_webhook)
    assert (shown.author.name, shown.pings) == ("helper", frozenset())
    await stage.answer(starter.id, sol, "Done so.")
    await sol.logged("delivery_tried", purpose="task", result="unknown")
    await stage.settled(starter)
    await sol.has("SELECT 1 FROM deliveries WHERE purpose = 'task' AND state = 'sent'")
    rows = sol.rows("SELECT tries FROM deliveries WHERE purpose = 'task'")
    assert [row["tries"] for row in rows] == [1]
    assert len([one for one in stage.discord.messages(starter.id) if _by_webhook(one)]) == 1
    assert len(sol.rows("SELECT 1 FROM turns")) == 1
    (hook,) = stage.discord.webhooks(stage.channel)
    assert hook.token not in sol.log_file.read_text()
    assert hook.token not in (sol.home / "openab.db").read_bytes().decode("latin-1")
    assert await sol.stop() == 0


async def test_without_the_right_to_webhooks_the_bot_shows_the_task_itself(stage: Stage) -> None:
    sol = _helping(stage)
    await sol.start()
    starter = await _given(stage, sol, "[[say=Done so.]]")
    await stage.answer(starter.id, sol, "Done so.")
    await sol.logged("persona_unavailable", persona="helper")
    shown = [one.content for one in stage.discord.messages(starter.id)]
    assert [text for text in shown if "[[say=Done so.]]" in text] == ["-# [[say=Done so.]]"]
    assert await sol.stop() == 0


async def test_an_archived_thread_comes_back_with_its_session(stage: Stage) -> None:
    sol = _helping(stage)
    await sol.start()
    starter = await _given(stage, sol, "[[say=Done so.]]")
    await stage.answer(starter.id, sol, "Done so.")
    await stage.settled(starter)
    before = len(stage.discord.messages(starter.id))
    await stage.ann.archive(starter.id)
    await _status(sol, "ended", "archived")
    thread = stage.discord.world.channel(starter.id).thread
    assert thread is not None
    assert thread.archived, "somebody has taken it out of the archive again"
    assert len(stage.discord.messages(starter.id)) == before
    # Said in the archived thread: it opens, and whoever answers remembers.
    await stage.ann.say(starter.id, "[[recall]]")
    memory = await stage.answer(starter.id, sol, "I remember 1 prompt")
    assert "Done so." in memory.content
    await _status(sol, "active", None)
    assert await sol.stop() == 0


async def test_what_became_of_a_thread_meanwhile_is_asked_at_the_next_start(stage: Stage) -> None:
    sol = _helping(stage)
    await sol.start()
    starter = await _given(stage, sol, "[[say=Done so.]]")
    await stage.answer(starter.id, sol, "Done so.")
    await stage.settled(starter)
    assert await sol.stop() == 0
    stage.discord.deny(sol.bot.id, stage.channel, "view_channel")
    await sol.start()
    await sol.logged("places_reconciled", places=1)
    await _status(sol, "active", None)
    assert await sol.stop() == 0
    stage.discord.grant(sol.bot.id, stage.channel, "view_channel")
    stage.discord.delete_channel(starter.id)
    await sol.start()
    await _status(sol, "ended", "conversation_gone")
    assert await sol.stop() == 0
