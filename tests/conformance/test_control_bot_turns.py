"""Bots among themselves: counted before anything is gated, and told once when it is enough."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from openab.control.intake import Intake
from openab.domain.delivery import DeliveryState, Purpose
from openab.domain.gates import BotMode, GatePolicy, UserMode
from openab.domain.ids import AccountId, ConversationRef, MessageRef, PlatformId
from openab.domain.message import Author, AuthorKind, InboundMessage, MessageKind, Place
from openab.domain.outbound import presentation_body
from openab.ports.channel import ChannelUnreachable
from openab.ports.signals import Signals
from openab.ports.tasks import end, spawn
from openab.storage import accounts, conversations, deliveries, inbox
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery
from openab.storage.engine import Database
from openab.text import notices
from tests.builders import CHANNEL, HOME, a_message, an_author, some_settings
from tests.conformance.control_stage import Stage, on_stage

THREAD = PlatformId("500")
ANN = an_author("31")
FOREIGN = [an_author(str(50 + n), AuthorKind.BOT) for n in range(9)]


class Ear:
    """One bot's intake: it hears what all say in one thread, and answers nobody."""

    def __init__(self, database: Database, account: str, **policy: object) -> None:
        self.account = AccountId(account)
        self.database = database
        self.signals = Signals()
        self.told_off: list[MessageRef] = []
        self.policy = GatePolicy(self.account, **policy)  # type: ignore[arg-type]
        settings = some_settings(account=self.account, policy=lambda: self.policy)
        self.intake = Intake(
            database, settings, lambda _where: None, self.told_off.append, self.signals
        )
        self._commits = 0

    async def hears(self, *messages: InboundMessage) -> None:
        async with self.database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, self.account, "bot")
        for message in messages:
            self.intake.put(self._as_heard(message))
        task = spawn("intake", self.intake.run())
        try:
            self._commits += 1
            await self.signals.wait("intake_committed", times=self._commits)
        finally:
            await end(task)

    def _as_heard(self, message: InboundMessage) -> InboundMessage:
        own = message.author.id == str(self.account)
        kind = AuthorKind.SELF if own else message.author.kind
        ref = message.conversation
        return replace(
            message,
            author=replace(message.author, kind=kind),
            conversation=replace(ref, account=self.account),
        )

    async def here(self) -> Conversation:
        ref = ConversationRef(CHANNEL, self.account, THREAD, HOME)
        async with self.database.read() as tx:
            found = await conversations.find(tx, ref)
        assert found is not None
        return found

    async def warnings(self) -> list[Delivery]:
        where = await self.here()
        async with self.database.read() as tx:
            rows = await deliveries.open_of(tx, where.id)
        return [row for row in rows if row.purpose is Purpose.CAP_WARNING]

    async def reason(self, message: InboundMessage) -> str:
        async with self.database.read() as tx:
            found = await inbox.get(tx, self.account, "message", message.message_id)
        assert found is not None
        return found.reason


def said(number: int, author: Author, text: str = "hi", **changes: object) -> InboundMessage:
    message = a_message(text, message_id=str(1000 + number), author=author, mentions=())
    ref = ConversationRef(CHANNEL, AccountId("900"), THREAD, HOME)
    return replace(message, conversation=ref, place=Place.THREAD, **changes)  # type: ignore[arg-type]


def talk(*speakers: Author, start: int = 1) -> list[InboundMessage]:
    return [said(start + number, speaker) for number, speaker in enumerate(speakers)]


def to(account: str, number: int = 0) -> InboundMessage:
    """Ann asks a bot, which makes it a participant."""
    return said(number, ANN, f"<@{account}> go", mentioned_users=frozenset({PlatformId(account)}))


class TestTheCount:
    async def test_is_kept_whatever_becomes_of_the_messages(self, database: Database) -> None:
        ear = Ear(database, "900", allowed_channels=frozenset({"1"}))
        await ear.hears(*talk(ANN, *FOREIGN[:3], FOREIGN[2]))
        here = await ear.here()
        assert (here.bots.turns, here.bots.messages) == (3, 4)
        assert here.bots.other_bots == tuple(bot.id for bot in FOREIGN[:3])
        assert here.bots.last_human == PlatformId("1001")

    async def test_begins_anew_with_a_persons_text_only(self, database: Database) -> None:
        ear = Ear(database, "900")
        await ear.hears(*talk(*FOREIGN[:2]), said(3, ANN, "", kind=MessageKind.SYSTEM))
        assert (await ear.here()).bots.turns == 2
        await ear.hears(said(4, ANN, "stop"))
        assert (await ear.here()).bots.turns == 0
        assert (await ear.here()).has_other_bot

    async def test_a_message_seen_twice_counts_once(self, database: Database) -> None:
        ear = Ear(database, "900")
        (message,) = talk(FOREIGN[0])
        await ear.hears(message, message)
        await ear.hears(message)
        assert (await ear.here()).bots.messages == 1

    async def test_two_replicas_count_together(self, database: Database) -> None:
        one, other = Ear(database, "900"), Ear(database, "900")
        odd, even = talk(*FOREIGN[:9:2]), talk(*FOREIGN[1:8:2], start=20)
        await asyncio.gather(
            *(one.hears(message) for message in odd[:1]),
            *(other.hears(message) for message in even[:1]),
        )
        for messages in zip(odd[1:], even[1:], strict=False):
            await asyncio.gather(one.hears(messages[0]), other.hears(messages[1]))
        assert (await one.here()).bots.messages == 8


class TestTheCap:
    async def test_stops_every_bot_and_is_told_by_a_participant(self, database: Database) -> None:
        ear = Ear(database, "900", max_bot_turns=3, bot_mode=BotMode.MENTIONS)
        await ear.hears(to("900"))
        calls = [
            replace(message, mentioned_users=frozenset({PlatformId("900")}))
            for message in talk(*FOREIGN[:5])
        ]
        await ear.hears(*calls)
        reasons = [await ear.reason(call) for call in calls]
        assert reasons == ["accepted"] * 2 + ["bot_turn_cap"] * 3
        (warning,) = await ear.warnings()
        assert "Bot turn limit reached (3/3)" in warning.body.content
        assert warning.body.silent
        assert warning.body.mention is None

    async def test_a_person_ends_it_and_it_can_be_reached_again(self, database: Database) -> None:
        ear = Ear(database, "900", max_bot_turns=2)
        await ear.hears(to("900"), *talk(*FOREIGN[:3]), said(8, ANN), *talk(*FOREIGN[:3], start=10))
        keys = [row.key for row in await ear.warnings()]
        assert len(keys) == len(set(keys)) == 2

    @pytest.mark.parametrize(
        ("policy", "asked"),
        [({}, "901"), ({"allowed_channels": frozenset({"1"})}, "900")],
    )
    async def test_who_takes_no_part_or_may_not_listen_says_nothing(
        self, database: Database, policy: dict[str, object], asked: str
    ) -> None:
        ear = Ear(database, "900", max_bot_turns=2, **policy)
        await ear.hears(to(asked), *talk(*FOREIGN[:5]))
        assert await ear.warnings() == []

    async def test_the_warning_and_a_refusal_make_nobody_a_participant(
        self, database: Database
    ) -> None:
        ear = Ear(database, "900", max_bot_turns=2, allowed_users=frozenset({"1"}))
        me = an_author("900", AuthorKind.BOT)
        notice = presentation_body(notices.bot_turn_limit(2, 2)).content
        await ear.hears(to("900"), said(1, me, notice, silent=True))
        assert not (await ear.here()).is_involved
        assert ear.told_off
        await ear.hears(said(2, me, "an answer"))
        assert (await ear.here()).is_involved

    async def test_three_bots_of_one_database_owe_one_warning(self, database: Database) -> None:
        bots = [Ear(database, account, max_bot_turns=4) for account in ("900", "901", "902")]
        conversation = [
            said(0, ANN, "<@900> <@901> <@902> go", mentioned_users=_all(bots)),
            *talk(*(an_author(bot.account, AuthorKind.BOT) for bot in bots), *FOREIGN[:2]),
        ]
        await asyncio.gather(*(bot.hears(*conversation) for bot in bots))
        owed = [row for bot in bots for row in await bot.warnings()]
        assert len(owed) == 1


def _all(bots: Sequence[Ear]) -> frozenset[PlatformId]:
    return frozenset(PlatformId(bot.account) for bot in bots)


class TestTheWarning:
    async def test_is_sent_once(self, database: Database) -> None:
        settings = some_settings(policy=lambda: GatePolicy(AccountId("900"), max_bot_turns=2))
        async with on_stage(database, settings) as stage:
            await _until_capped(stage)
            await stage.until(lambda: _has_settled(stage, "sent"))
            assert _warnings(stage) == 1

    async def test_is_not_sent_where_a_bot_of_another_database_gave_it(
        self, database: Database
    ) -> None:
        settings = some_settings(policy=lambda: GatePolicy(AccountId("900"), max_bot_turns=2))
        async with on_stage(database, settings) as stage:
            told = "-# ⚠️ Bot turn limit reached (2/2). A human must reply in this thread."
            await _until_capped(stage, told)
            await stage.until(lambda: _has_settled(stage, "dead"))
            assert _warnings(stage) == 0

    async def test_is_sent_where_nobody_can_look(self, database: Database) -> None:
        settings = some_settings(policy=lambda: GatePolicy(AccountId("900"), max_bot_turns=2))
        async with on_stage(database, settings) as stage:
            stage.channel.fail("history", ChannelUnreachable("away"))
            await _until_capped(stage)
            await stage.until(lambda: _has_settled(stage, "sent"))


async def _until_capped(stage: Stage, told: str = "") -> None:
    asked = stage.say("go", thread="500")
    await stage.settled(asked)
    if told:
        stage.channel.say("500", told, "51")
    for bot in FOREIGN[:2]:
        stage.say("hi", thread="500", author=bot, mention=False)


async def _has_settled(stage: Stage, state: str) -> bool:
    async with stage.database.read() as tx:
        rows = await deliveries.listed(tx)
    found = [row for row in rows if row["purpose"] == Purpose.CAP_WARNING]
    return [row["state"] for row in found] == [DeliveryState(state)]


def _warnings(stage: Stage) -> int:
    posted = [call.body for call in stage.channel.calls if call.method == "create_message"]
    return sum("Bot turn limit" in body.content for body in posted if body)


class TestARestart:
    async def test_in_a_long_thread_of_several_bots_changes_nobodys_behaviour(
        self, database: Database
    ) -> None:
        modes = {"900": UserMode.MULTIBOT_MENTIONS, "901": UserMode.INVOLVED}
        before = {
            account: Ear(database, account, user_mode=mode, max_bot_turns=50)
            for account, mode in modes.items()
        }
        long = [to("900"), *talk(*FOREIGN[:3] * 10), to("901", 60)]
        answers = talk(*(an_author(account, AuthorKind.BOT) for account in modes), start=70)
        for ear in before.values():
            await ear.hears(*long, *answers)
        after = {
            account: Ear(database, account, user_mode=mode, max_bot_turns=50)
            for account, mode in modes.items()
        }
        plain, other = said(80, ANN, "and now"), said(81, ANN, "and then")
        reasons = []
        for life, message in ((before, plain), (after, other)):
            for ear in life.values():
                await ear.hears(message)
                reasons.append(await ear.reason(message))
        assert reasons == ["mention_needed_among_bots", "accepted"] * 2
        known = [await ear.here() for ear in after.values()]
        assert all(here.is_involved and here.has_other_bot for here in known)
