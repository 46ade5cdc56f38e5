"""Menus on the wire: shown, turned and picked from in place, in time even if the answer is slow."""

import asyncio
from dataclasses import replace

import pytest

from openab.channels.discord.interactions import FAILED_WORDS
from openab.channels.discord.slash import register_commands
from openab.domain.ids import PlatformId
from openab.domain.message import CommandKind, InboundCommand
from openab.domain.options import Choice, Option
from openab.domain.outbound import CommandAnswer, MessageBody
from openab.ports.channel import ChannelRejected
from openab.simulator.discord import Bot, LoopbackDiscord, Message, Person
from openab.text.menus import menu
from tests.fakes.discord_stage import Listener, listening

_NASTY = ["", "\ud83d", "😀" * 90, "<@900>", "x" * 200, "a\nb"]
MODELS = Option(
    "model",
    "Model",
    "model",
    tuple(Choice(f"m{n}{_NASTY[n % 6]}", _NASTY[n % 6], "d" * 140) for n in range(1, 61)),
    "m7<@900>",
)


async def paged(command: InboundCommand) -> CommandAnswer:
    page = int(command.argument.rpartition(":")[2] or 0) if command.argument else 0
    return CommandAnswer(f"page {page}", menu=menu(MODELS, page))


async def shown(listener: Listener, bot: Bot, person: Person, home: str) -> Message:
    """The menu of `/models`."""

    async def nothing() -> None:
        return None

    async def kept(_digest: str) -> None:
        return None

    await register_commands(
        listener.client.rest, PlatformId(bot.id), known_digest=nothing, store_digest=kept
    )
    listener.answer = paged
    pending = await person.slash(home, "models", bot)
    assert (await pending.answer()).type == 4
    assert pending.original is not None
    return pending.original


def values(message: Message) -> list[str]:
    return [one["value"] for one in message.components[0]["components"][0]["options"]]


async def test_every_page_of_the_worst_names_is_accepted_and_turned_in_place() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general").id
        async with listening(discord, bot) as listener:
            message = await shown(listener, bot, person, home)
            seen = values(message)
            for page in (1, 2):
                turned = await person.click(message, f"openab:page:model:{page}")
                assert (await turned.answer()).type == 7
                assert message.content == f"page {page}"
                seen += values(message)
            assert len(set(seen)) == len(seen) == 60
            assert not discord.messages(home)


async def test_a_pick_brings_its_value_back() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general").id
        async with listening(discord, bot) as listener:
            message = await shown(listener, bot, person, home)
            value = values(message)[3]
            await (await person.choose(message, "openab:config:model", [value])).answer()
            pick = listener.commands[-1]
            assert (pick.kind, pick.argument) == (CommandKind.CHOOSE, "model")
            assert pick.values == (value,)
            with pytest.raises(LookupError):
                await person.choose(message, "openab:config:model", ["not offered"])


async def test_a_slow_pick_is_deferred_and_then_changes_the_menu() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general").id
        decided = asyncio.Event()

        async def slowly(_command: InboundCommand) -> CommandAnswer:
            await decided.wait()
            return CommandAnswer("chosen at last", menu=menu(replace(MODELS, current=None)))

        async with listening(discord, bot) as listener:
            message = await shown(listener, bot, person, home)
            listener.answer = slowly
            pending = await person.choose(message, "openab:config:model", [values(message)[0]])
            assert (await pending.answer()).type == 6
            decided.set()
            await discord.wait_until(lambda: message.content == "chosen at last")
            bodies = [one.fields for one in discord.journal.requests if "content" in one.fields]
            assert all(one["allowed_mentions"]["parse"] == [] for one in bodies)


async def test_a_pick_that_fails_says_so_where_the_menu_was() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general").id

        async def broken(_command: InboundCommand) -> CommandAnswer:
            raise ZeroDivisionError

        async with listening(discord, bot) as listener:
            message = await shown(listener, bot, person, home)
            listener.answer = broken
            await (await person.click(message, "openab:page:model:1")).answer()
            assert (message.content, message.components) == (FAILED_WORDS, [])


async def test_the_loopback_refuses_a_menu_that_discord_would_refuse() -> None:
    """The control of the first test: 26 options are too many."""
    async with LoopbackDiscord() as discord:
        bot, home = discord.add_bot("sol"), discord.add_channel("general")
        options = [{"label": str(n), "value": str(n)} for n in range(26)]
        select = {"type": 3, "custom_id": "x", "options": options}
        rows = [{"type": 1, "components": [select]}]
        async with listening(discord, bot) as listener:
            from_us = listener.client.channel
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("openab.channels.discord.bodies._rows", lambda _buttons: rows)
                with pytest.raises(ChannelRejected):
                    await from_us.create_message(PlatformId(home.id), MessageBody("x"), "n1", 5.0)
