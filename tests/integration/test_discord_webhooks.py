"""Speaking under a persona over real sockets: whose webhook, by which secret, and what may go wrong."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import pytest
import structlog

from openab.channels.discord.outbound import DiscordChannel
from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind, Place
from openab.domain.outbound import MessageBody, persona_body
from openab.observability.redaction import Redactor
from openab.ports.channel import (
    ChannelBusy,
    ChannelRejected,
    ChannelUnreachable,
    DeliveryUnknown,
    Refusal,
)
from openab.simulator.discord import (
    Bot,
    LoopbackDiscord,
    Person,
    commit_then,
    commit_then_drop,
    hang,
    refuse,
    server_error,
)
from openab.simulator.discord.fault_kinds import RestFault
from tests.fakes.discord_stage import listening, logged_in

SECONDS = 5.0
POST = "execute_webhook"
BODY = persona_body("Look into it.", "fable")


@dataclass
class Scene:
    discord: LoopbackDiscord
    bot: Bot
    person: Person
    channel: DiscordChannel
    home: PlatformId
    thread: PlatformId
    invalid: list[int]

    async def make(self) -> PlatformId:
        return await self.channel.make_webhook(self.home, SECONDS)

    async def post(self, webhook: str, body: MessageBody = BODY) -> PlatformId:
        return await self.channel.post_as_persona(
            self.thread, self.home, PlatformId(webhook), body, SECONDS
        )

    def posts(self) -> int:
        return len(self.discord.journal.select(POST))

    def secrets(self) -> list[str]:
        return [one.token for one in self.discord.world.webhooks.values()]

    def shown(self) -> list[str]:
        return [one.content for one in self.discord.messages(self.thread)]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    invalid: list[int] = []
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        discord.grant(bot.id, home.id, "manage_webhooks")
        asked = await person.say(home.id, "hello bot")
        thread = await person.open_thread(asked, "work")
        async with logged_in(discord, bot, on_invalid=invalid.append) as rest:
            yield Scene(
                discord,
                bot,
                person,
                DiscordChannel(rest),
                PlatformId(home.id),
                PlatformId(thread.id),
                invalid,
            )
        for request in discord.journal.select(POST):
            assert request.fields["allowed_mentions"] == {
                "parse": [],
                "users": [],
                "replied_user": False,
            }


async def test_it_is_found_once_it_is_made(scene: Scene) -> None:
    assert await scene.channel.find_webhook(scene.home, SECONDS) is None
    made = await scene.make()
    later = await scene.make()

    assert made != later
    assert await scene.channel.find_webhook(scene.home, SECONDS) == made
    assert {one.name for one in scene.discord.webhooks(scene.home)} == {"openab"}


async def test_one_that_a_crash_left_behind_is_adopted_by_the_next_life(scene: Scene) -> None:
    scene.discord.faults.add(commit_then_drop(), route="create_webhook")
    with pytest.raises(DeliveryUnknown):
        await scene.make()

    (left,) = scene.discord.webhooks(scene.home)
    assert await scene.channel.find_webhook(scene.home, SECONDS) == left.id


async def test_other_peoples_and_other_bots_webhooks_are_not_ours(scene: Scene) -> None:
    scene.discord.add_webhook(scene.home, "openab")
    other = scene.discord.add_bot("luna")
    scene.discord.grant(other.id, scene.home, "manage_webhooks")
    hook = scene.discord.add_webhook(scene.home, "openab").webhook
    hook.application_id = hook.creator_id = other.id
    mine = scene.discord.add_webhook(scene.home, "another name").webhook
    mine.application_id = mine.creator_id = scene.bot.id

    assert await scene.channel.find_webhook(scene.home, SECONDS) is None


async def test_a_persona_speaks_in_the_thread_and_pings_nobody(scene: Scene) -> None:
    webhook = await scene.make()
    body = persona_body(f"{scene.person.mention} @everyone", "Discord's Clyde")
    made = await scene.post(webhook, replace(body, mention=PlatformId(scene.person.id)))

    (shown,) = scene.discord.messages(scene.thread)
    assert (shown.id, shown.author.name) == (made, "Di-scord's Cl-yde")
    assert (shown.webhook_id, shown.pings) == (webhook, frozenset())
    assert shown.flags & (1 << 12)


async def test_a_rotated_secret_is_used_by_the_next_send(scene: Scene) -> None:
    webhook = await scene.make()
    await scene.post(webhook)
    scene.discord.rotate_webhook(webhook)
    await scene.post(webhook)

    assert len(scene.shown()) == 2
    assert [one.status for one in scene.discord.journal.select(POST)] == [200, 200]


async def test_a_secret_that_rotates_in_between_is_not_done_and_tried_again(scene: Scene) -> None:
    webhook = await scene.make()
    scene.discord.faults.add(refuse(50027), route=POST)
    with pytest.raises(ChannelBusy):
        await scene.post(webhook)
    await scene.post(webhook)

    assert len(scene.shown()) == 1


async def test_no_secret_is_told_to_anybody(scene: Scene) -> None:
    webhook = await scene.make()
    with structlog.testing.capture_logs() as lines:
        await scene.post(webhook)
        scene.discord.faults.add(server_error(500), route=POST)
        with pytest.raises(DeliveryUnknown) as failure:
            await scene.post(webhook)

    said = f"{lines} {failure.value!r} {failure.value.__cause__!r} {scene.discord.journal.requests}"
    said += scene.discord.journal.tail()
    assert all(secret not in said for secret in scene.secrets())
    address = f"POST {scene.discord.api_base}/webhooks/{webhook}/{scene.secrets()[0]}?wait=true"
    assert scene.secrets()[0] not in Redactor().text(address)


async def test_a_webhook_that_is_gone_is_told_apart(scene: Scene) -> None:
    webhook = await scene.make()
    scene.discord.delete_webhook(webhook)
    with pytest.raises(ChannelRejected) as refused:
        await scene.post(webhook)

    assert refused.value.refusal is Refusal.WEBHOOK_GONE
    assert scene.posts() == 0


async def test_one_that_is_deleted_between_look_and_post_is_gone_too(scene: Scene) -> None:
    webhook = await scene.make()
    scene.discord.faults.add(refuse(10015), route=POST)
    with pytest.raises(ChannelRejected) as refused:
        await scene.post(webhook)

    assert refused.value.refusal is Refusal.WEBHOOK_GONE


async def test_one_that_was_moved_is_not_posted_through(scene: Scene) -> None:
    webhook = await scene.make()
    other = scene.discord.add_channel("other")
    scene.discord.grant(scene.bot.id, other.id, "manage_webhooks")
    scene.discord.world.webhooks[webhook].channel_id = other.id
    with pytest.raises(ChannelRejected) as refused:
        await scene.post(webhook)

    assert refused.value.refusal is Refusal.WEBHOOK_GONE
    assert scene.posts() == 0


async def test_the_sixteenth_is_one_too_many(scene: Scene) -> None:
    for number in range(15):
        scene.discord.add_webhook(scene.home, f"hook {number}")
    with pytest.raises(ChannelRejected) as refused:
        await scene.make()

    assert refused.value.refusal is Refusal.WEBHOOK_LIMIT


@pytest.mark.parametrize("step", ["find", "make", "post"])
async def test_without_the_right_to_manage_webhooks_it_is_forbidden(
    scene: Scene, step: str
) -> None:
    webhook = await scene.make()
    scene.discord.deny(scene.bot.id, scene.home, "manage_webhooks")
    steps: dict[str, Callable[[], object]] = {
        "find": lambda: scene.channel.find_webhook(scene.home, SECONDS),
        "make": scene.make,
        "post": lambda: scene.post(webhook),
    }
    with pytest.raises(ChannelRejected) as refused:
        await steps[step]()  # type: ignore[misc]

    assert refused.value.refusal is Refusal.FORBIDDEN


@pytest.mark.parametrize("fault", [commit_then(502), commit_then_drop(), hang(30)])
async def test_a_lost_answer_is_unknown_and_posted_once(scene: Scene, fault: RestFault) -> None:
    webhook = await scene.make()
    scene.discord.faults.add(fault, route=POST, times=-1)
    with pytest.raises(DeliveryUnknown):
        await scene.channel.post_as_persona(scene.thread, scene.home, webhook, BODY, 1.0)

    assert (scene.posts(), scene.shown()) == (1, [BODY.content])


@pytest.mark.parametrize("fault", [server_error(503), commit_then_drop()])
async def test_a_secret_that_cannot_be_read_means_that_nothing_was_sent(
    scene: Scene, fault: RestFault
) -> None:
    webhook = await scene.make()
    scene.discord.faults.add(fault, route="get_known_webhook")
    with pytest.raises(ChannelUnreachable):
        await scene.post(webhook)

    assert scene.posts() == 0


async def test_without_a_permit_no_byte_leaves(scene: Scene) -> None:
    webhook = await scene.make()
    guarded = scene.channel.guarded(lambda: False)
    with pytest.raises(ChannelUnreachable):
        await guarded.post_as_persona(scene.thread, scene.home, webhook, BODY, SECONDS)
    with pytest.raises(ChannelUnreachable):
        await guarded.make_webhook(scene.home, SECONDS)

    assert scene.posts() == 0
    assert len(scene.discord.webhooks(scene.home)) == 1


async def test_a_locked_thread_and_a_gone_one_are_refused(scene: Scene) -> None:
    webhook = await scene.make()
    await scene.person.archive(scene.thread, locked=True)
    with pytest.raises(ChannelRejected) as locked:
        await scene.post(webhook)
    scene.discord.delete_channel(scene.thread)
    with pytest.raises(ChannelRejected) as gone:
        await scene.post(webhook)

    assert locked.value.refusal is Refusal.LOCKED
    assert gone.value.refusal is Refusal.CONVERSATION_GONE


async def test_the_echo_comes_before_the_answer_and_names_the_webhook() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        discord.grant(bot.id, home.id, "manage_webhooks")
        thread = await person.open_thread(await person.say(home.id, "hello"), "work")
        async with listening(discord, bot) as listener:
            channel = listener.client.channel
            webhook = await channel.make_webhook(PlatformId(home.id), SECONDS)
            discord.faults.add(hang(30), route=POST)
            with pytest.raises(DeliveryUnknown):
                await channel.post_as_persona(
                    PlatformId(thread.id), PlatformId(home.id), webhook, BODY, 0.5
                )
            message = await listener.next_message()
            while message.text != BODY.content:
                message = await listener.next_message()

    assert (message.author.kind, message.author.id) == (AuthorKind.WEBHOOK, webhook)
    assert (message.place, message.nonce, message.silent) == (Place.THREAD, None, True)
