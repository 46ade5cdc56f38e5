"""Sending over real sockets: one request a call, and one of three outcomes whatever goes wrong."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from openab.channels.discord.outbound import DiscordChannel
from openab.channels.discord.rest import DiscordRest, TokenRefused
from openab.channels.discord.threads import fetch_thread_facts
from openab.domain.ids import MessageRef, PlatformId
from openab.domain.outbound import Button, MessageBody, presentation_body
from openab.ports.channel import (
    ChannelBusy,
    ChannelRejected,
    ChannelUnreachable,
    DeliveryUnknown,
    Refusal,
)
from openab.ports.tasks import end, spawn
from openab.simulator.discord import (
    LoopbackDiscord,
    Message,
    Request,
    commit_then,
    commit_then_drop,
    drop_before_commit,
    hang,
    rate_limited,
    refuse,
    server_error,
)
from openab.simulator.discord.fault_kinds import RestFault
from tests.fakes.discord_stage import logged_in

SECONDS = 5.0
BODY = MessageBody("an answer")


@dataclass
class Scene:
    discord: LoopbackDiscord
    rest: DiscordRest
    home: PlatformId
    asked: Message
    invalid: list[int]
    skews: list[float]
    channel: DiscordChannel = field(init=False)

    def __post_init__(self) -> None:
        self.channel = DiscordChannel(self.rest)

    @property
    def trigger(self) -> MessageRef:
        return MessageRef(self.home, PlatformId(self.asked.id))

    async def create(self, body: MessageBody = BODY, nonce: str = "n1") -> PlatformId:
        return await self.channel.create_message(self.home, body, nonce, SECONDS)

    def requests(self, route: str) -> list[Request]:
        return [one for one in self.discord.journal.requests if one.route == route]

    def shown(self) -> list[str]:
        return [one.content for one in self.discord.messages(self.home) if one is not self.asked]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    invalid: list[int] = []
    skews: list[float] = []
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        asked = await person.say(home.id, "hello bot")
        async with logged_in(discord, bot, on_invalid=invalid.append, on_skew=skews.append) as rest:
            yield Scene(discord, rest, PlatformId(home.id), asked, invalid, skews)
        _every_body_is_explicit(discord)


def _every_body_is_explicit(discord: LoopbackDiscord) -> None:
    for request in discord.journal.requests:
        if "content" in request.fields:
            assert request.fields["allowed_mentions"]["parse"] == [], request


async def test_login_tells_who_we_are(scene: Scene) -> None:
    identity = await scene.rest.login()

    assert identity.name == "sol"
    assert str(identity.application_id) == str(identity.account)
    assert identity.message_content


async def test_a_refused_token_is_told_apart(scene: Scene) -> None:
    rest = DiscordRest("wrong.token", scene.discord.api_base)
    try:
        with pytest.raises(TokenRefused):
            await rest.login()
    finally:
        await rest.close()


async def test_only_one_discord_at_a_time(scene: Scene) -> None:
    other = DiscordRest("any.token", "http://127.0.0.1:1/api/v10")
    with pytest.raises(RuntimeError, match="this process talks to"):
        await other.login()


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (commit_then(502), ["an answer"]),
        (commit_then(500), ["an answer"]),
        (commit_then_drop(), ["an answer"]),
        (drop_before_commit(), []),
        (server_error(503), []),
        (server_error(502), []),
    ],
    ids=lambda value: value.name if isinstance(value, RestFault) else "",
)
async def test_what_may_have_happened_is_unknown_and_was_tried_once(
    scene: Scene, fault: RestFault, shown: list[str]
) -> None:
    scene.discord.faults.add(fault, route="create_message", times=-1)
    with pytest.raises(DeliveryUnknown):
        await scene.create()

    assert scene.shown() == shown
    assert len(scene.requests("create_message")) == 1


@pytest.mark.parametrize("commit", ["before", "never"])
async def test_no_answer_within_the_deadline_is_unknown(scene: Scene, commit: str) -> None:
    rule = scene.discord.faults.add(hang(60, commit), route="create_message")  # type: ignore[arg-type]
    with pytest.raises(DeliveryUnknown):
        await scene.channel.create_message(scene.home, BODY, "n1", 0.2)

    assert rule.hits == 1
    rule.release()


async def test_an_unknown_create_is_found_by_its_nonce(scene: Scene) -> None:
    scene.discord.faults.add(commit_then(502), route="create_message")
    with pytest.raises(DeliveryUnknown):
        await scene.create()
    made = await scene.create()

    assert [one.id for one in scene.discord.messages(scene.home)][1:] == [made]
    assert scene.requests("create_message")[-1].nonce_hit


@pytest.mark.parametrize(
    "fault", [commit_then(502), rate_limited("bucket", 0.05)], ids=["502", "429"]
)
async def test_nothing_of_a_failed_call_holds_the_next_one_up(
    scene: Scene, fault: RestFault
) -> None:
    # discord.py would sleep a second with the route's only slot in its hand, and try again.
    scene.discord.faults.add(fault, route="create_message")
    with pytest.raises((DeliveryUnknown, ChannelBusy)):
        await scene.create()
    await asyncio.wait_for(_eventually(scene, 0.5), 60)

    assert scene.shown() == ["an answer"]
    assert len(scene.requests("create_message")) == 2


async def _act(scene: Scene, method: str, ref: MessageRef) -> None:
    match method:
        case "PATCH":
            await scene.channel.edit_message(ref, MessageBody("new"), SECONDS)
        case "DELETE":
            await scene.channel.delete_message(ref, SECONDS)
        case "POST":
            await scene.channel.open_thread(scene.trigger, "Title", SECONDS)
        case _:
            await scene.channel.add_reaction(scene.trigger, "👀", SECONDS)


@pytest.mark.parametrize("method", ["PATCH", "DELETE", "POST", "PUT"])
@pytest.mark.parametrize("fault", [commit_then(502), commit_then_drop()], ids=["502", "drop"])
async def test_other_writes_are_tried_once_too(scene: Scene, method: str, fault: RestFault) -> None:
    ref = MessageRef(scene.home, await scene.create())
    scene.discord.faults.add(fault, method=method, times=-1)
    before = len(scene.discord.journal.requests)
    with pytest.raises(DeliveryUnknown):
        await _act(scene, method, ref)

    assert len(scene.discord.journal.requests) == before + 1


@pytest.mark.parametrize("kind", ["bucket", "sub_limit", "global", "long", "no_via"])
async def test_each_kind_of_429_is_told_at_once_and_nothing_was_done(
    scene: Scene, kind: str
) -> None:
    scene.discord.faults.add(rate_limited(kind, 300.0), route="create_message")  # type: ignore[arg-type]
    began = time.monotonic()
    with pytest.raises(ChannelBusy) as busy:
        await scene.create()

    assert time.monotonic() - began < 60
    assert busy.value.retry_after == 300.0
    assert scene.shown() == []
    assert len(scene.requests("create_message")) == 1
    assert scene.invalid == ([] if kind == "long" else [429])


async def test_a_limited_route_is_left_alone_until_its_time(scene: Scene) -> None:
    scene.discord.faults.add(rate_limited("long"), route="create_message")
    for _ in range(3):
        with pytest.raises(ChannelBusy):
            await scene.create()
    await scene.channel.add_reaction(scene.trigger, "👀", SECONDS)

    assert len(scene.requests("create_message")) == 1


async def test_a_global_limit_stops_every_route_and_ends(scene: Scene) -> None:
    scene.discord.faults.add(rate_limited("global", 0.3), route="create_message")
    with pytest.raises(ChannelBusy):
        await scene.create()
    with pytest.raises(ChannelBusy) as busy:
        await scene.channel.add_reaction(scene.trigger, "👀", SECONDS)
    assert busy.value.retry_after is not None
    await asyncio.wait_for(_eventually(scene), 60)

    assert scene.shown() == ["an answer"]


async def _eventually(scene: Scene, seconds: float = SECONDS) -> None:
    while True:
        try:
            await scene.channel.create_message(scene.home, BODY, "n1", seconds)
        except ChannelBusy as busy:
            await asyncio.sleep(busy.retry_after or 0)
        else:
            return


async def test_an_answer_counts_although_the_bucket_is_used_up(scene: Scene) -> None:
    # discord.py sleeps after the bucket's last request, before it gives its answer back.
    began = time.monotonic()
    made = [await scene.create(nonce=f"n{number}") for number in range(5)]

    assert len(set(made)) == 5
    assert time.monotonic() - began < 3


async def test_a_call_that_is_still_queued_at_its_deadline_was_not_made(scene: Scene) -> None:
    for number in range(5):
        await scene.create(nonce=f"n{number}")
    with pytest.raises(ChannelUnreachable):
        await scene.channel.create_message(scene.home, BODY, "n5", 0.2)

    assert len(scene.requests("create_message")) == 5


async def test_calls_behind_a_used_up_bucket_go_on_in_time(scene: Scene) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(
                scene.channel.create_message(scene.home, BODY, f"n{number}", 15), name=f"{number}"
            )

    assert len(scene.shown()) == 8
    assert {one.status for one in scene.requests("create_message")} == {200}


async def test_a_refused_connection_was_certainly_not_made() -> None:
    async with LoopbackDiscord() as discord:
        bot, home = discord.add_bot("sol"), discord.add_channel("general")
        rest = DiscordRest(bot.token, discord.api_base)
        await rest.login()
    try:
        with pytest.raises(ChannelUnreachable):
            await DiscordChannel(rest).create_message(PlatformId(home.id), BODY, "n1", SECONDS)
    finally:
        await rest.close()
    with pytest.raises(ChannelUnreachable, match="not logged in"):
        await DiscordChannel(rest).create_message(PlatformId(home.id), BODY, "n1", SECONDS)


async def test_login_without_a_server_may_be_tried_again() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
    rest = DiscordRest(bot.token, discord.api_base)
    try:
        with pytest.raises(ChannelUnreachable):
            await rest.login()
        async with LoopbackDiscord(discord.port) as other:
            again = other.add_bot("sol", token=bot.token)
            assert (await rest.login()).account == again.id
    finally:
        await rest.close()


async def test_a_permit_that_ends_keeps_every_byte_at_home(scene: Scene) -> None:
    asked: list[int] = []

    def permit() -> bool:
        asked.append(len(scene.discord.journal.requests))
        return len(asked) < 2

    channel = scene.channel.guarded(permit)
    await channel.create_message(scene.home, BODY, "n1", SECONDS)
    with pytest.raises(ChannelUnreachable):
        await channel.create_message(scene.home, BODY, "n2", SECONDS)

    assert len(asked) == 2
    assert scene.shown() == ["an answer"]
    assert len(scene.requests("create_message")) == 1


async def test_a_cancelled_call_leaves_nothing_running(scene: Scene) -> None:
    rule = scene.discord.faults.add(hang(60), route="create_message")
    calling = spawn("calling", scene.create())
    await rule.wait_hits()
    await end(calling)
    rule.release()

    assert calling.cancelled()


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (50013, Refusal.FORBIDDEN),
        (50001, Refusal.FORBIDDEN),
        (160005, Refusal.LOCKED),
        (200000, Refusal.BLOCKED),
        (160002, Refusal.REFERENCE_INVALID),
    ],
)
async def test_refusals_are_named(scene: Scene, code: int, refusal: Refusal) -> None:
    scene.discord.faults.add(refuse(code), route="create_message")
    with pytest.raises(ChannelRejected) as refused:
        await scene.create()

    assert (refused.value.refusal, refused.value.code) == (refusal, code)


async def test_an_old_message_can_be_edited_no_more(scene: Scene) -> None:
    ref = MessageRef(scene.home, await scene.create())
    scene.discord.faults.add(refuse(30046), route="edit_message")
    with pytest.raises(ChannelRejected) as refused:
        await scene.channel.edit_message(ref, MessageBody("new"), SECONDS)

    assert refused.value.refusal is Refusal.EDIT_TOO_OLD


async def test_invalid_requests_and_the_clocks_difference_are_told(scene: Scene) -> None:
    scene.discord.faults.add(refuse(50013, status=403), route="create_message")
    with pytest.raises(ChannelRejected):
        await scene.create()

    assert scene.invalid == [403]
    assert scene.skews
    assert all(abs(skew) < 5 for skew in scene.skews)


async def test_the_length_limit_counts_code_points(scene: Scene) -> None:
    await scene.create(MessageBody("😀" * 2000))
    with pytest.raises(ChannelRejected) as refused:
        await scene.create(MessageBody("😀" * 2001), "n2")

    assert refused.value.refusal is Refusal.INVALID_BODY


async def test_a_reply_pings_only_the_named_author(scene: Scene) -> None:
    asker = PlatformId(scene.asked.author.id)
    target = PlatformId(scene.asked.id)
    await scene.create(MessageBody("for you", mention=asker, reply_to=target), "n1")
    await scene.create(MessageBody("quietly", reply_to=target), "n2")
    await scene.create(MessageBody(f"<@{asker}> @everyone", mention=asker), "n3")
    await scene.create(MessageBody(f"<@{asker}> @everyone"), "n4")
    pings = [one.pings for one in scene.discord.messages(scene.home)[1:]]

    assert pings == [{asker}, set(), {asker}, set()]


async def test_a_reply_to_what_is_gone_is_posted_without_it(scene: Scene) -> None:
    made = await scene.create(MessageBody("hi", reply_to=PlatformId("1")))

    assert scene.discord.messages(scene.home)[-1].id == made


async def test_a_presentation_message_is_silent_and_has_its_button(scene: Scene) -> None:
    stop = Button("openab:stop:t1", "Stop", "danger")
    ref = MessageRef(scene.home, await scene.create(presentation_body("working", (stop,))))
    message = scene.discord.messages(scene.home)[-1]
    assert message.flags & (1 << 12)
    assert message.components[0]["components"][0]["custom_id"] == "openab:stop:t1"
    await scene.channel.edit_message(ref, presentation_body("done"), SECONDS)

    assert (message.content, message.components) == ("-# done", [])
    assert message.flags & (1 << 12)


async def test_a_thread_is_opened_once_and_its_facts_are_known(scene: Scene) -> None:
    thread = await scene.channel.open_thread(scene.trigger, " \0 ", SECONDS)
    facts = await fetch_thread_facts(scene.rest, thread, SECONDS)

    assert thread == scene.asked.id
    assert (facts.exists, facts.archived, facts.locked, facts.member) == (True, False, False, True)
    assert facts.parent == scene.home
    assert scene.discord.threads(scene.home)[0].name == "openab"


async def test_two_bots_race_for_a_thread_and_one_is_told_that_it_exists(scene: Scene) -> None:
    other = scene.discord.add_bot("luna")
    async with logged_in(scene.discord, other) as rest:
        results = await asyncio.gather(
            scene.channel.open_thread(scene.trigger, "A", SECONDS),
            DiscordChannel(rest).open_thread(scene.trigger, "B", SECONDS),
            return_exceptions=True,
        )
    opened = [one for one in results if isinstance(one, str)]
    (refused,) = [one for one in results if isinstance(one, ChannelRejected)]

    assert opened == [scene.asked.id]
    assert refused.refusal is Refusal.THREAD_EXISTS


async def test_a_thread_that_is_gone_is_told_apart_from_a_forbidden_one(scene: Scene) -> None:
    thread = await scene.channel.open_thread(scene.trigger, "Title", SECONDS)
    scene.discord.faults.add(refuse(50001), method="GET")
    with pytest.raises(ChannelRejected) as refused:
        await fetch_thread_facts(scene.rest, thread, SECONDS)
    assert refused.value.refusal is Refusal.FORBIDDEN
    scene.discord.world.channel(thread).deleted = True

    assert not (await fetch_thread_facts(scene.rest, thread, SECONDS)).exists


@pytest.mark.parametrize("fault", [server_error(503), drop_before_commit()], ids=["503", "drop"])
async def test_a_read_is_never_in_doubt(scene: Scene, fault: RestFault) -> None:
    scene.discord.faults.add(fault, method="GET", times=2)
    with pytest.raises(ChannelUnreachable):
        await scene.channel.fetch_message(scene.trigger, SECONDS)
