"""What the adapter tells of places and of what was said in them while nobody listened."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from openab.channels.discord import client as client_module
from openab.channels.discord import events as events_module
from openab.channels.discord import history as history_module
from openab.channels.discord.history import DiscordHistory
from openab.channels.discord.inbound import DISCORD
from openab.channels.discord.threads import fetch_channel
from openab.domain.ids import AccountId, ConversationRef, PlatformId
from openab.domain.message import AuthorKind, InboundMessage, Place
from openab.ports.channel import ChannelRejected, ChannelUnreachable
from openab.ports.history import Room
from openab.simulator.discord import Bot, LoopbackDiscord, server_error
from openab.simulator.discord.records import Channel
from tests.fakes.discord_stage import listening, until

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 10.0
NOTHING = PlatformId("0")


async def the_rooms(history: DiscordHistory) -> dict[str, Room]:
    return {room.ref.conversation_id: room async for rooms in history.rooms() for room in rooms}


def a_room(bot: Bot, channel: Channel) -> Room:
    ref = ConversationRef(DISCORD, AccountId(bot.id), PlatformId(channel.id))
    return Room(ref, Place.CHANNEL)


async def test_the_rooms_are_channels_and_active_threads_with_their_last_messages() -> None:
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        home, silent = discord.add_channel("general"), discord.add_channel("silent")
        hidden = discord.add_channel("hidden")
        discord.deny(bot.id, hidden.id, "view_channel")
        active = await ann.open_thread(await ann.say(home.id, "one"), "One")
        archived = await ann.open_thread(await ann.say(home.id, "two"), "Two")
        inside = await ann.say(active.id, "inside")
        await ann.archive(archived.id)
        last = await ann.say(home.id, "three")
        async with listening(discord, bot) as listener:
            rooms = await the_rooms(listener.client.history)

    assert set(rooms) == {home.id, silent.id, active.id}
    assert (rooms[home.id].newest, rooms[active.id].newest) == (last.id, inside.id)
    assert rooms[silent.id].newest is None
    thread = rooms[active.id]
    assert (thread.place, thread.ref.parent_conversation_id) == (Place.THREAD, home.id)
    assert thread.ref.account == bot.id
    assert (rooms[home.id].has_threads, thread.has_threads) == (True, False)


async def test_a_page_is_read_as_if_it_were_heard() -> None:
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        other, home = discord.add_bot("luna"), discord.add_channel("general")
        thread = await ann.open_thread(await ann.say(home.id, "topic"), "Topic")
        first = await ann.say(thread.id, f"{discord.role_mention(bot)} hi")
        second = await other.say(thread.id, "wait")
        await other.edit(second, "done")
        await bot.say(thread.id, "-# working", flags=1 << 12)
        async with listening(discord, bot) as listener:
            history = listener.client.history
            room = (await the_rooms(history))[thread.id]
            page = await history.page(room, after=PlatformId(thread.id), seconds=SECONDS)

    said = [one for one in page.messages if one.author.kind is AuthorKind.HUMAN and one.text]
    assert page.after is None
    assert [one.message_id for one in said] == [first.id]
    assert said[0].mentioned_roles == said[0].managed_roles
    assert said[0].managed_roles
    assert all(one.from_history for one in page.messages)
    assert all(one.conversation.parent_conversation_id == home.id for one in page.messages)
    assert all(one.thread_owner == ann.id for one in page.messages)
    edited, own = page.messages[-2:]
    assert (edited.edited, edited.author.kind) == (True, AuthorKind.BOT)
    assert (own.silent, own.author.kind) == (True, AuthorKind.SELF)


async def test_a_long_history_is_read_from_its_beginning_page_by_page() -> None:
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        said = [(await ann.say(home.id, str(n))).id for n in range(250)]
        async with listening(discord, bot) as listener:
            history, room = listener.client.history, a_room(bot, home)
            heard, sizes = await read_all(history, room, PlatformId(said[9]))

    assert [one.message_id for one in heard] == said[10:]
    assert sizes == [100, 100, 40]


async def read_all(
    history: DiscordHistory, room: Room, after: PlatformId | None
) -> tuple[list[InboundMessage], list[int]]:
    heard: list[InboundMessage] = []
    sizes = []
    while after is not None:
        page = await history.page(room, after=after, seconds=SECONDS)
        heard += page.messages
        sizes.append(len(page.messages))
        after = page.after
    return heard, sizes


async def test_a_place_that_refuses_and_one_that_does_not_answer_are_told_apart() -> None:
    async with LoopbackDiscord() as discord:
        bot, home = discord.add_bot("sol"), discord.add_channel("general")
        gone = discord.add_channel("gone")
        discord.delete_channel(gone.id)
        discord.faults.add(server_error(), bot_id=bot.id, route="list_messages")
        async with listening(discord, bot) as listener:
            history = listener.client.history
            with pytest.raises(ChannelUnreachable):
                await history.page(a_room(bot, home), after=NOTHING, seconds=SECONDS)
            with pytest.raises(ChannelRejected):
                await history.page(a_room(bot, gone), after=NOTHING, seconds=SECONDS)


async def test_archived_threads_are_listed_as_far_back_as_something_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history_module, "_PAGE", 2)
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        threads = [await ann.open_thread(await ann.say(home.id, str(n)), str(n)) for n in range(6)]
        marks = []
        for thread in threads:
            await ann.archive(thread.id)
            discord.clock.advance(60)
            marks.append(PlatformId((await ann.say(home.id, "meanwhile")).id))
        async with listening(discord, bot) as listener:
            history = listener.client.history
            parent = (await the_rooms(history))[home.id]
            listed: list[Room] = []
            before: str | None = None
            asked = 0
            while asked == 0 or before is not None:
                archive = await history.archived(
                    parent, since=marks[1], before=before, seconds=SECONDS
                )
                listed += archive.rooms
                before, asked = archive.before, asked + 1
            page = await history.page(listed[0], after=NOTHING, seconds=SECONDS)

    assert [one.ref.conversation_id for one in listed] == [one.id for one in threads[:1:-1]]
    assert asked == 3
    assert {one.place for one in listed} == {Place.THREAD}
    assert {one.thread_owner for one in page.messages} == {ann.id}


async def test_a_server_that_is_down_is_told_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history_module, "_SERVERS_SECONDS", 0.01)
    async with LoopbackDiscord() as discord:
        bot, home = discord.add_bot("sol"), discord.add_channel("general")
        second = discord.add_guild("Second")
        far = discord.add_channel("far", guild=second)
        third = discord.add_guild("Third")
        discord.gateway.guilds_down |= {second.id, third.id}
        async with listening(discord, bot) as listener:
            told: list[Sequence[Room]] = []
            rooms = listener.client.history.rooms()
            told.append(await anext(rooms))
            discord.gateway.bring_guild_back(second)
            told.append(await anext(rooms))
            # We are thrown out of the last one: nothing is left to wait for.
            discord.gateway.poison(bot.id, "GUILD_DELETE", {"id": third.id})
            told += [more async for more in rooms if more]

    assert [[room.ref.conversation_id for room in some] for some in told] == [[home.id], [far.id]]


async def test_the_rooms_are_kept_up_to_date_while_we_listen() -> None:
    """What was heard and then lost on its way can be read as long as the connection lasts."""
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        resting = await ann.open_thread(await ann.say(home.id, "one"), "One")
        waking = await ann.open_thread(await ann.say(home.id, "two"), "Two")
        await ann.archive(waking.id)
        async with listening(discord, bot) as listener:
            history = listener.client.history
            assert set(await the_rooms(history)) == {home.id, resting.id}
            made = discord.add_channel("made")
            woken = await ann.say(waking.id, "inside")
            await ann.archive(resting.id)
            last = await ann.say(made.id, "the last")
            await until(lambda: listener.heard.qsize() == 2)
            rooms = await the_rooms(history)
            assert set(rooms) == {home.id, made.id, waking.id}
            assert (rooms[waking.id].newest, rooms[made.id].newest) == (woken.id, last.id)
            discord.delete_channel(made.id)
            await ann.say(home.id, "anything")
            await until(lambda: listener.heard.qsize() == 3)
            assert made.id not in await the_rooms(history)


async def test_a_gap_is_told_and_a_resumed_connection_has_none() -> None:
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with listening(discord, bot) as listener:
            discord.gateway.close(bot.id, 4000)
            await ann.say(home.id, "replayed")
            assert (await listener.next_message()).text == "replayed"
            await until(lambda: "resume" in [one.step for one in discord.journal.connections])
            assert listener.connections == 1
            discord.gateway.forget(bot.id)
            missed = await ann.say(home.id, "missed")
            discord.gateway.cut(bot.id)
            await until(lambda: listener.connections == 2)
            rooms = await the_rooms(listener.client.history)
            assert rooms[home.id].newest == missed.id
            assert listener.heard.empty()


async def test_the_moments_of_ids_go_by_discords_clock() -> None:
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        discord.clock.advance(3600)
        async with listening(discord, bot) as listener:
            history = listener.client.history
            said = PlatformId((await ann.say(home.id, "now")).id)
            newest, moment = history.newest(), history.said_at(said)
            before = history.said_at(history.earlier(said, timedelta(minutes=2)))

    assert abs(moment - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=5)
    assert moment - before == timedelta(minutes=2)
    # Discord tells whole seconds; rather too early than too late.
    assert timedelta(0) <= moment - history.said_at(newest) < timedelta(minutes=5)


async def test_an_event_whose_place_nobody_tells_is_said_to_be_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events_module, "_LOOKS", (0.0, 0.0))
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        thread = await ann.open_thread(await ann.say(home.id, "topic"), "Topic")
        await ann.archive(thread.id)
        async with listening(discord, bot) as listener:
            discord.faults.add(server_error(), bot_id=bot.id, route="get_channel", times=2)
            discord.faults.deliver("never", event="THREAD_UPDATE")
            await ann.say(thread.id, "inside")
            await until(lambda: listener.missed == 1)
            await ann.say(thread.id, "again")
            assert (await listener.next_message()).text == "again"
            # What nobody can understand is not better understood in history.
            discord.gateway.poison(bot.id)
            await until(lambda: listener.health.lost_events == 2)
            assert listener.missed == 1


async def test_what_came_before_a_stop_is_passed_on() -> None:
    async with LoopbackDiscord() as discord:
        bot, ann = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        thread = await ann.open_thread(await ann.say(home.id, "topic"), "Topic")
        await ann.archive(thread.id)
        gate = asyncio.Event()
        async with listening(discord, bot) as listener:
            looked = asyncio.Event()

            async def slow(*args: Any) -> Any:
                looked.set()
                await gate.wait()
                return await fetch_channel(*args)

            discord.faults.deliver("never", event="THREAD_UPDATE")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(events_module, "fetch_channel", slow)
                patch.setattr(client_module, "_DRAIN_SECONDS", 60.0)
                await ann.say(thread.id, "first")
                await ann.say(home.id, "second")
                async with asyncio.timeout(30):
                    await looked.wait()
                listener.stopping.set()
                await until(lambda: not discord.gateway.of_bot(bot.id))
                gate.set()
                texts = [(await listener.next_message()).text for _ in range(2)]
    assert texts == ["first", "second"]
