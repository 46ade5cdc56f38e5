"""A long turn in a thread where another bot has spoken: people see that it is alive, to the end."""

import asyncio
from datetime import datetime, timedelta

import pytest

from openab.simulator.discord import Bot, Message
from tests.acceptance import audit
from tests.acceptance.stage import Broker, Stage

#: What a busy machine may add to a promise about time, in seconds.
_SLACK = 4.0
_ROUND = "[[tool=execute:cargo test:{tool}]] [[say=\\nstep {n} is done. ]] [[wait={quiet}]]"


def _script(rounds: int, tool: float, quiet: float) -> str:
    steps = [_ROUND.format(n=n, tool=tool, quiet=quiet) for n in range(rounds)]
    return " ".join(["[[say=I begin. ]]", *steps, "[[say=\\nThat was all.]]"])


async def _invite(stage: Stage, sol: Broker, stranger: Bot) -> Message:
    """A thread in which another bot has spoken after a first, short turn."""
    asked = await stage.ask(sol, "[[say=ready when you are]]", stage.room())
    await stage.answer(asked.id, sol, "ready when you are")
    await stage.settled(asked)
    await stranger.say(asked.id, "I am a bot, too.")
    return asked


async def _watch(
    stage: Stage, sol: Broker, thread: str, steps: str, interval: float, heartbeat: float
) -> None:
    """Ann asks in the thread; everything that is promised about the turn is checked."""
    begun = stage.discord.clock.wall()
    asked = await stage.ann.say(thread, steps)
    first = await stage.live(thread, "")
    assert first.created_at - begun <= timedelta(seconds=2 + _SLACK), "the placeholder came late"
    shown = await stage.live(thread, "I begin.")
    assert _seen(shown, "I begin.") - first.created_at <= timedelta(
        seconds=2 * interval + 2 + _SLACK
    ), "the first text came late"
    answer = await stage.answer(thread, sol, "That was all.", 200)
    await stage.settled(asked)
    moments = [*audit.shown_changes(shown), answer.created_at]
    assert audit.longest_gap(moments) <= heartbeat + interval + _SLACK
    assert stage.discord.journal.busiest(thread, 5.0, sol.bot.id) <= 5
    _check_the_answer(stage, asked, shown, answer)


def _seen(message: Message, holding: str) -> datetime:
    return next(edit.at for edit in message.edits if holding in edit.content)


def _check_the_answer(stage: Stage, asked: Message, shown: Message, answer: Message) -> None:
    rounds = asked.content.count("step ")
    assert answer.content.count(" is done.") == rounds
    assert answer.id != shown.id, "an edit reaches no bot"
    assert shown.deleted
    assert answer.reference, "the final does not answer the message"
    assert answer.reference["message_id"] == asked.id
    assert answer.pings == {stage.ann.id}
    assert stage.placeholders(asked.channel_id) == []
    assert not [one for one in stage.discord.messages(asked.channel_id) if "⏳" in one.content]


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_neither_two_minutes_with_default_settings_nor_ninety_lively_seconds_are_silent(
    stage: Stage,
) -> None:
    """Both only wait, so they do it at the same time."""
    lively = "[presentation]\nheartbeat_seconds = 2\nedit_interval_ms = 500\n"
    sol, luna = stage.broker("sol"), stage.broker("luna", more=lively)
    stranger = stage.discord.add_bot("stranger")
    await asyncio.gather(sol.start(), luna.start())
    begun = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        group.create_task(
            _play(stage, sol, stranger, _script(3, 15.0, 25.0), interval=1.5, heartbeat=20.0)
        )
        group.create_task(
            _play(stage, luna, stranger, _script(5, 9.0, 9.0), interval=0.5, heartbeat=2.0)
        )
    assert asyncio.get_running_loop().time() - begun >= 120
    assert set(await asyncio.gather(sol.stop(), luna.stop())) == {0}


async def _play(
    stage: Stage, broker: Broker, stranger: Bot, steps: str, *, interval: float, heartbeat: float
) -> None:
    asked = await _invite(stage, broker, stranger)
    await _watch(stage, broker, asked.id, steps, interval, heartbeat)
