"""How much is shown while a turn runs: per installation, per conversation, beside other bots."""

import signal
from pathlib import Path

from openab.simulator.discord import Message
from tests.acceptance.stage import Broker, Stage

_TURN = "[[tool=execute:make all:0.6]] [[say=the text so far ]][[wait=1.5]][[say=and the end]]"


async def _live_texts(stage: Stage, sol: Broker, asked: Message, thread: str) -> list[str]:
    """Everything the turn's live messages showed, once the turn is over."""
    await sol.turn_is(asked, "done", 30)
    await stage.settled(asked)
    every = stage.discord.every_message(thread)
    texts = [text for one in every for text in one.contents]
    return [text for text in texts if text.startswith("-# ")]


def _more(**modes: str) -> str:
    lines = [f'{name} = "{mode}"' for name, mode in modes.items()]
    return "\n".join(["[presentation]", "edit_interval_ms = 250", "heartbeat_seconds = 1", *lines])


async def test_final_shows_nothing_until_the_answer_and_another_mode_needs_no_restart(
    stage: Stage,
) -> None:
    sol = stage.broker(more=_more(mode="final"))
    await sol.start()
    asked = await stage.ask(sol, _TURN)
    assert await _live_texts(stage, sol, asked, asked.id) == []
    _rewrite(sol.config, 'mode = "final"', 'mode = "stream"')
    assert sol.process
    sol.process.send_signal(signal.SIGHUP)
    await sol.logged("config_reloaded")
    again = await stage.ann.say(asked.id, _TURN)
    assert "the text so far" in "".join(await _live_texts(stage, sol, again, asked.id))
    assert await sol.stop() == 0


async def test_beside_another_bot_the_mode_for_that_holds(stage: Stage) -> None:
    sol = stage.broker(more=_more(mode="stream", multibot_mode="heartbeat"))
    await sol.start()
    asked = await stage.ask(sol, _TURN)
    alone = "".join(await _live_texts(stage, sol, asked, asked.id))
    assert "the text so far" in alone
    await stage.discord.add_bot("stranger").say(asked.id, "I am here, too.")
    again = await stage.ann.say(asked.id, _TURN.replace("make all", "make more"))
    beside = "".join(await _live_texts(stage, sol, again, asked.id)).removeprefix(alone)
    assert "make more" in beside
    assert "the text so far" not in beside
    assert await sol.stop() == 0


async def test_one_channel_can_have_a_mode_of_its_own(stage: Stage) -> None:
    own = f'\n[presentation.conversations."{stage.channel}"]\nmode = "heartbeat"\n'
    sol = stage.broker(more=_more(mode="stream") + own)
    await sol.start()
    asked = await stage.ask(sol, _TURN)
    shown = "".join(await _live_texts(stage, sol, asked, asked.id))
    assert "make all" in shown
    assert "the text so far" not in shown
    assert await sol.stop() == 0


def _rewrite(path: Path, was: str, now: str) -> None:
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, now))
