"""Hand-offs on both dialects: one acceptance for an event, ten in any minute, whoever decides at once."""

# ruff: noqa: PT012 - the block that must raise is a transaction

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from openab.domain.errors import IllegalTransition, Transient
from openab.domain.handoff import (
    Abandoned,
    Direction,
    Envelope,
    HandoffState,
    NotSent,
    Posted,
    Refusal,
    reissued,
)
from openab.domain.handoff.limits import MOST_ACCEPTED, MOST_REPLAY_EVENTS
from openab.domain.ids import AccountId, DeliveryId, MessageRef, PlatformId, TurnId
from openab.storage import handoff_gates, handoff_refusals, handoffs, rate_windows, replay_events
from openab.storage.engine import Database, Transaction
from openab.storage.handoffs import Handoff, Incoming
from openab.storage.schema import handoff_gates as gates_table
from openab.storage.schema import handoffs as handoffs_table
from openab.storage.schema import rate_windows as rates_table
from openab.storage.schema import replay_events as replays_table
from openab.storage.transitions import StateChanged
from tests.builders import ACCOUNT, HOME, SENT_AT, Offset, an_incoming

TURN = TurnId("turn-1")


async def decided(database: Database, incoming: Incoming) -> Refusal | None:
    async with database.transaction() as tx:
        return await handoffs.accept(tx, incoming, TURN)


async def rows_of(database: Database, table: sa.Table) -> int:
    async with database.read() as tx:
        result = await tx.execute(sa.select(sa.func.count()).select_from(table))
        return int(result.scalar_one())


def at(seconds: float) -> datetime:
    return SENT_AT + timedelta(seconds=seconds)


def a_series(count: int, apart: float, source: str = "901", start: float = 0) -> list[Incoming]:
    """So many hand-offs of one source, their messages so many seconds apart."""
    return [
        an_incoming(source=source, message=f"{source}{n:04}", sent_at=at(start + n * apart))
        for n in range(count)
    ]


class TestAnEvent:
    async def test_is_accepted_with_its_history(self, database: Database) -> None:
        incoming = an_incoming()
        assert await decided(database, incoming) is None
        async with database.read() as tx:
            (kept,) = await handoffs.listed(tx)
        assert (kept.direction, kept.state) == (Direction.IN, HandoffState.ACCEPTED)
        assert (kept.peer, kept.turn, kept.payload) == ("901", TURN, incoming.envelope.text)
        assert (kept.conversation_id, kept.message_id) == (HOME, "1000")
        assert kept.expires_at == datetime.fromtimestamp(incoming.envelope.expires_at, UTC)

    async def test_is_accepted_once(self, database: Database) -> None:
        first = an_incoming()
        again = an_incoming(first.envelope.event_id, message="1001", sent_at=at(300))
        assert await decided(database, first) is None
        assert await decided(database, first) is Refusal.REPLAY
        assert await decided(database, again) is Refusal.REPLAY
        assert await rows_of(database, rates_table) == 1

    async def test_is_known_to_the_next_life(
        self, database: Database, migrated_address: str
    ) -> None:
        events = [an_incoming(message=str(n), sent_at=at(-n)) for n in range(3)]
        for incoming in events:
            assert await decided(database, incoming) is None
        next_life = await Database.open(migrated_address)
        try:
            for incoming in reversed(events):
                assert await decided(next_life, incoming) is Refusal.REPLAY
        finally:
            await next_life.close()

    async def test_that_ran_out_while_it_waited_is_not_accepted(self, database: Database) -> None:
        assert await decided(database, an_incoming(life=-1)) is Refusal.EXPIRED
        assert await rows_of(database, replays_table) == 0

    async def test_is_another_ones_at_another_receiver(self, database: Database) -> None:
        incoming = an_incoming()
        other = Incoming(AccountId("902"), incoming.envelope, incoming.message, incoming.sent_at)
        assert await decided(database, incoming) is None
        assert await decided(database, other) is None

    async def test_that_was_rolled_back_is_not_spent(self, database: Database) -> None:
        incoming = an_incoming()
        with pytest.raises(ZeroDivisionError):
            async with database.transaction() as tx:
                assert await handoffs.accept(tx, incoming, TURN) is None
                raise ZeroDivisionError
        async with database.transaction() as tx:
            with pytest.raises(ZeroDivisionError):
                async with tx.savepoint():
                    assert await handoffs.accept(tx, incoming, TURN) is None
                    raise ZeroDivisionError
            assert await handoffs.accept(tx, incoming, TURN) is None

    @pytest.mark.parametrize(("life", "kept"), [(300, 600), (900, 900)])
    async def test_is_kept_until_it_can_come_no_more(
        self, database: Database, life: float, kept: float
    ) -> None:
        async with database.transaction() as tx:
            before = await tx.now()
            assert await handoffs.accept(tx, an_incoming(life=life), TURN) is None
            found = await tx.execute(sa.select(replays_table.c.keep_until))
            until = found.scalar_one()
        assert abs((until - before).total_seconds() - kept) < 5

    async def test_is_never_accepted_again_while_its_history_is_there(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A sender that writes an old id into a new envelope is not believed."""
        monkeypatch.setattr(handoffs, "_PURGE_EVERY", 1)
        clock = Offset(database)
        incoming = an_incoming()
        assert await decided(database, incoming) is None
        clock.pass_by(3600)
        again = an_incoming(incoming.envelope.event_id, message="1001", life=3900)
        assert await decided(database, again) is Refusal.REPLAY
        assert await rows_of(database, replays_table) == 0


async def remembered(tx: Transaction, count: int, seconds: float) -> None:
    """So many events that were accepted."""
    until = await tx.now() + timedelta(seconds=seconds)
    rows = [
        {"receiver": ACCOUNT, "event_id": str(uuid4()), "keep_until": until} for _ in range(count)
    ]
    await tx.execute(sa.insert(replays_table), rows)


class TestTheMemory:
    async def test_that_is_full_takes_no_more_and_forgets_nothing(self, database: Database) -> None:
        clock = Offset(database)
        known = an_incoming()
        assert await decided(database, known) is None
        async with database.transaction() as tx:
            await remembered(tx, MOST_REPLAY_EVENTS - 2, 600)
        last, over = an_incoming(message="1001"), an_incoming(message="1002", life=900)
        assert await decided(database, last) is None
        assert await decided(database, over) is Refusal.REPLAY_CAPACITY
        assert await decided(database, known) is Refusal.REPLAY
        assert await rows_of(database, replays_table) == MOST_REPLAY_EVENTS
        clock.pass_by(601)
        assert await decided(database, over) is None

    async def test_is_each_receivers_own(self, database: Database) -> None:
        async with database.transaction() as tx:
            await remembered(tx, MOST_REPLAY_EVENTS, 600)
        incoming = an_incoming()
        other = Incoming(AccountId("902"), incoming.envelope, incoming.message, incoming.sent_at)
        assert await decided(database, incoming) is Refusal.REPLAY_CAPACITY
        assert await decided(database, other) is None

    async def test_is_cleared_of_what_has_run_out_a_little_at_a_time(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Offset(database)
        monkeypatch.setattr(handoffs, "_PURGED", 2)
        monkeypatch.setattr(handoffs, "_PURGE_EVERY", 1)
        async with database.transaction() as tx:
            await remembered(tx, 3, 10)
        for incoming in a_series(3, 1):
            assert await decided(database, incoming) is None
        # Longer than anything counts for the rate.
        clock.pass_by(7200)
        assert await decided(database, an_incoming(message="7", life=9000)) is None
        assert await rows_of(database, replays_table) == 3 + 3 + 1 - 2
        assert await rows_of(database, rates_table) == 3 + 1 - 2


class TestTheRate:
    async def test_the_eleventh_of_a_minute_waits_and_is_not_spent(
        self, database: Database
    ) -> None:
        *ten, eleventh = a_series(11, 0.5)
        for incoming in ten:
            assert await decided(database, incoming) is None
        assert await decided(database, eleventh) is Refusal.RATE_LIMITED
        assert await rows_of(database, replays_table) == 10
        event = eleventh.envelope.event_id
        too_soon = an_incoming(event, message="1", sent_at=at(59.9))
        assert await decided(database, too_soon) is Refusal.RATE_LIMITED
        after = an_incoming(event, message="2", sent_at=at(60))
        assert await decided(database, after) is None

    async def test_is_counted_by_when_messages_were_sent_not_when_they_came(
        self, database: Database
    ) -> None:
        """A minute read from history in reverse holds ten; what was sent apart is not held together."""
        for incoming in a_series(12, 61):
            assert await decided(database, incoming) is None
        crowd = list(reversed(a_series(12, 2, source="902")))
        found = [await decided(database, incoming) for incoming in crowd]
        assert found == [None] * 10 + [Refusal.RATE_LIMITED] * 2

    async def test_counts_what_comes_late_from_history(self, database: Database) -> None:
        """Half an hour after that minute its ten places are still taken."""
        clock = Offset(database)
        for incoming in a_series(10, 1):
            assert await decided(database, incoming) is None
        clock.pass_by(1800)
        late = an_incoming(message="7", sent_at=at(5), life=3000)
        assert await decided(database, late) is Refusal.RATE_LIMITED

    async def test_is_each_sources_own(self, database: Database) -> None:
        for incoming in a_series(10, 1):
            assert await decided(database, incoming) is None
        assert await decided(database, an_incoming(source="902", sent_at=at(5))) is None


@asynccontextmanager
async def connected(address: str, count: int) -> AsyncIterator[list[Database]]:
    """So many processes' worth of connections."""
    opened = [await Database.open(address) for _ in range(count)]
    try:
        yield opened
    finally:
        for each in opened:
            await each.close()


Answer = Refusal | datetime | None


async def at_once(
    databases: Sequence[Database], act: Callable[[Database], Awaitable[list[Answer]]]
) -> list[Answer]:
    """Let all act from the same instant on; returns everything that they found."""
    barrier = asyncio.Barrier(len(databases))

    async def one(database: Database) -> list[Answer]:
        await barrier.wait()
        return await act(database)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(each), name="one") for each in databases]
    return [found for task in tasks for found in task.result()]


async def insisting(database: Database, incoming: Incoming) -> Refusal | None:
    """As intake does: what the database was too busy for is tried again."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await decided(database, incoming)
            except Transient:
                continue


class TestAtTheSameInstant:
    async def test_eight_accept_one_event_once(self, migrated_address: str) -> None:
        incoming = an_incoming()
        async with connected(migrated_address, 8) as databases:

            async def decide(database: Database) -> list[Answer]:
                return [await insisting(database, incoming)]

            found = await at_once(databases, decide)
        assert found.count(None) == 1
        assert found.count(Refusal.REPLAY) == 7

    async def test_under_pressure_each_source_has_ten(self, migrated_address: str) -> None:
        """Ten sources, each heard by four at once, by everybody in an order of their own."""
        messages = {f"80{n}": a_series(12, 0.1, source=f"80{n}") for n in range(10)}
        async with connected(migrated_address, 4) as databases:

            async def decide(database: Database) -> list[Answer]:
                turn = databases.index(database)
                mine = [one for series in messages.values() for one in series[turn::4]]
                return [await insisting(database, one) for one in mine[turn:] + mine[:turn]]

            found = await at_once(databases, decide)
            async with databases[0].read() as tx:
                counted = await tx.execute(sa.select(rates_table.c.source))
                assert Counter(counted.scalars()) == dict.fromkeys(messages, MOST_ACCEPTED)
        assert found.count(None) == 100
        assert found.count(Refusal.RATE_LIMITED) == 20


class TestTheWrongVariants:
    """Negative controls: what was measured to go wrong, and why the gate is as it is."""

    async def test_to_count_and_then_insert_without_a_gate_admits_too_many(
        self, postgres_database: Database
    ) -> None:
        for incoming in a_series(9, 1):
            assert await decided(postgres_database, incoming) is None
        both_have_counted = asyncio.Barrier(2)

        async def careless(message: str) -> None:
            async with postgres_database.transaction() as tx:
                near = await rate_windows.around(tx, ACCOUNT, PlatformId("901"), at(10))
                await both_have_counted.wait()
                assert len(near) < MOST_ACCEPTED
                now = await tx.now()
                await rate_windows.remember(
                    tx, ACCOUNT, PlatformId("901"), PlatformId(message), at(10), now
                )

        await asyncio.gather(careless("1"), careless("2"))
        assert await rows_of(postgres_database, rates_table) == 11

    async def test_a_gate_that_is_only_locked_is_wrong_where_snapshots_last(
        self, postgres_database: Database, migrated_postgres_address: str
    ) -> None:
        lock = sa.select(gates_table).where(gates_table.c.receiver == ACCOUNT).with_for_update()
        assert await self._admitted(postgres_database, migrated_postgres_address, lock) == 11

    async def test_a_gate_that_is_updated_is_right_there_too(
        self, postgres_database: Database, migrated_postgres_address: str
    ) -> None:
        update = (
            sa.update(gates_table)
            .where(gates_table.c.receiver == ACCOUNT)
            .values(passages=gates_table.c.passages + 1)
        )
        with pytest.raises(DBAPIError, match="could not serialize"):
            await self._admitted(postgres_database, migrated_postgres_address, update)
        assert await rows_of(postgres_database, rates_table) == 10

    async def _admitted(self, database: Database, address: str, gate: sa.Executable) -> int:
        """Two that stand before the gate together, nine being in already; how many are in then."""
        for incoming in a_series(9, 1):
            assert await decided(database, incoming) is None
        engine = create_async_engine(address, isolation_level="REPEATABLE READ")
        try:
            async with engine.connect() as first, engine.connect() as second:
                await first.execute(gate)
                waiting = asyncio.ensure_future(second.execute(gate))  # noqa: TID251 - gathered below
                await _until_one_waits(database)
                await _admit(first, "1")
                await waiting
                await _admit(second, "2")
        finally:
            await engine.dispose()
        return await rows_of(database, rates_table)

    async def test_a_unique_key_with_a_null_in_it_admits_doubles(self, database: Database) -> None:
        async with database.transaction() as tx:
            await tx.execute(sa.text("CREATE TABLE loose (a TEXT, b TEXT, UNIQUE (a, b))"))
            for _ in range(2):
                await tx.execute(sa.text("INSERT INTO loose VALUES ('event', NULL)"))
            found = await tx.execute(sa.text("SELECT count(*) FROM loose"))
            assert found.scalar_one() == 2
        keys = [column for c in handoffs_table.constraints if isinstance(c, sa.UniqueConstraint) for column in c.columns]  # fmt: skip
        assert keys
        assert not any(column.nullable for column in keys)


async def _until_one_waits(database: Database) -> None:
    async with asyncio.timeout(60):
        while True:
            async with database.read() as tx:
                waits = await tx.execute(
                    sa.text(
                        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                        " AND datname = current_database()"
                    )
                )
                if waits.scalar_one():
                    return


async def _admit(connection: AsyncConnection, message: str) -> None:
    counted = await connection.execute(sa.select(sa.func.count()).select_from(rates_table))
    if counted.scalar_one() < MOST_ACCEPTED:
        values = {"receiver": ACCOUNT, "source": "901", "message_id": message}
        await connection.execute(
            sa.insert(rates_table).values(**values, at=at(10), keep_until=at(5000))
        )
    await connection.commit()


class TestRefusals:
    async def test_are_kept_with_what_is_known_of_them(self, database: Database) -> None:
        where = MessageRef(HOME, PlatformId("1000"))
        async with database.transaction() as tx:
            await handoff_refusals.note(
                tx, ACCOUNT, Refusal.NOT_JSON, PlatformId("901"), where, None
            )
        async with database.read() as tx:
            (kept,) = await handoff_refusals.listed(tx)
        assert (kept.account, kept.reason, kept.source) == (ACCOUNT, Refusal.NOT_JSON, "901")
        assert (kept.message, kept.event_id) == (where, None)

    async def test_fill_no_more_than_their_rows_and_the_newest_stay(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Offset(database)
        monkeypatch.setattr(handoff_refusals, "MOST", 5)
        for n in range(12):
            clock.pass_by(1)
            where = MessageRef(HOME, PlatformId(str(n)))
            async with database.transaction() as tx:
                for account in (ACCOUNT, AccountId("902")):
                    await handoff_refusals.note(
                        tx, account, Refusal.EXPIRED, PlatformId("901"), where, str(uuid4())
                    )
        async with database.read() as tx:
            kept = await handoff_refusals.listed(tx)
        for account in (ACCOUNT, AccountId("902")):
            mine = [one.message.message_id for one in kept if one.account == account]
            assert mine == ["11", "10", "9", "8", "7"]

    async def test_of_eight_at_once_each_has_its_row(self, migrated_address: str) -> None:
        async with connected(migrated_address, 8) as databases:

            async def note(database: Database) -> list[Answer]:
                where = MessageRef(HOME, PlatformId(str(databases.index(database))))
                async with database.transaction() as tx:
                    await handoff_refusals.note(
                        tx, ACCOUNT, Refusal.EXPIRED, PlatformId("901"), where, None
                    )
                return []

            await at_once(databases, note)
            async with databases[0].read() as tx:
                kept = await handoff_refusals.listed(tx)
        assert {one.message.message_id for one in kept} == {str(n) for n in range(8)}


def an_envelope(target: str = "905") -> Envelope:
    incoming = an_incoming()
    given = incoming.envelope
    return Envelope(
        source=PlatformId(ACCOUNT),
        target=PlatformId(target),
        event_id=given.event_id,
        origin_channel=HOME,
        origin_thread=HOME,
        origin_message=None,
        expires_at=given.expires_at,
        text=given.text,
    )


async def an_owed(tx: Transaction, target: str = "905") -> Handoff:
    envelope = an_envelope(target)
    await handoffs.owe(tx, ACCOUNT, envelope, TURN, DeliveryId("delivery-1"))
    made = await handoffs.get(tx, ACCOUNT, envelope.event_id, Direction.OUT)
    assert made is not None
    return made


class TestSending:
    async def test_what_is_owed_is_sent_or_given_up_once(self, database: Database) -> None:
        async with database.transaction() as tx:
            owed, other = await an_owed(tx), await an_owed(tx)
            assert (owed.state, owed.delivery, owed.reason) == (
                HandoffState.OWED,
                "delivery-1",
                None,
            )
            sent = await handoffs.record(tx, owed, Posted(), message_id="1234")
            assert (sent.state, sent.message_id) == (HandoffState.SENT, "1234")
            lost = await handoffs.record(tx, other, Abandoned(NotSent.EXPIRED))
            assert (lost.state, lost.reason) == (HandoffState.NOT_SENT, NotSent.EXPIRED)
            assert sent.settled_at
            assert lost.settled_at
            with pytest.raises(IllegalTransition):
                await handoffs.record(tx, sent, Abandoned(NotSent.UNCLEAR))
            with pytest.raises(StateChanged):
                await handoffs.record(tx, owed, Posted())

    async def test_the_other_end_of_a_shared_database_is_a_row_of_its_own(
        self, database: Database
    ) -> None:
        async with database.transaction() as tx:
            owed = await an_owed(tx, target="905")
            sent = Incoming(
                AccountId("905"), an_envelope(), MessageRef(HOME, PlatformId("7")), SENT_AT
            )
            assert await handoffs.accept(tx, sent, TURN) is None
            assert await handoffs.get(tx, ACCOUNT, owed.event_id, Direction.IN) is None
            assert len(await handoffs.listed(tx)) == 2

    async def test_is_written_anew_with_a_later_expiry(self, database: Database) -> None:
        async with database.transaction() as tx:
            envelope = an_envelope()
            await handoffs.owe(tx, ACCOUNT, envelope, TURN, DeliveryId("delivery-1"))
            owed = await handoffs.get(tx, ACCOUNT, envelope.event_id, Direction.OUT)
            assert owed is not None
            later = reissued(envelope, await tx.now() + timedelta(seconds=1000))
            await handoffs.reissue(tx, owed, later, DeliveryId("delivery-2"))
            found = await handoffs.get(tx, ACCOUNT, envelope.event_id, Direction.OUT)
        assert found is not None
        assert (found.delivery, found.state) == ("delivery-2", HandoffState.OWED)
        assert found.expires_at == datetime.fromtimestamp(later.expires_at, UTC)

    async def test_keeps_to_nine_a_minute_for_a_target(self, database: Database) -> None:
        clock = Offset(database)
        async with database.transaction() as tx:
            rows = [await an_owed(tx) for _ in range(11)]
            elsewhere = await an_owed(tx, target="906")
        for row in rows[:9]:
            clock.pass_by(1)
            assert await self._begun(database, row) is None
        # A repeated try is the same message, and another target has a pace of its own.
        assert await self._begun(database, rows[8]) is None
        assert await self._begun(database, elsewhere) is None
        until = await self._begun(database, rows[9])
        async with database.read() as tx:
            assert until is not None
            wait = (until - await tx.now()).total_seconds()
            assert 45 < wait < 53
        clock.pass_by(wait + 0.01)
        assert await self._begun(database, rows[9]) is None
        assert await self._begun(database, rows[10]) is not None

    async def _begun(self, database: Database, row: Handoff) -> datetime | None:
        async with database.transaction() as tx:
            return await handoffs.begin(tx, row)

    async def test_of_twelve_at_once_nine_may_go(self, migrated_address: str) -> None:
        async with connected(migrated_address, 4) as databases:
            async with databases[0].transaction() as tx:
                rows = [await an_owed(tx) for _ in range(12)]

            async def begin(database: Database) -> list[Answer]:
                mine = rows[databases.index(database) :: 4]
                return [await self._begun(database, row) for row in mine]

            found = await at_once(databases, begin)
        assert found.count(None) == 9


async def test_a_gate_is_made_once_and_counts_its_passages(migrated_address: str) -> None:
    async with connected(migrated_address, 4) as databases:

        async def enter(database: Database) -> list[Answer]:
            async with database.transaction() as tx:
                numbers.append(await handoff_gates.enter(tx, ACCOUNT))
            return []

        numbers: list[int] = []
        await at_once(databases, enter)
    assert sorted(numbers) == [1, 2, 3, 4]


async def test_a_decision_reads_the_clock_behind_the_gate(postgres_database: Database) -> None:
    """Whoever waited decides by the moment at which the wait was over; also where the gate is made just now."""
    database, moments = postgres_database, list[datetime]()
    is_inside, is_waited_for = asyncio.Event(), asyncio.Event()

    async def holder() -> None:
        async with database.transaction() as tx:
            await handoff_gates.enter(tx, ACCOUNT)
            is_inside.set()
            await is_waited_for.wait()
            # The moment that is known already is the one at which it came in.
            await handoff_gates.enter(tx, ACCOUNT)
            moments.append(await tx.now())

    async def waiter() -> None:
        await is_inside.wait()
        async with database.transaction() as tx:
            before = await tx.now()
            await handoff_gates.enter(tx, ACCOUNT)
            moments.extend((before, await tx.now()))

    async def watcher() -> None:
        await is_inside.wait()
        await _until_one_waits(database)
        is_waited_for.set()

    async with asyncio.timeout(60):
        await asyncio.gather(holder(), waiter(), watcher())
    held, before, behind = moments
    assert before < held < behind


async def test_a_memory_that_has_run_out_is_no_memory(database: Database) -> None:
    """Whether or not anybody has deleted it."""
    clock = Offset(database)
    event = str(uuid4())
    async with database.transaction() as tx:
        now = await tx.now()
        await replay_events.remember(tx, ACCOUNT, event, now + timedelta(seconds=5))
        assert (await replay_events.look_up(tx, ACCOUNT, event, now)).has_event
    clock.pass_by(6)
    async with database.transaction() as tx:
        later = await tx.now()
        assert not (await replay_events.look_up(tx, ACCOUNT, event, later)).has_event
        await replay_events.remember(tx, ACCOUNT, event, later + timedelta(seconds=5))
        assert (await replay_events.look_up(tx, ACCOUNT, event, later)).has_event
