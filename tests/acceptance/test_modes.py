"""How much is shown while a turn runs: per installation, per conversation, beside other bots."""

import signal
from pathlib import Path

from openab.simulator.discord import Message
from tests.acceptance.stage import Broker, Stage

_TOOL_AND_TEXT = "[[tool=execute:{title}:0]] [[say=the text so far ]]"
_END = "[[say=and the end]]"


async def _live_texts(stage: Stage, sol: Broker, asked: Message, thread: str) -> str:
    """Everything the turn's live messages showed, once the turn is over."""
    await sol.turn_is(asked, "done")
    await stage.settled(asked)
    every = stage.discord.every_message(thread)
    texts = [text for one in every for text in one.contents]
    return "".join(text for text in texts if text.startswith("-# "))


async def _played(
    stage: Stage, sol: Broker, channel: str, sign: str, title: str = "make all"
) -> str:
    """A turn that goes on only when its live message showed the sign and then changed twice."""
    gate = stage.gate()
    asked = await stage.ask(sol, _TOOL_AND_TEXT.format(title=title) + gate.step + _END, channel)
    thread = asked.id if channel == stage.channel else channel
    shown = await stage.live(thread, sign)
    seen = len(shown.edits)
    await stage.discord.wait_until(lambda: len(shown.edits) >= seen + 2)
    gate.open()
    return await _live_texts(stage, sol, asked, thread)


def _more(**modes: str) -> str:
    lines = [f'{name} = "{mode}"' for name, mode in modes.items()]
    return "\n".join(["[presentation]", "edit_interval_ms = 250", "heartbeat_seconds = 1", *lines])


async def test_final_shows_nothing_until_the_answer_and_another_mode_needs_no_restart(
    stage: Stage,
) -> None:
    sol = stage.broker(more=_more(mode="final"))
    await sol.start()
    # That nothing is shown has no sign: the agent takes a while, and on any machine nothing comes.
    asked = await stage.ask(sol, f"{_TOOL_AND_TEXT.format(title='make all')}[[wait=1.5]]{_END}")
    assert await _live_texts(stage, sol, asked, asked.id) == ""
    _rewrite(sol.config, 'mode = "final"', 'mode = "stream"')
    assert sol.process
    sol.process.send_signal(signal.SIGHUP)
    await sol.logged("config_reloaded")
    assert "make all" in await _played(stage, sol, asked.id, "the text so far")
    assert await sol.stop() == 0


async def test_beside_another_bot_the_mode_for_that_holds(stage: Stage) -> None:
    sol = stage.broker(more=_more(mode="stream", multibot_mode="heartbeat"))
    await sol.start()
    asked = await stage.ask(sol, _END)
    await stage.settled(asked)
    alone = await _played(stage, sol, asked.id, "the text so far")
    await stage.discord.add_bot("stranger").say(asked.id, "I am here, too.")
    beside = await _played(stage, sol, asked.id, "make more", "make more")
    assert "the text so far" not in beside.removeprefix(alone)
    assert await sol.stop() == 0


async def test_one_channel_can_have_a_mode_of_its_own(stage: Stage) -> None:
    own = f'\n[presentation.conversations."{stage.channel}"]\nmode = "heartbeat"\n'
    sol = stage.broker(more=_more(mode="stream") + own)
    await sol.start()
    assert "the text so far" not in await _played(stage, sol, stage.channel, "make all")
    assert await sol.stop() == 0


def _rewrite(path: Path, was: str, now: str) -> None:
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, now))
