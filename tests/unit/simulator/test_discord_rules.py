"""Ids, windows, signals and the answers of rules in the loopback Discord, without sockets."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.simulator.discord import LoopbackDiscord
from openab.simulator.discord.clock import Clock, Snowflakes, snowflake_time
from openab.simulator.discord.errors import Refused, invalid_form
from openab.simulator.discord.limits import Limits, Rule, TooMany
from openab.simulator.discord.posting import trimmed
from openab.simulator.discord.signals import Signal


def test_snowflakes_grow_and_carry_their_time() -> None:
    clock = Clock()
    snowflakes = Snowflakes(clock)
    ids = [int(snowflakes.next()) for _ in range(1000)]
    assert ids == sorted(set(ids))
    clock.advance(3600)
    later = snowflakes.next()
    assert (snowflake_time(later) - snowflake_time(str(ids[0]))).total_seconds() >= 3599


@given(st.lists(st.floats(0, 3), max_size=60))
def test_no_window_lets_more_through_than_its_rule(pauses: list[float]) -> None:
    clock = Clock()
    limits = Limits(clock)
    limits.global_per_second = 1000
    limits.rules = {"create_message": Rule("writes", 5, 5.0)}
    passed: list[float] = []
    for pause in pauses:
        clock.advance(pause)
        if not isinstance(limits.take("1", "create_message", "2"), TooMany):
            passed.append(clock.monotonic())
    # Fixed windows: a window's end and the next one's start may touch, three never do.
    for first in range(len(passed) - 10):
        assert passed[first + 10] - passed[first] >= 5.0


def test_channels_and_bots_have_windows_of_their_own() -> None:
    limits = Limits(Clock())
    for _ in range(5):
        assert not isinstance(limits.take("1", "create_message", "2"), TooMany)
    assert isinstance(limits.take("1", "edit_message", "2"), TooMany)
    assert not isinstance(limits.take("1", "create_message", "3"), TooMany)
    assert not isinstance(limits.take("9", "create_message", "2"), TooMany)


@given(st.text(max_size=2200))
def test_content_is_trimmed_or_refused_never_cut(text: str) -> None:
    if len(text) > 2000:
        with pytest.raises(Refused):
            trimmed(text)
    else:
        assert trimmed(text) == text.strip()


def test_a_form_error_points_at_its_field() -> None:
    body = invalid_form("a.b", "CODE", "text").body
    assert body["errors"]["a"]["b"]["_errors"] == [{"code": "CODE", "message": "text"}]
    assert body["code"] == 50035


async def test_a_signal_wakes_every_waiter_and_shows_what_was_there_instead() -> None:
    signal, state = Signal(), {"value": 0}

    async def wait(wanted: int) -> bool:
        return bool(await signal.until(lambda: state["value"] >= wanted, within=5))

    async with asyncio.TaskGroup() as group:
        waiters = [group.create_task(wait(number)) for number in (1, 2)]
        for value in (1, 2):
            state["value"] = value
            signal.notify()
            await waiters[value - 1]
    with pytest.raises(TimeoutError, match="instead: value 2"):
        await signal.until(
            lambda: state["value"] > 2, within=0, picture=lambda: f"value {state['value']}"
        )


async def test_people_cannot_click_what_is_not_there() -> None:
    discord = LoopbackDiscord()
    channel, bot = discord.add_channel("general"), discord.add_bot("Sol")
    person = discord.add_person("alice")
    row = {"type": 1, "components": [{"type": 2, "style": 4, "label": "Stop", "custom_id": "s"}]}
    message = await bot.say(channel.id, "working", components=[row])
    assert (await person.click(message, "s")).callback is None
    with pytest.raises(LookupError, match="shows: s"):
        await person.click(message, "other")
    await bot.delete(message)
    with pytest.raises(LookupError):
        await person.click(message, "s")


async def test_twenty_reactions_are_the_most_and_a_word_is_no_emoji() -> None:
    discord = LoopbackDiscord()
    channel, person = discord.add_channel("general"), discord.add_person("alice")
    message = await person.say(channel.id, "x")
    for number in range(20):
        await person.react(message, chr(0x1F600 + number))
    with pytest.raises(Refused) as full:
        await person.react(message, "🦀")
    with pytest.raises(Refused) as word:
        await person.react(message, "smile")
    assert (full.value.code, word.value.code) == (30010, 10014)


def test_a_misspelt_permission_is_told() -> None:
    discord = LoopbackDiscord()
    channel, bot = discord.add_channel("general"), discord.add_bot("Sol")
    with pytest.raises(ValueError, match="send_mesages"):
        discord.deny(bot.id, channel.id, "send_mesages")


async def test_other_guilds_and_roles_are_their_own() -> None:
    discord = LoopbackDiscord()
    bot = discord.add_bot("Sol")
    elsewhere = discord.add_guild("Elsewhere")
    channel = discord.add_channel("there", guild=elsewhere)
    stranger = discord.add_bot("Luna")
    assert discord.world.sees(bot.id, channel)
    assert not discord.world.sees(stranger.id, channel)
    assert discord.role_mention(bot) != discord.role_mention(bot, elsewhere)
