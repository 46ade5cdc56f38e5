"""What was said while nobody listened comes in as if somebody had: once, in order, within the limits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from openab.control import backfill, history_reader
from openab.control.backfill import Backfill
from openab.control.intake import Intake, Step
from openab.domain.delivery import Purpose
from openab.domain.errors import Rejected, Transient
from openab.domain.gates import Disposition, GatePolicy
from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind, InboundMessage, Place
from openab.ports.channel import ChannelRejected, Refusal
from openab.ports.history import Room
from openab.ports.signals import Signals
from openab.ports.tasks import end, spawn
from openab.storage import (
    accounts,
    conversations,
    deliveries,
    history_marks,
    inbox,
    schema,
    turns,
)
from openab.storage.deliveries import Delivery
from openab.storage.engine import Database, Transaction
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    HOME,
    a_delivery,
    a_message,
    a_reaction,
    a_ref,
    an_author,
    some_settings,
)
from tests.fakes.history import START, StoredHistory

#: When all that the tests say has been there for long.
NOON = PlatformId("5000")
THREAD, OTHER, DIRECT = PlatformId("500"), PlatformId("501"), PlatformId("600")
LONG = timedelta(days=365 * 100)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_reader, "RETRIES", (0.01,))


def a_room(newest: int = 1, *, has_threads: bool = False) -> Room:
    newest_id = PlatformId(str(newest))
    return Room(a_ref(), Place.CHANNEL, newest_id, has_threads=has_threads)


def a_thread_room(thread: str = THREAD, newest: int = 1) -> Room:
    return Room(a_ref(thread, HOME), Place.THREAD, PlatformId(str(newest)))


def said(
    number: int, place: str = THREAD, text: str = "<@900> go", **changes: object
) -> InboundMessage:
    """A mention in a thread, or in the channel."""
    is_thread = place != HOME
    message = a_message(
        text,
        message_id=str(number),
        ref=a_ref(place, HOME) if is_thread else a_ref(),
        place=Place.THREAD if is_thread else Place.CHANNEL,
    )
    return replace(message, **changes)  # type: ignore[arg-type]


class Life:
    """One life of a broker's intake and backfill; nobody runs what it accepts."""

    def __init__(
        self, database: Database, history: StoredHistory, patience: float = 60.0, **changes: Any
    ) -> None:
        self.database, self.history, self.signals = database, history, Signals()
        settings = some_settings(**{"backfill": LONG, **changes})
        self.woken: list[str] = []
        self.intake = Intake(database, settings, self.woken.append, lambda _ref: None, self.signals)
        self.counted: list[str] = []
        self.backfill = Backfill(
            database, settings, self.intake, history,
            patience_seconds=patience, count=self._count,
        )  # fmt: skip

    def _count(self, result: str) -> None:
        self.counted.append(result)
        self.signals.tell(result)

    @asynccontextmanager
    async def lived(self) -> AsyncIterator["Life"]:
        async with self.database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot", self.history.newest())
        tasks = [spawn("intake", self.intake.run()), spawn("backfill", self.backfill.run())]
        try:
            yield self
        finally:
            for task in reversed(tasks):
                await end(task)

    async def finished(self, times: int = 1) -> None:
        await self.signals.wait("finished", times=times, seconds=30)

    async def until(self, probe: Callable[[], Awaitable[bool]]) -> None:
        """Until that is so; it is asked again after each commit."""
        while True:
            seen = self.signals._passed["intake_committed"]
            if await probe():
                return
            await self.signals.wait("intake_committed", times=seen + 1, seconds=30)

    async def drained(self) -> None:
        assert await self.intake.drained(30)

    async def mark(self) -> str:
        async with self.database.read() as tx:
            found = await tx.execute(sa.select(schema.accounts.c.intake_mark))
        return str(found.scalar_one())

    async def reason(self, number: int) -> str | None:
        async with self.database.read() as tx:
            found = await inbox.get(tx, ACCOUNT, "message", str(number))
        return found.reason if found else None

    async def reasons(self) -> list[str]:
        """Of all messages, in the order of their ids."""
        async with self.database.read() as tx:
            query = sa.select(schema.inbox.c.reason).order_by(
                sa.func.length(schema.inbox.c.event_key), schema.inbox.c.event_key
            )
            return list((await tx.execute(query)).scalars())

    async def asked(self, place: str = THREAD) -> list[str]:
        """The messages that wait as turns in a conversation, in the order in which they will run."""
        async with self.database.read() as tx:
            where = await conversations.find(tx, a_ref(place))
            found = await turns.open_of(tx, where.id) if where else []
        return [turn.trigger.message_id for turn in found]

    async def notices(self, place: str = THREAD) -> list[Delivery]:
        async with self.database.read() as tx:
            where = await conversations.find(tx, a_ref(place))
            rows = await deliveries.open_of(tx, where.id) if where else []
        return [row for row in rows if row.purpose is Purpose.NOTICE]


async def marks(database: Database) -> dict[PlatformId, PlatformId]:
    async with database.read() as tx:
        return await history_marks.of_account(tx, CHANNEL, ACCOUNT)


async def cut_off(
    database: Database, past: StoredHistory, never: str, until: Callable[["Life"], Awaitable[bool]]
) -> None:
    """A life that ends before all is read: one place does not answer."""
    past.close(never)
    async with Life(database, past).lived() as life:
        life.backfill.connected()
        await past.is_asked(never)
        await life.until(lambda: until(life))
        await life.drained()
    assert await life.mark() == "1000"


def marked(place: PlatformId) -> Callable[["Life"], Awaitable[bool]]:
    """Until the place has a mark."""

    async def is_marked(life: "Life") -> bool:
        return place in await marks(life.database)

    return is_marked


async def is_taken(life: "Life") -> bool:
    """Until the first message is in the inbox; what was put with it is, when all is committed."""
    return await life.reason(1001) is not None


async def heard_up_to(database: Database, mark: int) -> None:
    """A former life has heard everything up to this message."""
    async with database.transaction() as tx:
        await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot", PlatformId("1"))
        await accounts.move_mark(tx, CHANNEL, ACCOUNT, PlatformId(str(mark)))


@pytest.fixture
async def heard(database: Database) -> Database:
    await heard_up_to(database, 1000)
    return database


def a_past(*messages: InboundMessage, page_size: int = 10) -> StoredHistory:
    """A channel with its threads, of one server."""
    history = StoredHistory(page_size)
    for message in messages:
        history.said[message.conversation.conversation_id].append(message)
    rooms = {HOME: a_room(newest=0)}
    for message in messages:
        where, newest = message.conversation.conversation_id, int(message.message_id)
        rooms[where] = a_room(newest=newest) if where == HOME else a_thread_room(where, newest)
    history.servers = [list(rooms.values())]
    # So soon after the last of them that it may still be unsettled.
    history.now = PlatformId(str(5 + max((int(one.message_id) for one in messages), default=4995)))
    return history


def from_history(*messages: InboundMessage) -> list[InboundMessage]:
    return [replace(message, from_history=True) for message in messages]


class TestWhatWasMissed:
    async def test_is_answered_in_order_in_channels_and_threads(self, heard: Database) -> None:
        missed = [*(said(1000 + n) for n in (5, 1, 3)), said(1002, HOME), said(1004, HOME, "hi")]
        missed[-1] = replace(missed[-1], mentioned_users=frozenset())
        async with Life(heard, a_past(*from_history(*missed), page_size=2)).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == ["1001", "1003", "1005"]
            assert await life.asked("1002") == ["1002"]
            assert await life.reason(1001) == "caught_up"
            assert await life.reason(1004) == "not_mentioned"
            assert await life.mark() == "1005"
            assert not life.backfill.is_unfinished
            assert not await life.notices()

    async def test_a_little_before_the_mark_is_looked_at_again(self, heard: Database) -> None:
        """Events may have been told out of order just before the end."""
        past = a_past(*from_history(said(800), said(950), said(1001)))
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == ["950", "1001"]

    async def test_nothing_is_read_where_nothing_is_new(self, heard: Database) -> None:
        past = a_past(*from_history(said(700)))
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
        assert not past.reads

    async def test_only_where_we_listen(self, heard: Database) -> None:
        policy = GatePolicy(ACCOUNT, allowed_channels=frozenset({"78"}))
        past = a_past(*from_history(said(1001), said(1002, HOME)))
        async with Life(heard, past, policy=lambda: policy).lived() as life:
            life.backfill.connected()
            await life.finished()
        assert not past.reads

    async def test_direct_conversations_are_read_if_they_are_known_and_allowed(
        self, heard: Database
    ) -> None:
        async with heard.transaction() as tx:
            await conversations.ensure(tx, a_ref(DIRECT), Place.DM)
        past = StoredHistory()
        direct = said(1001, conversation=a_ref(DIRECT), place=Place.DM, from_history=True)
        past.said[DIRECT] = [direct]
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert not past.reads
        policy = GatePolicy(ACCOUNT, allow_dm=True)
        async with Life(heard, past, policy=lambda: policy).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked(DIRECT) == ["1001"]

    async def test_archived_threads_are_found_by_their_parent(self, heard: Database) -> None:
        past = a_past()
        past.servers = [[a_room(newest=0, has_threads=True), a_thread_room(OTHER, 1)]]
        past.archives[HOME] = [a_thread_room(THREAD, 1001), a_thread_room("502", 5)]
        past.said[THREAD] = from_history(said(1001))
        listing = past.close(f"archive of {HOME}")
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await past.is_asked(f"archive of {HOME}")
            # It was archived, so nobody knows yet what is missing before this.
            life.backfill.put(said(1002))
            life.backfill.put(said(1003, OTHER))
            await life.drained()
            assert (await life.asked(), await life.asked(OTHER)) == ([], ["1003"])
            listing.set()
            await life.finished()
            assert await life.asked() == ["1001", "1002"]
            assert past.reads["502"] == 0

    async def test_of_a_server_that_is_told_later_is_not_forgotten(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001)))
        past.servers = [[], *past.servers]
        past.all_told.clear()
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            life.backfill.put(said(1003, OTHER))
            await life.signals.wait("intake_committed", seconds=30)
            assert (await life.mark(), life.backfill.is_unfinished) == ("1000", True)
            past.all_told.set()
            await life.finished()
            assert (await life.asked(), await life.mark()) == (["1001"], "1003")

    async def test_a_bots_silent_or_edited_message_is_never_input(self, heard: Database) -> None:
        bot = an_author("50", AuthorKind.BOT)
        policy = GatePolicy(ACCOUNT, trusted_bots=frozenset({"50"}))
        missed = [
            said(1001, author=bot, silent=True),
            said(1002, author=bot, edited=True),
            said(1003, author=bot),
            said(1004, edited=True),
        ]
        past = a_past(*from_history(*missed))
        async with Life(heard, past, policy=lambda: policy).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == ["1003", "1004"]
            assert await life.reason(1001) == await life.reason(1002) == "presentation_history"


class TestLiveEvents:
    async def test_wait_for_their_place_and_no_other(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001)))
        gate = past.close(THREAD)
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await past.is_asked(THREAD)
            life.backfill.put(said(1002))
            life.backfill.put(said(1003, OTHER))
            life.backfill.put(said(1004, HOME))
            await life.drained()
            assert (await life.asked(), await life.asked(OTHER)) == ([], ["1003"])
            assert await life.asked("1004") == ["1004"]
            # What was heard meanwhile does not move the mark past what was not read.
            assert await life.mark() == "1000"
            gate.set()
            await life.finished()
            await life.drained()
            assert await life.asked() == ["1001", "1002"]
            assert await life.mark() == "1004"

    async def test_of_a_thread_wait_for_the_channel_that_it_may_come_from(
        self, heard: Database
    ) -> None:
        """The thread was opened on a message that is not read yet, and has its id."""
        opening = said(1001, HOME)
        past = a_past(*from_history(opening))
        gate = past.close(HOME)
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await past.is_asked(HOME)
            life.backfill.put(said(1002, "1001", "and this", mentioned_users=frozenset()))
            await life.drained()
            gate.set()
            await life.finished()
            await life.drained()
            assert await life.asked("1001") == ["1001", "1002"]

    async def test_go_on_after_a_while_but_the_mark_does_not(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001)))
        gate = past.close(THREAD)
        async with Life(heard, past, patience=0.01).lived() as life:
            life.backfill.connected()
            life.backfill.put(said(1002))
            await life.signals.wait("intake_committed", seconds=30)
            assert (await life.asked(), await life.mark()) == (["1002"], "1000")
            gate.set()
            await life.finished()
            # As far as it does not run yet, what was said first is answered first.
            assert (await life.asked(), await life.mark()) == (["1001", "1002"], "1002")

    @pytest.mark.parametrize("is_live_first", [True, False])
    async def test_and_history_tell_the_same_once(
        self, heard: Database, *, is_live_first: bool
    ) -> None:
        past = a_past(*from_history(said(1001), said(1002)))
        async with Life(heard, past).lived() as life:
            if is_live_first:
                life.backfill.put(said(1001))
                await life.drained()
            life.backfill.connected()
            life.backfill.put(said(1001))
            await life.finished()
            life.backfill.put(said(1001))
            await life.drained()
            assert await life.asked() == ["1001", "1002"]
            expected = "accepted" if is_live_first else "caught_up"
            assert await life.reason(1001) == expected

    async def test_that_are_an_echo_are_evidence_though_history_told_them_first(
        self, heard: Database
    ) -> None:
        async with heard.transaction() as tx:
            where = await conversations.ensure(tx, a_ref(THREAD, HOME), Place.THREAD)
            owed = await deliveries.get(tx, await a_delivery(tx, where))
            assert owed is not None
        own = said(1001, text="hello", author=an_author(ACCOUNT, AuthorKind.SELF))
        async with Life(heard, a_past(*from_history(own))).lived() as life:
            life.backfill.connected()
            await life.finished()
            life.backfill.put(replace(own, nonce=owed.nonce))
            await life.drained()
            async with heard.read() as tx:
                row = await deliveries.get(tx, owed.id)
        assert row is not None
        assert row.platform_id == "1001"


class TestAPlaceThatCannotBeRead:
    async def test_holds_nobody_up_and_is_told(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001), said(1002, OTHER)))
        past.errors[THREAD] = [ChannelRejected(Refusal.FORBIDDEN, "no access", 50001)]
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            life.backfill.put(said(1003))
            await life.finished()
            assert (await life.asked(), await life.asked(OTHER)) == (["1003"], ["1002"])
            assert await life.mark() == "1003"

    @pytest.mark.parametrize(
        "error",
        [Transient("away", 0.0), ChannelRejected(Refusal.UNAUTHORIZED, "no", 0)],
    )
    async def test_now_is_read_later_and_the_mark_waits(
        self, heard: Database, error: Transient | Rejected
    ) -> None:
        opening, inside = said(1001, HOME), said(1002)
        past = a_past(*from_history(opening, inside))
        past.errors[HOME] = [error, error]
        gate = past.close(HOME)
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            gate.set()
            await past.is_asked(HOME, 3)
            await life.finished()
            # Its threads do not wait for more than the first try.
            assert (await life.asked(), await life.asked("1001")) == (["1002"], ["1001"])
            assert past.reads[HOME] == 3

    async def test_does_not_keep_the_others_waiting(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001, HOME), said(1002)))
        past.errors[HOME] = [Transient("away", 3600.0)]
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await past.is_asked(THREAD)
            await life.signals.wait("intake_committed", seconds=30)
            assert (await life.asked(), await life.mark()) == (["1002"], "1000")
            assert life.backfill.is_unfinished


class TestThePace:
    async def test_leaves_the_account_room_for_what_people_see(
        self, heard: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history_reader, "READS", 2)
        monkeypatch.setattr(history_reader, "READS_SECONDS", 0.2)
        places = [PlatformId(str(500 + n)) for n in range(7)]
        history = a_past(*(said(1000 + n, place) for n, place in enumerate(places)))
        async with Life(heard, history).lived() as life:
            began = asyncio.get_running_loop().time()
            life.backfill.connected()
            await life.finished()
        assert set(history.reads) >= set(places)
        # Of seven, two at once, the last comes behind three pauses.
        assert history.read_at[-1] - began >= 0.6


class TestTheLimits:
    async def test_fifty_are_answered_and_one_notice_names_the_rest(self, heard: Database) -> None:
        past = a_past(*from_history(*(said(1001 + n) for n in range(60))))
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == [str(1001 + n) for n in range(50)]
            assert await life.reasons() == ["caught_up"] * 50 + ["too_many"] * 10
            (notice,) = await life.notices()
            assert "10 messages were sent here since" in notice.body.content
            since = int((START + timedelta(seconds=1051)).timestamp())
            assert f"<t:{since}:f>" in notice.body.content
            assert notice.body.silent

    async def test_no_message_is_named_twice(self, heard: Database) -> None:
        messages = [said(1001 + n) for n in range(52)]
        async with Life(heard, a_past(*from_history(*messages))).lived() as life:
            life.backfill.connected()
            await life.finished()
        more = a_past(*from_history(*messages, said(1060)))
        async with Life(heard, more, backfill=timedelta(minutes=60)).lived() as life:
            life.backfill.connected()
            await life.finished()
            told = [row.body.content for row in await life.notices()]
        assert ["2 messages were" in told[0], "1 message was" in told[1]] == [True, True]
        assert len(told) == 2

    async def test_first_mentions_in_a_channel_count_together(self, heard: Database) -> None:
        past = a_past(*from_history(*(said(1001 + n, HOME) for n in range(52))))
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert (await life.reasons()).count("caught_up") == 50
            (notice,) = await life.notices(HOME)
            assert "2 messages were sent" in notice.body.content

    async def test_old_ones_are_named_where_they_would_have_been_answered(
        self, heard: Database
    ) -> None:
        talk = replace(said(1001, OTHER, "just talk"), mentioned_users=frozenset())
        old = [said(1001), said(1002, text="!cancel"), talk]
        old[0], old[1] = replace(old[0], message_id=PlatformId("1003")), old[1]
        past = a_past(*from_history(*old))
        async with Life(heard, past, backfill=timedelta(minutes=60)).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.reason(1003) == await life.reason(1002) == "too_old"
            assert await life.reason(1001) == "not_involved"
            assert not await life.asked()
            (notice,) = await life.notices()
            assert "2 messages were" in notice.body.content
            assert not await life.notices(OTHER)

    async def test_are_counted_among_very_many_by_an_index(
        self, heard: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        original = Transaction.execute

        async def execute(tx: Transaction, statement: Any, *more: Any) -> Any:
            if "inbox.reason IN" in str(statement):
                asked.append(str(statement.compile(compile_kwargs={"literal_binds": True})))
            return await original(tx, statement, *more)

        monkeypatch.setattr(Transaction, "execute", execute)
        past = a_past(*from_history(*(said(1001 + n) for n in range(52))))
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
        async with heard.read() as tx:
            if tx.dialect != "sqlite":
                return
            plans = [
                [row.detail for row in await original(tx, sa.text(f"EXPLAIN QUERY PLAN {one}"))]
                for one in asked
            ]
        assert len(plans) == 53
        assert all("ix_inbox_absences" in " ".join(plan) for plan in plans), plans

    async def test_what_was_taken_in_long_before_does_not_count(self, heard: Database) -> None:
        first = [said(1001 + n) for n in range(50)]
        past = a_past(*from_history(*first))
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
        again = a_past(*from_history(*first, *(said(1100 + n) for n in range(10))))
        async with Life(heard, again).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.reasons() == ["caught_up"] * 60
            assert not await life.notices()

    async def test_zero_reads_nothing_now_or_later(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001)))
        past.now = PlatformId("2000")
        async with Life(heard, past, backfill=timedelta(0)).lived() as life:
            life.backfill.connected()
            life.backfill.put(said(1002))
            await life.drained()
            assert (await life.asked(), await life.mark()) == (["1002"], "2000")
        assert not past.reads

    async def test_an_account_that_never_listened_begins_now(self, database: Database) -> None:
        past = a_past(*from_history(said(4990), said(5001)))
        past.now = NOON
        async with Life(database, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == ["5001"]
        # Also when it is started again at once.
        async with Life(database, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == ["5001"]


class TestAnEndInTheMiddle:
    async def test_before_the_commit_leaves_the_message_to_the_next_life(
        self, heard: Database
    ) -> None:
        life = Life(heard, a_past())
        life.backfill.put(said(1001))
        # Its intake never came to run: the process was killed.
        async with Life(heard, a_past(*from_history(said(1001)))).lived() as after:
            after.backfill.connected()
            await after.finished()
            assert await after.asked() == ["1001"]

    async def test_leaves_the_mark_and_reads_on_behind_it(self, heard: Database) -> None:
        messages = from_history(*(said(1001 + n) for n in range(60)), said(1001, OTHER))
        messages[-1] = replace(messages[-1], message_id=PlatformId("1100"))
        past = a_past(*messages, page_size=55)
        past.close(OTHER)
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            # The second page is asked for when the first is committed.
            await past.is_asked(THREAD, 2)
            await past.is_asked(OTHER)
            life.backfill.put(said(1101, OTHER))
        assert await life.mark() == "1000"
        assert len(await life.reasons()) >= 55
        assert await life.reason(1101) is None
        again = a_past(*messages)
        async with Life(heard, again).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == [str(1001 + n) for n in range(50)]
            notices = await life.notices()
            told = sum(int(row.body.content.split("away. ")[1].split()[0]) for row in notices)
            assert (len(notices), told) == (1, 10)
            assert await life.mark() == "1100"
        # And once more: everything is told.
        async with Life(heard, again).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert len(await life.notices()) == 1

    async def test_leaves_marks_so_that_no_place_is_read_again_and_none_has_to_wait_for_ever(
        self, heard: Database
    ) -> None:
        """Each life is too short for all places: without the marks the last one would never be read."""
        places = [PlatformId(str(500 + number)) for number in range(6)]
        messages = from_history(*(said(1001 + n, place) for n, place in enumerate(places)))
        read: list[str] = []
        for life_number in range(len(places)):
            past = a_past(*messages)
            past.now = NOON
            gates = [past.close(place) for place in places]
            gates[life_number].set()
            async with Life(heard, past).lived() as life:
                life.backfill.connected()
                is_marked = marked(places[life_number])
                await life.until(partial(is_marked, life))
                read += [place for place, _ in past.asked]
            if life_number < len(places) - 1:
                assert await life.mark() == "1000"
        # Those before it were let in by an earlier life.
        assert all(read.count(place) <= number + 1 for number, place in enumerate(places))
        past = a_past(*messages, *from_history(said(4995, OTHER)))
        past.now = NOON
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            for number, place in enumerate(places):
                assert (await life.asked(place))[0] == str(1001 + number)
            # A message that was heard moves the account's mark, and what that has passed is forgotten.
            assert await life.mark() == "4995"
            assert await marks(heard) == {}

    async def test_what_is_said_behind_a_mark_is_read(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001), said(1002, OTHER)))
        past.now = NOON
        await cut_off(heard, past, OTHER, marked(THREAD))
        mark = (await marks(heard))[THREAD]
        assert mark == past.earlier(past.now, timedelta(seconds=10))
        late = a_past(*from_history(said(1001), said(1002, OTHER), said(4995)))
        async with Life(heard, late).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == ["1001", "4995"]
        # What was not read at all comes first.
        assert late.asked == [(OTHER, "880"), (THREAD, mark)]

    async def test_a_place_that_was_left_out_for_want_of_room_is_not_marked(
        self, heard: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Intake, "is_full", True)
        past = a_past(*from_history(said(1001), said(1002, OTHER)))
        past.now = NOON
        await cut_off(heard, past, OTHER, is_taken)
        assert await marks(heard) == {}

    @pytest.mark.parametrize("pages", [0, 1])
    async def test_a_place_that_refuses_is_not_marked_and_read_when_it_may_be(
        self, heard: Database, pages: int
    ) -> None:
        refused = ChannelRejected(Refusal.FORBIDDEN, "403")
        past = a_past(*from_history(said(1001), said(1002), said(1003)), page_size=2)
        past.now = NOON
        past.errors_after[THREAD] = (pages, refused)
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert len(await life.asked()) == 2 * pages
        del past.errors_after[THREAD]
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.asked() == ["1001", "1002", "1003"]

    async def test_what_has_something_new_comes_before_lists_of_archived_threads(
        self, heard: Database
    ) -> None:
        """There may be many of these, in each life anew."""
        past = a_past(*from_history(said(1001, OTHER)))
        quiet = a_room(newest=0, has_threads=True)
        orphan = Room(a_ref(OTHER, "78"), Place.THREAD, PlatformId("1001"))
        past.servers = [[quiet, orphan]]
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
        assert [place for place, _ in past.asked] == [OTHER, f"archive of {HOME}"]

    async def test_a_long_place_is_read_on_from_the_page_that_was_committed(
        self, heard: Database
    ) -> None:
        past = a_past(*from_history(*(said(1001 + n) for n in range(6))), page_size=2)
        past.now = NOON
        past.errors_after[THREAD] = (1, Transient("not now"))
        began: list[str] = []
        for _ in range(3):
            async with Life(heard, past).lived() as life:
                life.backfill.connected()
                # The second page is asked for when the first is committed.
                await past.is_asked(THREAD, 2)
            began.append(past.asked[0][1])
            past.reads.clear()
            past.asked.clear()
        assert began == ["880", "1002", "1004"]

    async def test_a_clock_that_is_set_right_meanwhile_marks_nothing_in_the_future(
        self, heard: Database
    ) -> None:
        past = a_past(*from_history(said(1001), said(1002, OTHER)))
        past.now = PlatformId("90000")
        past.set_right[THREAD] = NOON
        await cut_off(heard, past, OTHER, marked(THREAD))
        assert await marks(heard) == {THREAD: past.earlier(NOON, timedelta(seconds=10))}

    async def test_what_an_earlier_life_took_in_is_of_a_past_absence_when_all_is_read(
        self, heard: Database
    ) -> None:
        first = [said(1101 + n) for n in range(40)]
        past = a_past(*from_history(*first, said(1050, OTHER)))
        past.now = NOON
        await cut_off(heard, past, OTHER, marked(THREAD))
        again = a_past(*from_history(*first, said(1050, OTHER)))
        again.now = NOON
        async with Life(heard, again).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.mark() == "1140"
        more = a_past(*from_history(*first, *(said(6001 + n) for n in range(20))))
        async with Life(heard, more).lived() as life:
            life.backfill.connected()
            await life.finished()
            assert await life.reason(6020) == "caught_up"

    async def test_and_another_connection_reads_all_of_it(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001)))
        gate = past.close(THREAD)
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await past.is_asked(THREAD)
            life.backfill.put(said(1003))
            past.said[THREAD] += from_history(said(1002))
            life.backfill.connected()
            await past.is_asked(THREAD, 2)
            gate.set()
            await life.finished()
            await life.drained()
            assert await life.asked() == ["1001", "1002", "1003"]
            assert life.counted == ["started", "interrupted", "started", "finished"]
            assert await life.mark() == "1003"

    async def test_lets_reactions_in_since_nobody_tells_them_again(self, heard: Database) -> None:
        past = a_past(*from_history(said(1001)))
        past.close(THREAD)
        life = Life(heard, past, reaction_mapping={"👍": "do it"})
        async with life.lived():
            life.backfill.connected()
            await past.is_asked(THREAD)
            reaction = a_reaction(message_id="1000")
            life.backfill.put(reaction)
            life.backfill.put(said(1002))
            life.backfill._held.end()
            await life.drained()
            assert await life.reason(1002) is None
            async with heard.read() as tx:
                found = await inbox.get(tx, ACCOUNT, "reaction", reaction.key)
        assert found is not None
        assert found.disposition is not Disposition.ECHO

    async def test_an_event_that_could_not_be_taken_keeps_the_mark_before_it(
        self, heard: Database
    ) -> None:
        async with Life(heard, a_past(*from_history(said(1001)))).lived() as life:
            life.backfill.connected()
            life.backfill.missed()
            await life.finished()
            assert (await life.mark(), life.backfill.is_unfinished) == ("1000", True)
            life.backfill.connected()
            await life.finished(times=2)
            assert (await life.mark(), life.backfill.is_unfinished) == ("1001", False)

    async def test_a_connection_that_comes_while_the_mark_is_let_go_holds_it_again(
        self, heard: Database
    ) -> None:
        async with Life(heard, a_past()).lived() as life:

            async def connect(_tx: Transaction) -> None:
                life.intake.hold_mark()

            # The same transaction lets the mark go and is under way when events come again.
            life.intake.put(life.intake.hold_mark())
            life.intake.put(Step("connect", connect))
            await life.drained()
            life.intake.put(said(1001))
            await life.drained()
            assert (await life.asked(), await life.mark()) == (["1001"], "1000")

    async def test_an_event_that_could_not_be_taken_is_gone_where_nothing_is_read(
        self, heard: Database
    ) -> None:
        async with Life(heard, a_past(), backfill=timedelta(0)).lived() as life:
            life.backfill.missed()
            life.backfill.put(said(1001))
            await life.drained()
            assert (await life.mark(), life.backfill.is_unfinished) == ("1001", False)

    async def test_an_event_that_could_not_be_taken_is_read_though_nobody_connects(
        self, heard: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(backfill, "AGAIN_SECONDS", 0.01)
        past, later = a_past(), a_past(*from_history(said(1001)))
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await life.finished()
            past.said, past.servers = later.said, later.servers
            life.backfill.missed()
            await life.finished(times=2)
            assert await life.asked() == ["1001"]
            assert (await life.mark(), life.backfill.is_unfinished) == ("1001", False)

    async def test_a_reading_that_is_under_way_is_not_begun_anew_for_an_event(
        self, heard: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(backfill, "AGAIN_SECONDS", 0.01)
        past = a_past(*from_history(said(1001)))
        gate = past.close(THREAD)
        async with Life(heard, past).lived() as life:
            life.backfill.connected()
            await past.is_asked(THREAD)
            life.backfill.missed()
            life.backfill._read_again()
            gate.set()
            await life.finished(times=2)
            assert life.counted == ["started", "finished", "started", "finished"]
