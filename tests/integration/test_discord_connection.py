"""The gateway connection: what ends it is seen, told, and survived."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from discord.gateway import KeepAliveHandler

from openab.channels.discord.rest import TokenRefused
from openab.domain.message import InboundMessage
from openab.simulator.discord import Bot, LoopbackDiscord
from tests.fakes.discord_stage import QUICK, Listener, listening, until


async def expect_hearing(discord: LoopbackDiscord, listener: Listener, text: str) -> None:
    """The client hears what is said now."""
    person = discord.add_person(f"ann {text}")
    home = discord.add_channel("general")
    await person.say(home.id, text)
    assert (await listener.next_message()).text == text


def steps(discord: LoopbackDiscord, step: str) -> int:
    return sum(one.step == step for one in discord.journal.connections)


async def test_it_connects_and_hears() -> None:
    async with LoopbackDiscord() as discord, listening(discord, discord.add_bot("sol")) as listener:
        await expect_hearing(discord, listener, "hello")
        health = listener.health

    assert health.ready
    assert health.reason == "connected"
    assert health.heartbeat_interval == 41.25
    assert health.last_frame_age is not None
    assert health.last_frame_age < 60
    assert (health.identifies, listener.connections) == (1, 1)


@pytest.mark.parametrize("status", [503, 0])
async def test_a_refused_first_connection_is_survived(status: int) -> None:
    async with LoopbackDiscord() as discord:
        discord.faults.refuse_connections(1, status)
        async with listening(discord, discord.add_bot("sol")) as listener:
            await expect_hearing(discord, listener, "hello")

        assert steps(discord, "connection_refused") == 1


async def test_an_unreadable_message_is_counted_and_the_next_one_heard() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        async with listening(discord, bot) as listener:
            discord.gateway.poison(bot.id)
            discord.gateway.poison(bot.id, "GUILD_CREATE", {"channels": [{"name": "no id"}]})
            discord.gateway.poison(bot.id, "INTERACTION_CREATE", {"id": "x"})
            discord.gateway.poison(bot.id, "GUILD_MEMBER_UPDATE", {"roles": 7})
            await until(lambda: listener.health.lost_events == 3)
            await expect_hearing(discord, listener, "hello")

            assert listener.health.ready
            assert listener.health.identifies == 1


async def test_a_frame_that_kills_the_library_rebuilds_the_connection() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        async with listening(discord, bot) as listener:
            discord.gateway.poison(bot.id, "READY", {})
            await until(lambda: not listener.health.ready)
            assert listener.health.reason != "connected"
            await until(lambda: listener.connections == 2)
            await expect_hearing(discord, listener, "hello")

            assert listener.health.ready


async def test_a_refused_intent_is_told_and_waited_for() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol", message_content=False)
        listener = Listener(discord, bot)
        try:
            await listener.start()
            await until(lambda: "Message Content Intent" in listener.health.reason)
            await until(lambda: _asks_of_the_application(discord) >= 6)
            refused = steps(discord, "identify_refused")
            assert not listener.health.ready
            assert bot.user.application is not None
            bot.user.application.message_content = True
            await listener.ready()
            await expect_hearing(discord, listener, "hello")
        finally:
            await listener.stop()

        # The portal is asked instead of the gateway: an IDENTIFY is dear.
        assert refused == 1


def _asks_of_the_application(discord: LoopbackDiscord) -> int:
    return sum(one.path == "/oauth2/applications/@me" for one in discord.journal.requests)


async def test_a_refused_token_ends_it() -> None:
    async with LoopbackDiscord() as discord:
        discord.faults.close_on_identify(4004)
        async with failing(discord, discord.add_bot("sol")) as listener:
            assert isinstance(await listener.ended(), TokenRefused)

            assert "token" in listener.health.reason


async def test_a_token_that_is_taken_back_ends_it() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        async with failing(discord, bot) as listener:
            await listener.ready()
            assert bot.user.application is not None
            bot.user.application.token = "another.token"
            discord.gateway.poison(bot.id, "READY", {})

            assert isinstance(await listener.ended(), TokenRefused)


@pytest.mark.parametrize("code", [1000, 4000, 4009])
async def test_an_ordinary_close_is_resumed(code: int) -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        async with listening(discord, bot) as listener:
            discord.gateway.close(bot.id, code)
            await until(lambda: steps(discord, "resume") == 1)
            await listener.ready()
            await expect_hearing(discord, listener, "hello")

            assert listener.health.identifies == 1


async def test_op7_is_resumed_and_what_was_missed_is_heard() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with listening(discord, bot) as listener:
            discord.gateway.reconnect(bot.id)
            await person.say(home.id, "in between")

            assert (await listener.next_message()).text == "in between"
            assert steps(discord, "resume") == 1


async def test_op9_true_is_resumed() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        async with listening(discord, bot) as listener:
            discord.gateway.invalidate(bot.id, resumable=True)
            await until(lambda: steps(discord, "resume") == 1)
            await expect_hearing(discord, listener, "hello")

            assert listener.connections == 1


async def test_op9_false_identifies_again_and_says_that_events_were_missed() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        async with listening(discord, bot) as listener:
            discord.gateway.invalidate(bot.id, resumable=False)
            await until(lambda: listener.connections == 2)
            await expect_hearing(discord, listener, "hello")

            assert listener.health.identifies == 2


async def test_a_silent_gateway_is_noticed_and_rebuilt() -> None:
    async with LoopbackDiscord() as discord:
        discord.gateway.heartbeat_seconds = 0.2
        bot = discord.add_bot("sol")
        async with listening(discord, bot) as listener:
            discord.gateway.silence(bot.id)
            await until(lambda: listener.connections == 2)
            await expect_hearing(discord, listener, "hello")


async def test_a_lively_gateway_is_left_alone() -> None:
    frames: set[float] = set()
    async with LoopbackDiscord() as discord:
        discord.gateway.heartbeat_seconds = 0.2
        async with listening(discord, discord.add_bot("sol")) as listener:
            await until(lambda: _frames_came(listener, frames) >= 8)

            assert listener.health.ready
            assert listener.health.identifies == 1


def _frames_came(listener: Listener, frames: set[float]) -> int:
    age = listener.health.last_frame_age
    if age is not None:
        frames.add(round(time.monotonic() - age, 1))
    return len(frames)


async def test_a_gateway_that_is_gone_is_found_again() -> None:
    async with LoopbackDiscord() as discord:
        discord.gateway.heartbeat_seconds = 0.2
        bot = discord.add_bot("sol")
        async with listening(discord, bot) as listener:
            discord.faults.refuse_connections(3)
            discord.gateway.cut(bot.id)
            await until(lambda: not listener.health.ready)
            await listener.ready()
            await expect_hearing(discord, listener, "hello")


async def test_stopping_says_goodbye() -> None:
    async with LoopbackDiscord() as discord:
        bot: Bot = discord.add_bot("sol")
        async with listening(discord, bot) as listener:
            pass

        assert not discord.gateway.of_bot(bot.id)
        assert not listener.health.ready


async def test_stopping_does_not_wait_out_a_pause() -> None:
    async with LoopbackDiscord() as discord:
        listener = Listener(discord, discord.add_bot("sol"))
        discord.faults.refuse_connections(1000)
        await listener.start()
        await until(lambda: steps(discord, "connection_refused") >= 1)
        await asyncio.wait_for(listener.stop(), 60)

        assert not listener.health.ready


async def test_a_sink_that_breaks_is_no_silent_deafness() -> None:
    def broken(_message: InboundMessage) -> None:
        raise ZeroDivisionError

    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with failing(discord, bot, broken) as listener:
            await listener.ready()
            await person.say(home.id, "hello")

            assert isinstance(await listener.ended(), ZeroDivisionError)


@asynccontextmanager
async def failing(
    discord: LoopbackDiscord, bot: Bot, sink: Callable[[InboundMessage], None] | None = None
) -> AsyncIterator[Listener]:
    """A listener whose `run` is expected to raise."""
    listener = Listener(discord, bot, sink=sink)
    try:
        await listener.start()
        yield listener
    finally:
        await listener.stop(raises=False)


async def test_a_connection_given_up_halfway_leaves_no_heart_beating() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        halfway = replace(QUICK, identify_seconds=60)
        async with listening(discord, bot, halfway) as listener:
            discord.gateway.invalidate(bot.id, resumable=False)
            await until(lambda: listener.health.identifies == 2)
            # The second connection has said HELLO and waits to identify.
            assert _hearts() == 1
        await until(lambda: not _hearts())

        assert steps(discord, "identify") == 1


def _hearts() -> int:
    return sum(isinstance(thread, KeepAliveHandler) for thread in threading.enumerate())
