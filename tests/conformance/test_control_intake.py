"""What arrives becomes a turn once, or is noted once, whatever happens to the database meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import sqlalchemy as sa

from openab.control import intake as intake_module
from openab.control.intake import Intake
from openab.domain.batching import Batching, DispatchMode
from openab.domain.delivery import Begun, Doubtful
from openab.domain.gates import BotMode, Disposition, GatePolicy
from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind, InboundMessage, Place
from openab.domain.turn import Claimed
from openab.ports.signals import Signals
from openab.ports.tasks import end, spawn
from openab.storage import accounts, conversations, deliveries, inbox, schema, turns
from openab.storage.conversations import Ownership
from openab.storage.engine import CommitUnknown, Database, DatabaseUnavailable, Transaction
from openab.storage.inbox import Entry
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    a_conversation,
    a_delivery,
    a_message,
    a_ref,
    an_author,
    some_settings,
)

BOT = an_author("50", AuthorKind.BOT)


class Door:
    """An intake alone: nobody runs what it accepts."""

    def __init__(
        self, database: Database, policy: GatePolicy | None = None, **changes: object
    ) -> None:
        self.database = database
        self.signals = Signals()
        self.woken: list[str] = []
        self.commits = 0
        self.told_off: list[str] = []
        settings = some_settings(policy=lambda: policy or GatePolicy(ACCOUNT), **changes)
        self.intake = Intake(
            database, settings, self.woken.append,
            lambda ref: self.told_off.append(ref.message_id), self.signals,
        )  # fmt: skip

    async def take(self, *messages: InboundMessage) -> None:
        """Put them, and wait until they are committed."""
        async with self.database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
        for message in messages:
            self.intake.put(message)
        task = spawn("intake", self.intake.run())
        try:
            self.commits += -(-len(messages) // 100)
            await self.signals.wait("intake_committed", times=self.commits)
        finally:
            await end(task)

    async def entry(self, message_id: str) -> Entry:
        async with self.database.read() as tx:
            found = await inbox.get(tx, ACCOUNT, "message", message_id)
        assert found is not None
        return found

    async def count(self, table: sa.Table) -> int:
        async with self.database.read() as tx:
            found = await tx.execute(sa.select(sa.func.count()).select_from(table))
            return int(found.scalar_one())


@pytest.fixture
def door(database: Database) -> Door:
    return Door(database)


class TestAMessage:
    async def test_becomes_thread_and_turn_in_one_transaction(self, door: Door) -> None:
        await door.take(a_message("<@900> build it", message_id="1000"))
        entry = await door.entry("1000")
        async with door.database.read() as tx:
            where = await conversations.find(tx, a_ref("1000"))
            assert where is not None
            (turn,) = await turns.open_of(tx, where.id)
            (thread,) = await deliveries.open_of(tx, where.id)
            mark = (await tx.execute(sa.select(schema.accounts.c.intake_mark))).scalar_one()
        assert (entry.disposition, entry.turn_id) == (Disposition.TURN, turn.id)
        assert (turn.thread_delivery, turn.batch[0].text) == (thread.id, "build it")
        assert turn.batch[0].record["thread_id"] == "1000"
        assert turn.batch[0].record["channel_id"] == "77"
        assert (where.place, where.is_involved, mark) == (Place.THREAD, True, "1000")
        assert door.woken == [where.id]

    async def test_neither_is_there_when_it_cannot_be_committed(
        self, door: Door, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def broken(*_args: object) -> None:
            raise RuntimeError("a bug behind the thread's row")

        monkeypatch.setattr("openab.control.reception.turns.enqueue", broken)
        await door.take(a_message())
        assert [await door.count(t) for t in (schema.turns, schema.deliveries)] == [0, 0]
        assert (await door.entry("1000")).reason == "unreadable"

    async def test_shows_that_a_conversation_is_not_gone(self, door: Door) -> None:
        thread = a_ref("500", "77")
        async with door.database.transaction() as tx:
            await conversations.close(
                tx, (await a_conversation(tx, PlatformId("500"), PlatformId("77"))).id
            )
        late = a_message(message_id="1000", ref=thread, place=Place.THREAD)
        await door.take(replace(late, from_history=True))
        assert (await door.entry("1000")).reason == "conversation_gone"
        await door.take(a_message(message_id="1001", ref=thread, place=Place.THREAD))
        assert (await door.entry("1001")).disposition is Disposition.TURN

    async def test_seen_twice_is_one_turn(self, door: Door) -> None:
        await door.take(a_message(), a_message())
        await door.take(a_message())
        assert [await door.count(t) for t in (schema.turns, schema.inbox)] == [1, 1]

    async def test_seen_by_two_replicas_at_once_is_one_turn(self, database: Database) -> None:
        one, other = Door(database), Door(database)
        messages = [a_message(message_id=str(1000 + n)) for n in range(20)]
        await asyncio.gather(one.take(*messages), other.take(*messages))
        assert [await one.count(t) for t in (schema.turns, schema.inbox)] == [20, 20]
        async with database.read() as tx:
            reasons = set((await tx.execute(sa.select(schema.inbox.c.reason))).scalars())
        assert reasons == {"accepted"}

    async def test_a_poisoned_one_holds_nobody_up(self, door: Door) -> None:
        poisoned = replace(a_message(message_id="1001"), text=None)  # type: ignore[arg-type]
        nameless = a_message(message_id="x" * 200)
        await door.take(
            a_message(message_id="1000"), poisoned, nameless, a_message(message_id="1002")
        )
        assert await door.count(schema.turns) == 2
        assert (await door.entry("1001")).reason == "unreadable"

    async def test_a_hundred_are_one_commit(
        self, door: Door, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commits = counted_commits(monkeypatch)
        talk = (a_message(message_id=str(1000 + n), mentions=()) for n in range(150))
        await door.take(*talk)
        assert await door.count(schema.inbox) == 150
        # One makes the account's row.
        assert commits() == 3

    @pytest.mark.parametrize("error", [DatabaseUnavailable, CommitUnknown])
    async def test_waits_for_a_database_that_is_away(
        self, door: Door, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
    ) -> None:
        monkeypatch.setattr(intake_module, "_RETRIES", (0.01,))
        failures, original = 3, Transaction.commit

        async def commit(tx: Transaction) -> None:
            nonlocal failures
            if failures:
                failures -= 1
                if error is CommitUnknown and failures == 1:
                    await original(tx)
                raise error("away")
            await original(tx)

        async with door.database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
        monkeypatch.setattr(Transaction, "commit", commit)
        door.intake.put(a_message(message_id="1000"))
        door.intake.put(a_message(message_id="1001"))
        task = spawn("intake", door.intake.run())
        try:
            await door.signals.wait("intake_committed")
        finally:
            await end(task)
        assert failures == 0
        assert [await door.count(t) for t in (schema.turns, schema.inbox)] == [2, 2]


def counted_commits(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    count, original = 0, Transaction.commit

    async def commit(tx: Transaction) -> None:
        nonlocal count
        count += 1
        await original(tx)

    monkeypatch.setattr(Transaction, "commit", commit)
    return lambda: count


class TestTheOrder:
    def said(self, number: int) -> InboundMessage:
        return a_message(message_id=str(number), ref=a_ref("500", "77"), place=Place.THREAD)

    async def waiting(self, door: Door) -> list[str]:
        async with door.database.read() as tx:
            where = await conversations.find(tx, a_ref("500", "77"))
            assert where is not None
            return [turn.trigger.message_id for turn in await turns.open_of(tx, where.id)]

    async def test_is_that_of_the_ids_however_they_are_told(self, door: Door) -> None:
        await door.take(*(self.said(n) for n in (1003, 1001, 1001, 1003)))
        await door.take(self.said(1002), self.said(1001))
        assert await self.waiting(door) == ["1001", "1002", "1003"]

    async def test_of_late_ones_begins_behind_what_runs(self, door: Door) -> None:
        await door.take(self.said(1003), self.said(1005))
        async with door.database.transaction() as tx:
            where = await conversations.find(tx, a_ref("500", "77"))
            assert where is not None
            running = (await turns.open_of(tx, where.id))[0]
            await turns.record(tx, running, Claimed())
        await door.take(self.said(1002), self.said(1004), self.said(1001))
        assert await self.waiting(door) == ["1003", "1001", "1002", "1004", "1005"]

    async def test_in_a_batch_is_the_same(self, database: Database) -> None:
        door = Door(database, batching=Batching(DispatchMode.PER_THREAD))
        await door.take(self.said(1002), self.said(1001), self.said(1002), self.said(1003))
        async with database.read() as tx:
            where = await conversations.find(tx, a_ref("500", "77"))
            assert where is not None
            (turn,) = await turns.open_of(tx, where.id)
        told = [arrival.record["message_id"] for arrival in turn.batch]
        assert (told, turn.trigger.message_id) == (["1001", "1002", "1003"], "1003")
        entries = [await door.entry(number) for number in ("1001", "1002", "1003")]
        assert {entry.turn_id for entry in entries} == {turn.id}


class TestWhoIsToldOff:
    async def test_only_a_stranger_who_addressed_us(self, database: Database) -> None:
        door = Door(database, GatePolicy(ACCOUNT, allowed_users=frozenset({"32"})))
        in_thread = {"ref": a_ref("500", "77"), "place": Place.THREAD}
        await door.take(
            a_message(message_id="1"),
            a_message("just talk", message_id="2", mentions=()),
            a_message("just talk", message_id="3", mentions=(), **in_thread),  # type: ignore[arg-type]
            a_message(message_id="4", author=BOT),
            a_message(message_id="5", **in_thread),  # type: ignore[arg-type]
            a_message(message_id="6", author=an_author("32")),
        )
        assert door.told_off == ["1", "5"]
        assert await door.count(schema.turns) == 1


class TestOtherBots:
    async def test_what_only_shows_never_starts_a_turn_in_any_mode(
        self, database: Database
    ) -> None:
        n = 0
        for mode, trusted in product(BotMode, (frozenset[str](), frozenset({"50"}))):
            door = Door(database, GatePolicy(ACCOUNT, bot_mode=mode, trusted_bots=trusted))
            shown = a_message("-# ⏳ <@900> working", author=BOT)
            messages = []
            for changes in (
                {"silent": True},
                {"silent": True, "edited": True},
                {"text": "<@900> go on", "edited": True},
                {"text": "<@900> go on", "silent": True, "from_history": True},
                {"text": "<@900> go on", "edited": True, "from_history": True},
            ):
                n += 1
                message_id = PlatformId(str(1000 + n))
                messages.append(replace(shown, message_id=message_id, **changes))
            await door.take(*messages)
        assert await door.count(schema.turns) == 0
        assert await door.count(schema.inbox) == n
        async with database.read() as tx:
            where = await conversations.find(tx, a_ref())
        assert where is not None
        # They are noticed first and judged later.
        assert where.has_other_bot

    async def test_a_whole_message_does_where_it_may(self, database: Database) -> None:
        """Negative control of the above."""
        door = Door(database, GatePolicy(ACCOUNT, trusted_bots=frozenset({"50"})))
        await door.take(a_message("<@900> go on", author=BOT))
        assert await door.count(schema.turns) == 1


class TestOurOwnEcho:
    async def test_names_the_message_of_its_delivery_once(self, door: Door) -> None:
        async with door.database.transaction() as tx:
            where = await a_conversation(tx)
            made = await a_delivery(tx, where)
            other = await a_delivery(tx, where, "other:v1")
            known = await deliveries.get(tx, made)
            assert known is not None
        own = an_author("900", AuthorKind.SELF)
        echo = replace(a_message("hello", author=own, message_id="5000"), nonce=known.nonce)
        await door.take(echo, replace(echo, nonce=other))
        async with door.database.read() as tx:
            row, untouched = await deliveries.get(tx, made), await deliveries.get(tx, other)
        assert row is not None
        assert untouched is not None
        assert (row.platform_id, untouched.platform_id) == ("5000", None)
        assert (await door.entry("5000")).disposition is Disposition.ECHO
        assert door.woken == [where.id]

    @pytest.mark.parametrize(
        ("change", "is_found"),
        [
            ({}, True),
            ({"text": "hello  \n"}, True),
            ({"text": "something else"}, False),
            ({"message_id": PlatformId("77")}, False),
            ({"from_history": False}, False),
        ],
    )
    @pytest.mark.parametrize("is_tried", [True, False])
    async def test_in_history_has_no_nonce_and_is_known_by_what_it_says(
        self, door: Door, change: dict[str, Any], is_found: bool, is_tried: bool
    ) -> None:
        async with door.database.transaction() as tx:
            where = await a_conversation(tx)
            made = await deliveries.get(tx, await a_delivery(tx, where, text="hello"))
            assert made is not None
            if is_tried:
                begun = await deliveries.record(tx, made, Begun(), anchor="77")
                await deliveries.record(tx, begun, Doubtful(), had_doubt=True)
        own = an_author("900", AuthorKind.SELF)
        seen = replace(a_message("hello", author=own, message_id="5000"), from_history=True)
        await door.take(replace(seen, **change))
        async with door.database.read() as tx:
            row = await deliveries.get(tx, made.id)
        assert row is not None
        assert (row.platform_id == "5000") is (is_found and is_tried)

    async def test_without_a_nonce_or_of_another_process_is_only_noted(self, door: Door) -> None:
        own = an_author("900", AuthorKind.SELF)
        echo = a_message("hello", author=own, message_id="5000")
        await door.take(echo, replace(echo, message_id=PlatformId("5001"), nonce="unknown"))
        assert await door.count(schema.inbox) == 2
        assert not door.woken


class TestAThread:
    async def test_is_ours_by_its_owner_or_by_what_we_said_there(self, door: Door) -> None:
        ref = a_ref("500", "77")
        talk = a_message("go on", message_id="1", ref=ref, place=Place.THREAD, mentions=())
        ours = replace(
            talk, message_id=PlatformId("2"), conversation=a_ref("501", "77"),
            thread_owner=PlatformId("900"),
        )  # fmt: skip
        await door.take(talk, ours)
        assert (await door.entry("1")).reason == "not_involved"
        assert (await door.entry("2")).reason == "accepted"
        mention = a_message(message_id="3", ref=ref, place=Place.THREAD)
        await door.take(mention)
        await door.take(replace(talk, message_id=PlatformId("4")))
        assert (await door.entry("4")).reason == "accepted"

    async def test_the_second_message_is_told_its_place(self, door: Door) -> None:
        ref = a_ref("500", "77")
        await door.take(
            *(a_message(message_id=str(n), ref=ref, place=Place.THREAD) for n in (1, 2, 3))
        )
        async with door.database.read() as tx:
            where = await conversations.find(tx, ref)
            assert where is not None
            rows = await deliveries.open_of(tx, where.id)
        assert ["Queued behind 1" in r.body.content for r in rows] == [True, False]
        assert ["Queued behind 2" in r.body.content for r in rows] == [False, True]
        assert all(row.body.silent and row.body.buttons for row in rows)


async def test_several_conversations_at_once_are_never_locked_against_the_streams(
    door: Door,
) -> None:
    refs = [a_ref(str(500 + n), "77") for n in range(4)]
    async with door.database.transaction() as tx:
        found = [await conversations.ensure(tx, ref, Place.THREAD) for ref in refs]
    found.sort(key=lambda one: one.id, reverse=True)
    owned = [Ownership(one.id, one.epoch) for one in found]
    failed: list[object] = []
    door.database.health.on_failure = failed.append
    is_over = asyncio.Event()

    async def streams() -> None:
        """As the one committer of streams locks the conversations of all running turns."""
        while not is_over.is_set():
            async with door.database.transaction() as tx:
                await conversations.locked_of(tx, owned)

    flushing = spawn("streams", streams())
    for batch in range(5):
        await door.take(
            *(
                a_message(message_id=f"{batch + 1}{n}", ref=one.ref, place=Place.THREAD)
                for n, one in enumerate(found)
            )
        )
    is_over.set()
    await asyncio.wait({flushing})
    flushing.result()
    assert not failed
    assert await door.count(schema.inbox) == 20
