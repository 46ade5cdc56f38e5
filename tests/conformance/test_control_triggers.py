"""Reactions and runs of one bot: each becomes one turn, at its place, once."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from openab.control.intake import Intake
from openab.domain.gates import BotMode, Disposition, GatePolicy
from openab.domain.ids import ConversationRef, MessageRef, PlatformId
from openab.domain.message import Author, AuthorKind, InboundMessage, InboundReaction, Place
from openab.ports.signals import Signals
from openab.ports.tasks import end, spawn
from openab.storage import accounts, conversations, inbox, schema, turns
from openab.storage.conversations import Conversation
from openab.storage.engine import Database
from openab.storage.inbox import Entry
from openab.storage.turns import Turn
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    HOME,
    a_message,
    a_reaction,
    a_ref,
    an_author,
    some_settings,
)

THREAD = "500"
BOT, OTHER = an_author("50", AuthorKind.BOT), an_author("51", AuthorKind.BOT)
ANN = an_author("31")
MAPPING = {"👍": "do it", "🛑": "!cancel"}
ALL = GatePolicy(ACCOUNT, bot_mode=BotMode.ALL)


class Ear:
    """An intake alone: nobody runs what it accepts."""

    def __init__(
        self, database: Database, policy: GatePolicy, mapping: Mapping[str, str] | None = None
    ) -> None:
        self.database = database
        self.signals = Signals()
        self.woken: list[str] = []
        self.told_off: list[MessageRef] = []
        settings = some_settings(policy=lambda: policy, reaction_mapping=mapping or MAPPING)
        self.intake = Intake(
            database, settings, self.woken.append, self.told_off.append, self.signals
        )
        self._commits = 0

    async def hears(self, *events: InboundMessage | InboundReaction) -> None:
        async with self.database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
        for event in events:
            self.intake.put(event)
        task = spawn("intake", self.intake.run())
        try:
            self._commits += 1
            await self.signals.wait("intake_committed", times=self._commits)
        finally:
            await end(task)

    async def here(self, conversation: str = THREAD) -> Conversation:
        ref = ConversationRef(CHANNEL, ACCOUNT, PlatformId(conversation))
        async with self.database.read() as tx:
            found = await conversations.find(tx, ref)
        assert found is not None
        return found

    async def queued(self, conversation: str = THREAD) -> list[Turn]:
        where = await self.here(conversation)
        async with self.database.read() as tx:
            return await turns.open_of(tx, where.id)

    async def entry(self, kind: str, key: str) -> Entry:
        async with self.database.read() as tx:
            found = await inbox.get(tx, ACCOUNT, kind, key)
        assert found is not None
        return found


def said(
    number: int, author: Author = ANN, text: object = "hi", **changes: object
) -> InboundMessage:
    ref = a_ref(THREAD, HOME)
    message = a_message(
        message_id=str(number), author=author, mentions=(), ref=ref, place=Place.THREAD
    )
    return replace(message, text=text, **changes)  # type: ignore[arg-type]


def asked(number: int = 1000) -> InboundMessage:
    return said(number, text="<@900> go", mentioned_users=frozenset({PlatformId("900")}))


class TestAReaction:
    async def test_becomes_a_turn_with_the_mapped_text(self, database: Database) -> None:
        ear = Ear(database, GatePolicy(ACCOUNT))
        reaction = a_reaction(message_id="1001")
        await ear.hears(asked(), reaction)
        first, second = await ear.queued()
        assert first.batch[0].text == "go"
        assert second.batch[0].text == "do it"
        assert second.trigger == MessageRef(PlatformId(THREAD), PlatformId("1001"))
        assert second.requester_id == ANN.id
        entry = await ear.entry("reaction", reaction.key)
        assert (entry.disposition, entry.reason) == (Disposition.TURN, "reaction")
        assert entry.turn_id == second.id

    async def test_counts_once_however_often_it_is_told(self, database: Database) -> None:
        ear = Ear(database, GatePolicy(ACCOUNT))
        # On the very message that was a turn already, by two people.
        by_ann, by_bob = a_reaction(), a_reaction(author=an_author("32"))
        await ear.hears(asked(), by_ann, by_ann, by_bob)
        await ear.hears(by_ann)
        assert len(await ear.queued()) == 3

    async def test_keeps_its_place_among_the_messages(self, database: Database) -> None:
        ear = Ear(database, GatePolicy(ACCOUNT))
        await ear.hears(asked(), said(2000), a_reaction(), said(3000, text="last"))
        texts = [turn.batch[0].text for turn in await ear.queued()]
        assert texts == ["go", "hi", "do it", "last"]

    async def test_that_says_nothing_leaves_no_row(self, database: Database) -> None:
        ear = Ear(database, GatePolicy(ACCOUNT))
        custom = replace(a_reaction(), is_custom=True)
        await ear.hears(asked(), a_reaction("🎉"), custom)
        async with database.read() as tx:
            found = await tx.execute(sa.select(sa.func.count()).select_from(schema.inbox))
            assert found.scalar_one() == 1

    async def test_of_a_stranger_harms_nothing_and_is_explained(self, database: Database) -> None:
        ear = Ear(database, GatePolicy(ACCOUNT, allowed_users=frozenset({ANN.id})))
        reaction = a_reaction("🛑", author=an_author("32"))
        await ear.hears(asked(), reaction)
        (turn,) = await ear.queued()
        assert turn.cancel_requested_at is None
        assert (await ear.entry("reaction", reaction.key)).reason == "user_not_allowed"
        assert not ear.told_off
        async with database.read() as tx:
            assert len(await inbox.of_event(tx, "1000")) == 2

    async def test_can_be_a_command(self, database: Database) -> None:
        ear = Ear(database, GatePolicy(ACCOUNT))
        await ear.hears(asked(), a_reaction("🛑"))
        assert await ear.queued() == []

    def test_has_a_key_that_fits_whatever_the_emoji(self) -> None:
        long = a_reaction("👨‍👩‍👧‍👦" * 20, message_id="1" * 20, author=an_author("2" * 20))
        other = replace(long, emoji=long.emoji + "👍")
        assert max(len(long.key), len(other.key)) <= 64
        assert long.key != other.key


class TestARun:
    async def test_of_one_bot_is_one_turn_that_waits_for_the_rest(self, database: Database) -> None:
        ear = Ear(database, ALL)
        await ear.hears(asked(), *(said(1001 + n, BOT, f"part {n}") for n in range(3)))
        _, run = await ear.queued()
        assert [arrival.text for arrival in run.batch] == ["part 0", "part 1", "part 2"]
        assert run.not_before is not None
        assert (await ear.entry("message", "1003")).turn_id == run.id
        assert (await ear.entry("message", "1003")).reason == "joined_run"

    async def test_is_over_when_somebody_else_speaks(self, database: Database) -> None:
        ear = Ear(database, ALL)
        await ear.hears(asked(), said(1001, BOT, "one"), said(1002, OTHER, "two"))
        _, run, other = await ear.queued()
        assert run.not_before is None
        assert other.not_before is not None
        await ear.hears(said(1003, BOT, "three"))
        assert [turn.batch[0].text for turn in await ear.queued()] == ["go", "one", "two", "three"]

    async def test_is_not_over_when_a_bot_only_shows_something(self, database: Database) -> None:
        ear = Ear(database, ALL)
        shown = said(1002, OTHER, "-# ⏳ at work", silent=True)
        await ear.hears(asked(), said(1001, BOT, "one"), shown)
        await ear.hears(said(1003, BOT, "two"))
        _, run = await ear.queued()
        assert len(run.batch) == 2

    async def test_is_over_after_three_seconds_and_never_longer_than_half_a_minute(
        self, database: Database, moved: list[timedelta]
    ) -> None:
        ear = Ear(database, ALL)
        await ear.hears(asked(), said(1001, BOT, "one"))
        moved[0] += timedelta(seconds=4)
        await ear.hears(said(1002, BOT, "another"))
        number = 1003
        while moved[0] < timedelta(seconds=40):
            moved[0] += timedelta(seconds=2)
            await ear.hears(said(number, BOT, "more"))
            number += 1
        _, first, *later = await ear.queued()
        assert len(first.batch) == 1
        assert later[0].not_before is not None
        assert later[0].not_before - later[0].created_at <= timedelta(seconds=30)
        assert len(later) > 1

    async def test_that_begins_in_a_channel_is_gathered_in_its_thread(
        self, database: Database
    ) -> None:
        ear = Ear(database, ALL)
        called = a_message("<@900> one", message_id="1001", author=BOT)
        rest = a_message("two", message_id="1002", author=BOT, mentions=())
        stray = a_message("three", message_id="1003", author=OTHER, mentions=())
        await ear.hears(called, rest, stray)
        (run,) = await ear.queued("1001")
        assert [arrival.text for arrival in run.batch] == ["one", "two"]
        assert (await ear.entry("message", "1003")).reason == "not_mentioned"

    async def test_is_no_matter_in_other_modes(self, database: Database) -> None:
        ear = Ear(database, GatePolicy(ACCOUNT, bot_mode=BotMode.MENTIONS))
        us = frozenset({PlatformId("900")})
        calls = [said(number, BOT, mentioned_users=us) for number in (1001, 1002)]
        await ear.hears(asked(), *calls)
        _, *made = await ear.queued()
        assert [turn.not_before for turn in made] == [None, None]


@pytest.fixture
def moved(database: Database) -> list[timedelta]:
    """The offset of the database's clock, which the test moves."""
    offset = [timedelta()]
    database.offset = lambda: offset[0]
    return offset
