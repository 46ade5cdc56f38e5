"""What became of a place, over real sockets: asked of Discord, and told by its gateway."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from openab.channels.discord.place_states import DiscordPlaces
from openab.domain.ids import AccountId, ChannelName, ConversationRef, PlatformId
from openab.ports.places import PlaceChanged, PlaceState
from openab.simulator.discord import (
    Bot,
    Channel,
    LoopbackDiscord,
    Person,
    hang,
    rate_limited,
    refuse,
    server_error,
)
from openab.simulator.discord.fault_kinds import RestFault
from tests.fakes.discord_stage import listening, logged_in, until

SECONDS = 5.0


@dataclass
class Scene:
    discord: LoopbackDiscord
    bot: Bot
    person: Person
    home: Channel
    thread: Channel

    def ref(self, place: str) -> ConversationRef:
        return ConversationRef(ChannelName("discord"), AccountId(self.bot.id), PlatformId(place))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        thread = await person.open_thread(await person.say(home.id, "hello"), "work")
        yield Scene(discord, bot, person, home, thread)


async def _asked(scene: Scene, place: str, seconds: float = SECONDS) -> PlaceState:
    async with logged_in(scene.discord, scene.bot) as rest:
        return await DiscordPlaces(rest).state(scene.ref(place), seconds)


async def test_each_state_is_told(scene: Scene) -> None:
    thread, person = scene.thread.id, scene.person
    assert await _asked(scene, scene.home.id) is PlaceState.OPEN
    assert await _asked(scene, thread) is PlaceState.OPEN
    await person.lock(thread)
    assert await _asked(scene, thread) is PlaceState.LOCKED
    await person.archive(thread)
    assert await _asked(scene, thread) is PlaceState.ARCHIVED
    await person.unarchive(thread)
    assert await _asked(scene, thread) is PlaceState.OPEN
    scene.discord.delete_channel(thread)
    assert await _asked(scene, thread) is PlaceState.GONE


async def test_a_thread_is_gone_with_its_channel(scene: Scene) -> None:
    scene.discord.delete_channel(scene.home.id)
    assert await _asked(scene, scene.thread.id) is PlaceState.GONE


@pytest.mark.parametrize(
    "fault",
    [
        refuse(50001),
        refuse(50013),
        server_error(500),
        server_error(503),
        rate_limited("sub_limit"),
        hang(30),
        RestFault("odd", status=200, body={"id": "5", "thread_metadata": ["odd"]}),
        RestFault("odd", status=200, body=None),
        RestFault("odd", status=404, body={"code": 0, "message": "404: Not Found"}),
    ],
)
async def test_whatever_is_not_certain_is_not_known(scene: Scene, fault: RestFault) -> None:
    scene.discord.faults.add(fault, route="get_channel")
    assert await _asked(scene, scene.thread.id, 0.5) is PlaceState.UNKNOWN


async def test_a_channel_that_may_not_be_seen_is_not_gone(scene: Scene) -> None:
    scene.discord.deny(scene.bot.id, scene.home.id, "view_channel")
    assert await _asked(scene, scene.thread.id) is PlaceState.UNKNOWN


async def test_changes_are_heard_in_one_order_with_the_messages(scene: Scene) -> None:
    heard: list[object] = []
    thread, person = scene.thread.id, scene.person
    async with listening(
        scene.discord,
        scene.bot,
        sink=lambda message: heard.append(message.text),
        on_place=heard.append,
    ):
        await person.archive(thread)
        await person.say(thread, "again")
        # What was said in a place that is gone already cannot be placed any more.
        await until(lambda: "again" in heard)
        await person.lock(thread)
        scene.discord.delete_channel(thread)
        scene.discord.delete_channel(scene.home.id)
        await until(lambda: len(heard) == 6)

    told = [one.state if isinstance(one, PlaceChanged) else one for one in heard]
    assert told == [
        PlaceState.ARCHIVED,
        PlaceState.OPEN,
        "again",
        PlaceState.LOCKED,
        PlaceState.GONE,
        PlaceState.GONE,
    ]
    *_, gone, channel = (one.conversation for one in heard if isinstance(one, PlaceChanged))
    assert (gone.conversation_id, gone.parent_conversation_id) == (thread, scene.home.id)
    assert channel == scene.ref(scene.home.id)


@pytest.mark.parametrize("name", ["THREAD_UPDATE", "THREAD_DELETE", "CHANNEL_DELETE"])
async def test_a_malformed_event_does_not_end_the_connection(scene: Scene, name: str) -> None:
    heard: list[PlaceChanged] = []
    async with listening(scene.discord, scene.bot, on_place=heard.append) as listener:
        for odd in ({}, {"id": "5", "thread_metadata": "odd"}):
            scene.discord.gateway.poison(scene.bot.id, name, odd)
        await scene.person.archive(scene.thread.id)
        await until(lambda: any(one.state is PlaceState.ARCHIVED for one in heard))
        assert listener.health.ready
        assert listener.connections == 1
        assert listener.health.lost_events >= 1
