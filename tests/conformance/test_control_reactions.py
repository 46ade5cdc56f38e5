"""How a turn ends is one reaction; what else stood there goes, whatever the settings and the network."""

from datetime import timedelta

import pytest

from openab.control.courtesies import Courtesies
from openab.control.settings import ReactionSettings, Settings
from openab.control.settling import _FACES
from openab.domain.emojis import Emojis
from openab.domain.ids import MessageRef, PlatformId
from openab.domain.message import InboundMessage
from openab.ports.channel import ChannelBusy, ChannelRejected, DeliveryUnknown, Refusal
from openab.ports.tasks import end, spawn
from openab.storage.engine import Database
from tests.builders import HOME, some_settings
from tests.conformance.control_stage import Stage, on_stage
from tests.fakes.channel import RecordingChannel


def reacting(**changes: object) -> Settings:
    no_wait = timedelta(0)
    told = ReactionSettings(pace=no_wait, done_hold=no_wait, error_hold=no_wait, **changes)  # type: ignore[arg-type]
    return some_settings(reactions=told)


def shown(stage: Stage, message: InboundMessage) -> set[str]:
    return stage.channel.message(message.message_id).reactions


def added(stage: Stage) -> list[str]:
    return [call.word for call in stage.channel.calls_of("add_reaction")]


async def ended(stage: Stage, text: str) -> InboundMessage:
    message = stage.say(text)
    await stage.settled(message)
    await stage.quiet()
    return message


class TestACallThatTakesLong:
    async def test_holds_up_no_answer(self, database: Database) -> None:
        settings = some_settings(call=timedelta(seconds=600))
        async with on_stage(database, settings) as stage:
            stage.channel.hang("add_reaction")
            message = stage.say("[[say=here it is]]")
            await stage.channel.until(
                lambda c: any("here it is" in text for text in c.shown(message.message_id))
            )
            assert len(stage.channel.calls_of("add_reaction")) == 1
            stage.channel.end_faults()
            await stage.settled(message)
            await stage.quiet()
        assert shown(stage, message) == {"🆗"}


class TestTheEnd:
    @pytest.mark.parametrize(
        ("steps", "emoji"),
        [("[[say=x]]", "🆗"), ("[[fail=-32603:no]]", "😱"), ("[[exit=1]]", "😱")],
    )
    @pytest.mark.parametrize("goes", [False, True])
    async def test_is_told_by_one_emoji(
        self, database: Database, steps: str, emoji: str, goes: bool
    ) -> None:
        async with on_stage(database, reacting(remove_after_reply=goes)) as stage:
            message = await ended(stage, steps)
        assert added(stage)[-1] == emoji
        assert shown(stage, message) == (set() if goes else {emoji})

    async def test_empty_emoji_are_not_shown(self, database: Database) -> None:
        emojis = Emojis(queued="", done="")
        async with on_stage(database, reacting(emojis=emojis)) as stage:
            message = await ended(stage, "[[say=x]]")
        assert added(stage) == []
        assert shown(stage, message) == set()


class TestTheMoodFace:
    async def test_is_off_unless_it_is_wished(self, database: Database) -> None:
        async with on_stage(database, reacting()) as stage:
            await ended(stage, "[[say=x]]")
        assert not set(added(stage)) & set(_FACES)

    async def test_stands_beside_done_only(self, database: Database) -> None:
        async with on_stage(database, reacting(mood_face=True)) as stage:
            done = await ended(stage, "[[say=x]]")
            failed = await ended(stage, "[[fail=-32603:no]]")
        assert shown(stage, failed) == {"😱"}
        (face,) = shown(stage, done) - {"🆗"}
        assert face in _FACES

    async def test_goes_when_done_goes(self, database: Database) -> None:
        told = reacting(mood_face=True, remove_after_reply=True)
        async with on_stage(database, told) as stage:
            message = await ended(stage, "[[say=x]]")
        assert set(added(stage)) & set(_FACES)
        assert shown(stage, message) == set()

    async def test_one_that_is_refused_leaves_done_alone(self, database: Database) -> None:
        async with on_stage(database, reacting(mood_face=True)) as stage:
            refusal = ChannelRejected(Refusal.OTHER, "no more emoji", 30010)
            stage.channel.fail("add_reaction", refusal, times=9, when=lambda c: c.word in _FACES)
            message = await ended(stage, "[[say=x]]")
        assert shown(stage, message) == {"🆗"}


@pytest.mark.parametrize("is_on", [False, True])
async def test_a_stranger_gets_none_where_reactions_are_off(is_on: bool) -> None:
    channel = RecordingChannel(account="900")
    courtesies = Courtesies(channel, timedelta(seconds=1), is_on=is_on)
    first, second = (channel.say(HOME, text).message_id for text in ("hi", "again"))
    working = spawn("courtesies", courtesies.run())
    courtesies.refuse(MessageRef(HOME, PlatformId(first)))
    if is_on:
        await channel.until(lambda _: bool(channel.message(PlatformId(first)).reactions))
    await end(working)
    assert channel.message(PlatformId(first)).reactions == ({"🚫"} if is_on else set())
    assert channel.message(PlatformId(second)).reactions == set()


async def test_what_the_network_has_no_room_for_is_shown_later() -> None:
    channel = RecordingChannel()
    channel.fail("add_reaction", ChannelBusy("Discord's rate limit", 0.01))
    channel.fail("add_reaction", DeliveryUnknown("no answer"))
    courtesies = Courtesies(channel, timedelta(seconds=1), is_on=False)
    told = [channel.say(HOME, "go") for _ in range(2)]
    working = spawn("courtesies", courtesies.run())
    for message in told:
        courtesies.refuse_handoff(message)
    await channel.until(lambda _: channel.message(told[-1].message_id).reactions == {"⛔"})
    await end(working)
    assert channel.message(told[0].message_id).reactions == {"⛔"}
