"""What is shown under a sub-agent's name: by which webhook, once, and what is done where there is none."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from openab.domain.delivery import DeadReason, DeliveryState, Purpose
from openab.domain.gates import BotMode, Disposition, GatePolicy
from openab.domain.ids import DeliveryId, PlatformId
from openab.domain.message import AuthorKind, InboundMessage, Place
from openab.domain.outbound import persona_body, presentation_body
from openab.ports.channel import (
    ChannelBusy,
    ChannelUnreachable,
    DeliveryUnknown,
    Refusal,
)
from openab.storage import bindings, conversations, schema, webhooks
from openab.storage.engine import Database
from tests.builders import (
    ACCOUNT,
    HOME,
    a_binding,
    a_message,
    a_ref,
    a_session,
    an_author,
)
from tests.conformance.test_control_deliveries import THREAD, Box, refused
from tests.conformance.test_control_handoffs import Ear

POST, FIND, MAKE = "post_as_persona", "find_webhook", "make_webhook"
BODY = persona_body("Look into it.", "fable")
KEY = "spawn:s1:task:v1"


@pytest.fixture
async def box(database: Database) -> Box:
    made = Box(database)
    await made.take()
    return made


async def owe_task(box: Box, key: str = KEY) -> DeliveryId:
    return await box.owe(key, purpose=Purpose.TASK, body=BODY)


async def known(box: Box) -> PlatformId | None:
    async with box.database.read() as tx:
        return await webhooks.of_parent(tx, ACCOUNT, HOME)


def personas(box: Box) -> list[str]:
    """Who has shown something in the thread, webhooks by their ids."""
    return [str(one.author_id) for one in box.channel.posted(THREAD)]


def echo(box: Box, message: str, author: str, text: str = BODY.content) -> InboundMessage:
    """What a webhook has said, as the gateway tells it."""
    speaker = replace(an_author(author), kind=AuthorKind.WEBHOOK)
    heard = a_message(
        text,
        message_id=message,
        ref=a_ref(THREAD, HOME),
        place=Place.THREAD,
        author=speaker,
        mentions=(),
    )
    return replace(heard, silent=True)


class TestATask:
    async def test_is_posted_by_a_webhook_that_was_committed_before(self, box: Box) -> None:
        seen: list[PlatformId | None] = []
        post = box.channel.post_as_persona

        async def watched(*args: object, **named: object) -> PlatformId:
            seen.append(await known(box))
            return await post(*args, **named)  # type: ignore[arg-type]

        box.channel.post_as_persona = watched  # type: ignore[method-assign]
        await owe_task(box)
        await box.run()
        (call,) = box.channel.calls_of(POST)
        row = await box.row(KEY)
        (shown,) = box.channel.posted(THREAD)
        assert seen == [shown.author_id]
        assert (row.state, row.platform_id) == (DeliveryState.SENT, shown.message_id)
        assert call.body is not None
        assert (call.body.persona, call.body.mention) == ("fable", None)
        assert (call.body.content, call.body.silent) == ("-# Look into it.", True)

    async def test_takes_the_webhook_that_is_known_or_was_left_behind(self, box: Box) -> None:
        left = await box.channel.make_webhook(HOME, 1)
        for number in range(2):
            await owe_task(box, f"spawn:s{number}:task:v1")
        await box.run()
        assert personas(box) == [left, left]
        assert len(box.channel.calls_of(MAKE)) == 1
        assert len(box.channel.calls_of(FIND)) == 1

    async def test_of_two_threads_at_once_is_shown_by_one_webhook(self, box: Box) -> None:
        other = PlatformId("70")

        async def between(*args: object, **named: object) -> PlatformId:
            # Another thread's owner makes one first, and its id is the smaller one.
            box.channel.webhooks.setdefault(HOME, []).insert(0, other)
            return await make(*args, **named)  # type: ignore[arg-type]

        make, box.channel.make_webhook = box.channel.make_webhook, between  # type: ignore[method-assign]
        await owe_task(box)
        await box.run()
        assert (personas(box), await known(box)) == ([other], other)

    async def test_is_posted_anew_by_another_webhook_when_its_own_is_gone(self, box: Box) -> None:
        await owe_task(box, "spawn:s0:task:v1")
        await box.run()
        first = await known(box)
        assert first is not None
        box.channel.delete_webhook(first)
        await owe_task(box)
        await box.run()
        second = await known(box)
        assert second not in {first, None}
        assert personas(box) == [first, second]
        assert (await box.state(KEY)) == "sent"

    async def test_whose_webhook_is_gone_leaves_alone_the_one_that_took_its_place(
        self, box: Box
    ) -> None:
        """Another thread of the channel had met the same refusal, and has found another webhook since."""
        await owe_task(box, "spawn:s0:task:v1")
        await box.run()
        first = await known(box)
        assert first is not None
        post = box.channel.post_as_persona

        async def replaced(*args: object, **named: object) -> PlatformId:
            box.channel.post_as_persona = post  # type: ignore[method-assign]
            box.channel.delete_webhook(first)
            second = await box.channel.make_webhook(HOME, 1)
            async with box.database.transaction() as tx:
                await webhooks.keep(tx, ACCOUNT, HOME, second)
            raise refused(Refusal.WEBHOOK_GONE)

        box.channel.post_as_persona = replaced  # type: ignore[method-assign]
        await owe_task(box)
        looked = len(box.channel.calls_of(FIND))
        await box.run()
        assert await box.state(KEY) == "sent"
        assert personas(box) == [first, await known(box)]
        # It was never forgotten, so that its echo was known as ours all the time.
        assert len(box.channel.calls_of(FIND)) == looked

    async def test_whose_webhooks_vanish_again_and_again_is_said_by_the_bot(self, box: Box) -> None:
        box.channel.fail(POST, refused(Refusal.WEBHOOK_GONE), times=99)
        await owe_task(box)
        await box.run()
        assert len(box.channel.calls_of(POST)) == 3
        assert personas(box) == [ACCOUNT]

    @pytest.mark.parametrize("method", [FIND, MAKE, POST])
    @pytest.mark.parametrize(
        "refusal", [Refusal.FORBIDDEN, Refusal.WEBHOOK_LIMIT, Refusal.INVALID_BODY, Refusal.OTHER]
    )
    async def test_without_a_webhook_is_said_by_the_bot_itself(
        self, box: Box, method: str, refusal: Refusal
    ) -> None:
        box.channel.fail(method, refused(refusal))
        await owe_task(box)
        await box.run()
        row = await box.row(KEY)
        assert (row.state, row.dead_reason) == (DeliveryState.DEAD, DeadReason.SUPERSEDED)
        (shown,) = box.channel.posted(THREAD)
        assert str(shown.author_id) == ACCOUNT
        assert shown.body == presentation_body(BODY.content)
        assert (await box.row("spawn:s1:task:v2")).purpose is Purpose.NOTICE

    async def test_where_there_is_no_channel_above_is_said_by_the_bot_itself(
        self, database: Database
    ) -> None:
        box = Box(database)
        await box.take()
        box.outbox._personas._where = replace(box.where, place=Place.DM)
        await owe_task(box)
        await box.run()
        assert personas(box) == [ACCOUNT]
        assert not box.channel.calls_of(FIND)

    async def test_in_a_conversation_that_is_gone_is_dead_like_any_message(self, box: Box) -> None:
        await box.channel.make_webhook(HOME, 1)
        box.channel.close_conversation(THREAD)
        await owe_task(box)
        await box.run()
        row = await box.row(KEY)
        assert row.dead_reason is DeadReason.CONVERSATION_GONE

    async def test_waits_while_the_token_is_refused(self, box: Box) -> None:
        box.channel.fail(FIND, refused(Refusal.UNAUTHORIZED))
        await owe_task(box)
        await box.run()
        assert (await box.state(KEY), personas(box)) == ("pending", [])
        await box.run_later(61)
        assert await box.state(KEY) == "sent"

    @pytest.mark.parametrize("method", [FIND, MAKE])
    @pytest.mark.parametrize(
        "error", [ChannelUnreachable("refused"), ChannelBusy("429", 2.0), DeliveryUnknown("502")]
    )
    async def test_holds_nothing_up_while_no_webhook_can_be_asked_for(
        self, box: Box, method: str, error: Exception
    ) -> None:
        box.channel.fail(method, error, times=2)  # type: ignore[arg-type]
        await owe_task(box)
        await box.owe("after:v1", "after")
        await box.run()
        assert box.shown() == ["after"]
        await box.run_later(6)
        await box.run_later(6)
        assert box.shown() == ["after", BODY.content]
        assert await box.state(KEY) == "sent"

    async def test_is_said_by_the_bot_if_nobody_can_be_asked_for_long(self, box: Box) -> None:
        box.channel.fail(FIND, ChannelUnreachable("refused"), times=99)
        await owe_task(box)
        for _ in range(3):
            await box.run_later(6)
        assert personas(box) == [ACCOUNT]

    async def test_that_made_a_webhook_in_doubt_finds_it_afterwards(self, box: Box) -> None:
        box.channel.fail(MAKE, DeliveryUnknown("502"), commits=True)
        await owe_task(box)
        await box.run()
        await box.run_later(6)
        assert len(box.channel.webhooks[HOME]) == 1
        assert personas(box) == box.channel.webhooks[HOME]


class TestATaskInDoubt:
    async def test_is_only_looked_for_and_found(self, box: Box) -> None:
        box.channel.fail(POST, DeliveryUnknown("502"), commits=True)
        await owe_task(box)
        await box.run()
        await box.run_later(10)
        assert await box.state(KEY) == "unknown"
        assert not box.channel.calls_of("history")
        await box.run_later(60)
        row = await box.row(KEY)
        assert (row.state, row.platform_id) == (
            DeliveryState.SENT,
            box.channel.posted(THREAD)[0].message_id,
        )
        assert len(box.channel.calls_of(POST)) == 1

    async def test_that_is_certainly_absent_is_posted_then(self, box: Box) -> None:
        box.channel.fail(POST, DeliveryUnknown("502"))
        await owe_task(box)
        await box.run()
        assert len(box.channel.calls_of(POST)) == 1
        await box.run_later(61)
        assert (await box.state(KEY), box.shown()) == ("sent", [BODY.content])

    async def test_repeated_blindly_would_be_there_twice(self, box: Box) -> None:
        """The negative control: no nonce keeps a webhook from saying it again."""
        box.channel.fail(POST, DeliveryUnknown("502"), commits=True)
        box.outbox._must_look = lambda _delivery, _now: False  # type: ignore[assignment,method-assign]
        await owe_task(box)
        await box.run()
        await box.run_later(3)
        assert box.shown() == [BODY.content, BODY.content]

    async def test_is_not_taken_for_what_somebody_else_said(self, box: Box) -> None:
        box.channel.fail(POST, DeliveryUnknown("502"))
        await owe_task(box)
        await box.run()
        for author in (ACCOUNT, "70"):
            box.channel.say(THREAD, BODY.content, author)
        await box.run_later(61)
        assert personas(box) == [ACCOUNT, "70", str(await known(box))]

    async def test_holds_nothing_up(self, box: Box) -> None:
        box.channel.fail(POST, DeliveryUnknown("502"), commits=True)
        await owe_task(box)
        await box.owe("after:v1", "after")
        await box.run_later(3)
        await box.run()
        assert box.shown() == [BODY.content, "after"]
        assert await box.state(KEY) == "unknown"

    async def test_whose_webhook_is_not_known_any_more_is_given_up(self, box: Box) -> None:
        box.channel.fail(POST, DeliveryUnknown("502"))
        await owe_task(box)
        await box.run()
        webhook = await known(box)
        assert webhook is not None
        async with box.database.transaction() as tx:
            await webhooks.forget(tx, ACCOUNT, webhook)
        await box.run_later(61)
        row = await box.row(KEY)
        assert (row.dead_reason, box.shown()) == (DeadReason.UNCLEAR, [])

    async def test_after_a_crash_is_looked_for_by_the_next_owner(self, box: Box) -> None:
        box.channel.fail(POST, DeliveryUnknown("502"), commits=True)
        await owe_task(box)
        await box.run()
        async with box.database.transaction() as tx:
            row = schema.deliveries
            await tx.execute(sa.update(row).values({"state": "sending"}).where(row.c.key == KEY))
        await box.take()
        await box.outbox.recover()
        await box.run_later(61)
        assert (await box.state(KEY), len(box.channel.calls_of(POST))) == ("sent", 1)


class TestAnEcho:
    async def test_of_a_webhook_that_was_not_committed_to_would_be_a_strangers(
        self, box: Box
    ) -> None:
        """The negative control: an id that is noted after the post is noted too late."""
        ear = Ear(box.database)
        await ear.hears(early := echo(box, "9999", "70"))
        assert (await ear.entry(early)).disposition is Disposition.IGNORED
        async with box.database.transaction() as tx:
            assert (await conversations.get(tx, box.where.id)).has_other_bot
            await webhooks.keep(tx, ACCOUNT, HOME, PlatformId("70"))
        await ear.hears(late := echo(box, "9998", "70"))
        assert (await ear.entry(late)).disposition is Disposition.ECHO

    async def test_that_comes_before_the_answer_settles_the_post(self, box: Box) -> None:
        ear = Ear(box.database)
        post = box.channel.post_as_persona

        async def echoed(*args: object, **named: object) -> PlatformId:
            made = await post(*args, **named)  # type: ignore[arg-type]
            (posted,) = box.channel.posted(THREAD)
            await ear.hears(echo(box, made, posted.author_id))
            raise DeliveryUnknown("no answer")

        box.channel.post_as_persona = echoed  # type: ignore[method-assign]
        await owe_task(box)
        await box.run()
        await box.run_later(3)
        row = await box.row(KEY)
        assert (row.state, row.platform_id) == (
            DeliveryState.SENT,
            box.channel.posted(THREAD)[0].message_id,
        )
        assert not box.channel.calls_of("history")

    async def test_that_is_read_from_history_settles_the_post_too(self, box: Box) -> None:
        ear = Ear(box.database)
        box.channel.fail(POST, DeliveryUnknown("502"), commits=True)
        await owe_task(box)
        await box.run()
        (posted,) = box.channel.posted(THREAD)
        seen = echo(box, posted.message_id, posted.author_id)
        await ear.hears(replace(seen, from_history=True))
        await box.run()
        assert (await box.row(KEY)).platform_id == posted.message_id
        assert await box.state(KEY) == "sent"
        assert not box.channel.calls_of("history")

    async def test_starts_nothing_and_counts_as_no_bot(self, box: Box) -> None:
        ear = Ear(box.database, GatePolicy(ACCOUNT, bot_mode=BotMode.ALL))
        await owe_task(box)
        await box.run()
        (posted,) = box.channel.posted(THREAD)
        heard = echo(box, posted.message_id, posted.author_id)
        # Not even one that was said aloud: people may post by our webhook, too.
        loud = replace(echo(box, "9999", posted.author_id, f"<@{ACCOUNT}> go"), silent=False)
        await ear.hears(heard)
        assert await self._bots(box) == (False, 0, 0)
        await ear.hears(loud)
        assert (await self._bots(box))[0] is False
        for one in (heard, loud):
            assert (await ear.entry(one)).disposition is Disposition.ECHO
        assert not await ear.turns()

    async def _bots(self, box: Box) -> tuple[bool, int, int]:
        async with box.database.read() as tx:
            here = await conversations.get(tx, box.where.id)
        return here.has_other_bot, here.bots.turns, here.bots.messages

    async def test_of_a_webhook_that_is_gone_since_is_still_ours(self, box: Box) -> None:
        ear = Ear(box.database)
        await owe_task(box)
        await box.run()
        (posted,) = box.channel.posted(THREAD)
        async with box.database.transaction() as tx:
            await webhooks.forget(tx, ACCOUNT, posted.author_id)
        late = echo(box, posted.message_id, posted.author_id)
        await ear.hears(late)
        assert (await ear.entry(late)).disposition is Disposition.ECHO

    async def test_settles_no_row_but_a_tasks(self, box: Box) -> None:
        ear = Ear(box.database)
        await owe_task(box, "spawn:s0:task:v1")
        await box.run()
        webhook = await known(box)
        assert webhook is not None
        box.channel.fail("create_message", DeliveryUnknown("502"))
        await box.owe(text=BODY.content)
        await box.run()
        await ear.hears(echo(box, "9999", webhook))
        assert (await box.row()).platform_id is None

    async def test_of_another_account_is_somebody_else(self, box: Box) -> None:
        ear = Ear(box.database)
        async with box.database.transaction() as tx:
            await webhooks.keep(tx, "901", HOME, PlatformId("70"))  # type: ignore[arg-type]
        heard = echo(box, "9999", "70")
        await ear.hears(heard)
        assert (await ear.entry(heard)).disposition is Disposition.IGNORED


async def test_a_third_partys_webhook_is_heard_as_before(box: Box) -> None:
    """Our own id is the only one that is ours: dropping every webhook would make people's tools mute."""
    ear = Ear(box.database, GatePolicy(ACCOUNT, bot_mode=BotMode.ALL))
    await owe_task(box)
    await box.run()
    async with box.database.transaction() as tx:
        await conversations.mark_involved(tx, box.where.id)
    heard = replace(
        echo(box, "9999", "70", f"<@{ACCOUNT}> the build is broken"),
        silent=False,
        mentioned_users=frozenset({PlatformId(ACCOUNT)}),
    )
    await ear.hears(heard)
    assert (await ear.entry(heard)).disposition is Disposition.TURN
    async with box.database.read() as tx:
        here = await conversations.get(tx, box.where.id)
    assert here.has_other_bot


class TestActivity:
    async def _moments(self, box: Box) -> tuple[datetime, datetime | None]:
        async with box.database.read() as tx:
            found = await bindings.active_in(tx, box.where.id)
            of_account = schema.accounts.c.account == ACCOUNT
            query = sa.select(schema.accounts.c.last_outbound_at).where(of_account)
            outbound: datetime | None = (await tx.execute(query)).scalar_one()
        assert found is not None
        return found.binding.last_activity_at, outbound

    async def _bound(self, box: Box) -> None:
        async with box.database.transaction() as tx:
            session = await a_session(tx, box.where)
            await a_binding(tx, box.where, session)
            await tx.execute(
                sa.insert(schema.accounts).values(channel="discord", account=ACCOUNT, name="bot")
            )

    @pytest.mark.parametrize("purpose", [Purpose.TASK, Purpose.NOTICE])
    async def test_moves_when_a_send_is_confirmed(self, box: Box, purpose: Purpose) -> None:
        await self._bound(box)
        before, never = await self._moments(box)
        box.clock.pass_by(100)
        await box.owe(KEY, purpose=purpose, body=BODY)
        await box.run()
        active, outbound = await self._moments(box)
        assert never is None
        assert outbound is not None
        assert min(active, outbound) - before > timedelta(seconds=99)

    @pytest.mark.parametrize("method", [POST, "create_message"])
    async def test_stays_while_nothing_was_sent(self, box: Box, method: str) -> None:
        await self._bound(box)
        before = await self._moments(box)
        box.clock.pass_by(100)
        box.channel.fail(method, ChannelUnreachable("refused"), times=99)
        await box.owe(KEY, purpose=Purpose.TASK if method == POST else Purpose.NOTICE, body=BODY)
        await box.run()
        assert await self._moments(box) == before
