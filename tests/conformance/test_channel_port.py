"""What every channel keeps: Discord's adapter on the loopback, and the recording one."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from openab.channels.discord.outbound import DiscordChannel
from openab.domain.errors import OpenabError
from openab.domain.ids import MessageRef, PlatformId
from openab.domain.outbound import MessageBody, persona_body, presentation_body
from openab.ports.channel import (
    Channel,
    ChannelBusy,
    ChannelRejected,
    DeliveryUnknown,
    Refusal,
)
from openab.simulator.discord import LoopbackDiscord, commit_then, rate_limited, server_error
from tests.fakes.channel import RecordingChannel
from tests.fakes.discord_stage import logged_in

SECONDS = 5.0


@dataclass
class Stage:
    """A network with one conversation, one person and one trigger message of theirs."""

    channel: Channel
    home: PlatformId
    trigger: MessageRef
    shown: Callable[[str], list[str]]
    #: The emoji that stand on the trigger message.
    reactions: Callable[[], set[str]]
    archive: Callable[[str, bool], None]
    close: Callable[[str], None]
    #: The next create is carried out, but the answer is a server error.
    lose_an_answer: Callable[[], None]
    #: The next create is not carried out, and the answer is a server error.
    lose_a_request: Callable[[], None]
    limit_the_rate: Callable[[], None]
    delete_webhook: Callable[[str], None]

    async def post(self, text: str, nonce: str) -> MessageRef:
        made = await self.channel.create_message(self.home, MessageBody(text), nonce, SECONDS)
        return MessageRef(self.home, made)


@pytest.fixture
def _recording() -> Stage:
    channel = RecordingChannel()
    trigger = channel.say("8", "hello bot")
    unknown = DeliveryUnknown("502")
    busy = ChannelBusy("429", 0.5)

    def fail(error: OpenabError, *, commits: bool = False) -> None:
        channel.fail("create_message", error, commits=commits)

    return Stage(
        channel=channel,
        home=PlatformId("8"),
        trigger=trigger,
        shown=channel.shown,
        reactions=lambda: channel.message(trigger.message_id).reactions,
        archive=lambda thread, locked: channel.archive(thread, locked=locked),
        close=channel.close_conversation,
        lose_an_answer=lambda: fail(unknown, commits=True),
        lose_a_request=lambda: fail(unknown),
        limit_the_rate=lambda: fail(busy),
        delete_webhook=channel.delete_webhook,
    )


@pytest.fixture
async def _discord() -> AsyncIterator[Stage]:
    async with LoopbackDiscord() as discord:
        discord.limits.enabled = False
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        discord.grant(bot.id, home.id, "manage_webhooks")
        asked = await person.say(home.id, "hello bot")

        def archive(thread: str, locked: bool) -> None:
            state = discord.world.channel(thread).thread
            assert state is not None
            state.archived, state.locked = True, locked

        def close(conversation: str) -> None:
            discord.world.channel(conversation).deleted = True

        async with logged_in(discord, bot) as rest:
            yield Stage(
                channel=DiscordChannel(rest),
                home=PlatformId(home.id),
                trigger=MessageRef(PlatformId(home.id), PlatformId(asked.id)),
                shown=lambda where: [one.content for one in discord.messages(where)],
                reactions=lambda: set(asked.reactions),
                archive=archive,
                close=close,
                lose_an_answer=lambda: _on_create(discord, commit_then(502)),
                lose_a_request=lambda: _on_create(discord, server_error(503)),
                limit_the_rate=lambda: _on_create(discord, rate_limited("sub_limit")),
                delete_webhook=discord.delete_webhook,
            )


def _on_create(discord: LoopbackDiscord, fault: object) -> None:
    discord.faults.add(fault, route="create_message")  # type: ignore[arg-type]


@pytest.fixture(params=["_recording", "_discord"])
def stage(request: pytest.FixtureRequest) -> Stage:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Stage)
    return found


async def test_a_message_is_posted_once_for_its_nonce(stage: Stage) -> None:
    first = await stage.post("an answer", "n1")
    again = await stage.post("an answer", "n1")
    other = await stage.post("an answer", "n2")

    assert first == again
    assert other != first
    assert stage.shown(stage.home) == ["hello bot", "an answer", "an answer"]


async def test_the_nonce_of_a_deleted_message_posts_nothing(stage: Stage) -> None:
    ref = await stage.post("gone soon", "n1")
    await stage.channel.delete_message(ref, SECONDS)

    with pytest.raises(ChannelRejected) as refused:
        await stage.post("gone soon", "n1")
    assert refused.value.refusal is Refusal.MESSAGE_GONE
    assert stage.shown(stage.home) == ["hello bot"]


async def test_an_edit_replaces_and_may_be_repeated(stage: Stage) -> None:
    ref = await stage.post("working", "n1")
    for _ in range(2):
        await stage.channel.edit_message(ref, MessageBody("done"), SECONDS)

    assert stage.shown(stage.home) == ["hello bot", "done"]


async def test_a_gone_message_cannot_be_edited(stage: Stage) -> None:
    ref = await stage.post("working", "n1")
    await stage.channel.delete_message(ref, SECONDS)

    with pytest.raises(ChannelRejected) as refused:
        await stage.channel.edit_message(ref, MessageBody("done"), SECONDS)
    assert refused.value.refusal is Refusal.MESSAGE_GONE


async def test_a_gone_message_counts_as_deleted(stage: Stage) -> None:
    ref = await stage.post("working", "n1")
    for _ in range(2):
        await stage.channel.delete_message(ref, SECONDS)

    assert stage.shown(stage.home) == ["hello bot"]


@pytest.mark.parametrize("text", ["", " \n ", "x" * 2001])
async def test_an_empty_or_too_long_body_is_refused(stage: Stage, text: str) -> None:
    with pytest.raises(ChannelRejected) as refused:
        await stage.post(text, "n1")
    assert refused.value.refusal is Refusal.INVALID_BODY


async def test_a_thread_has_its_triggers_id_and_is_opened_once(stage: Stage) -> None:
    thread = await stage.channel.open_thread(stage.trigger, "Build it", SECONDS)
    with pytest.raises(ChannelRejected) as refused:
        await stage.channel.open_thread(stage.trigger, "Build it", SECONDS)

    assert thread == stage.trigger.message_id
    assert refused.value.refusal is Refusal.THREAD_EXISTS


async def test_an_archived_thread_refuses_edits_until_it_is_unarchived(stage: Stage) -> None:
    thread = await stage.channel.open_thread(stage.trigger, "Build it", SECONDS)
    made = await stage.channel.create_message(thread, presentation_body("working"), "n1", SECONDS)
    ref = MessageRef(thread, made)
    stage.archive(thread, False)

    with pytest.raises(ChannelRejected) as refused:
        await stage.channel.edit_message(ref, MessageBody("done"), SECONDS)
    assert refused.value.refusal is Refusal.ARCHIVED
    for _ in range(2):
        await stage.channel.unarchive(thread, SECONDS)
    await stage.channel.edit_message(ref, MessageBody("done"), SECONDS)
    assert stage.shown(thread) == ["done"]


async def test_a_locked_thread_takes_no_message(stage: Stage) -> None:
    thread = await stage.channel.open_thread(stage.trigger, "Build it", SECONDS)
    stage.archive(thread, True)

    with pytest.raises(ChannelRejected) as refused:
        await stage.channel.create_message(thread, MessageBody("hi"), "n1", SECONDS)
    assert refused.value.refusal is Refusal.LOCKED


async def test_reactions_may_be_repeated(stage: Stage) -> None:
    for _ in range(2):
        await stage.channel.add_reaction(stage.trigger, "👀", SECONDS)
    assert stage.reactions() == {"👀"}
    for _ in range(2):
        await stage.channel.remove_reaction(stage.trigger, "👀", SECONDS)
    assert not stage.reactions()


async def test_history_is_read_forwards_from_a_message(stage: Stage) -> None:
    for number in range(4):
        await stage.post(f"part {number}", f"n{number}")
    seen = await stage.channel.history(
        stage.home, after=stage.trigger.message_id, limit=3, seconds=SECONDS
    )
    everything = await stage.channel.history(
        stage.home, after=PlatformId("0"), limit=100, seconds=SECONDS
    )

    assert [one.content for one in seen] == ["part 0", "part 1", "part 2"]
    assert everything[0].message_id == stage.trigger.message_id
    assert everything[0].author_id != everything[1].author_id


async def test_one_message_is_fetched_or_known_to_be_gone(stage: Stage) -> None:
    ref = await stage.post("here", "n1")
    found = await stage.channel.fetch_message(ref, SECONDS)
    await stage.channel.delete_message(ref, SECONDS)

    assert found is not None
    assert (found.message_id, found.content) == (ref.message_id, "here")
    assert found.sent_at.tzinfo is not None
    assert await stage.channel.fetch_message(ref, SECONDS) is None


async def test_a_lost_answer_is_unknown_and_the_nonce_finds_the_message(stage: Stage) -> None:
    stage.lose_an_answer()
    with pytest.raises(DeliveryUnknown):
        await stage.post("once", "n1")
    await stage.post("once", "n1")

    assert stage.shown(stage.home) == ["hello bot", "once"]


async def test_a_lost_request_is_unknown_and_the_nonce_posts_it(stage: Stage) -> None:
    stage.lose_a_request()
    with pytest.raises(DeliveryUnknown):
        await stage.post("once", "n1")
    assert stage.shown(stage.home) == ["hello bot"]
    await stage.post("once", "n1")

    assert stage.shown(stage.home) == ["hello bot", "once"]


async def test_a_rate_limit_says_when_and_nothing_was_done(stage: Stage) -> None:
    stage.limit_the_rate()
    with pytest.raises(ChannelBusy) as busy:
        await stage.post("later", "n1")

    assert busy.value.retry_after == 0.5
    assert stage.shown(stage.home) == ["hello bot"]


async def test_a_gone_conversation_is_told(stage: Stage) -> None:
    ref = await stage.post("here", "n1")
    stage.close(stage.home)

    with pytest.raises(ChannelRejected) as refused:
        await stage.post("there", "n2")
    assert refused.value.refusal is Refusal.CONVERSATION_GONE
    await stage.channel.delete_message(ref, SECONDS)
    assert await stage.channel.fetch_message(ref, SECONDS) is None


async def test_somebody_is_made_a_member_of_a_thread_as_often_as_one_likes(stage: Stage) -> None:
    asked = await stage.channel.fetch_message(stage.trigger, SECONDS)
    thread = await stage.channel.open_thread(stage.trigger, "a title", SECONDS)
    assert asked
    for _ in range(2):
        await stage.channel.add_thread_member(thread, asked.author_id, SECONDS)
    stage.close(thread)
    with pytest.raises(ChannelRejected) as refused:
        await stage.channel.add_thread_member(thread, asked.author_id, SECONDS)
    assert refused.value.refusal is Refusal.CONVERSATION_GONE


async def test_nobody_has_no_name(stage: Stage) -> None:
    assert await stage.channel.user_name(PlatformId("1"), SECONDS) == ""


TASK = persona_body("Look into it.", "fable")


async def test_our_oldest_webhook_is_the_one_that_is_found(stage: Stage) -> None:
    assert await stage.channel.find_webhook(stage.home, SECONDS) is None
    made = [await stage.channel.make_webhook(stage.home, SECONDS) for _ in range(2)]

    assert await stage.channel.find_webhook(stage.home, SECONDS) == made[0]
    stage.delete_webhook(made[0])
    assert await stage.channel.find_webhook(stage.home, SECONDS) == made[1]


async def test_a_persona_speaks_by_its_webhook_as_often_as_it_is_asked_to(stage: Stage) -> None:
    thread = await stage.channel.open_thread(stage.trigger, "Build it", SECONDS)
    webhook = await stage.channel.make_webhook(stage.home, SECONDS)
    made = [
        await stage.channel.post_as_persona(thread, stage.home, webhook, TASK, SECONDS)
        for _ in range(2)
    ]
    seen = await stage.channel.history(thread, after=thread, limit=100, seconds=SECONDS)

    told = [(one.message_id, one.author_id, one.nonce) for one in seen if one.content]
    assert told == [(one, webhook, None) for one in made]
    assert stage.shown(thread) == [TASK.content, TASK.content]


async def test_nobody_speaks_by_a_webhook_that_is_gone(stage: Stage) -> None:
    thread = await stage.channel.open_thread(stage.trigger, "Build it", SECONDS)
    webhook = await stage.channel.make_webhook(stage.home, SECONDS)
    stage.delete_webhook(webhook)

    with pytest.raises(ChannelRejected) as refused:
        await stage.channel.post_as_persona(thread, stage.home, webhook, TASK, SECONDS)
    assert refused.value.refusal is Refusal.WEBHOOK_GONE
    assert stage.shown(thread) == []


async def test_a_persona_wakes_an_archived_thread_but_no_locked_one(stage: Stage) -> None:
    thread = await stage.channel.open_thread(stage.trigger, "Build it", SECONDS)
    webhook = await stage.channel.make_webhook(stage.home, SECONDS)
    stage.archive(thread, False)
    await stage.channel.post_as_persona(thread, stage.home, webhook, TASK, SECONDS)
    stage.archive(thread, True)

    with pytest.raises(ChannelRejected) as refused:
        await stage.channel.post_as_persona(thread, stage.home, webhook, TASK, SECONDS)
    assert refused.value.refusal is Refusal.LOCKED
    assert stage.shown(thread) == [TASK.content]
