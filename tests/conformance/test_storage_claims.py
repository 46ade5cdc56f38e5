"""Claims and leases on both dialects: no double, order kept, and old owners write nothing."""

# ruff: noqa: PT012 - the block that must raise is a transaction

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

import pytest
import sqlalchemy as sa

from openab.domain.errors import LeaseLost
from openab.domain.ids import AccountId, ConversationId, WorkerId
from openab.domain.turn import Claimed, Ended, Outcome, TurnState
from openab.ports.tasks import spawn
from openab.storage import conversations, deliveries, reactions, turns
from openab.storage.conversations import Ownership
from openab.storage.engine import Conflict, Database
from openab.storage.schema import conversations as table
from tests.builders import ACCOUNT, Offset, a_claim, a_conversation, a_delivery, a_turn

CALL = timedelta(seconds=5)
Row = TypeVar("Row")


async def with_work(database: Database, count: int) -> None:
    async with database.transaction() as tx:
        for n in range(count):
            where = await a_conversation(tx, str(100 + n))
            await a_turn(tx, where, str(1000 + n))


async def is_claimable(database: Database) -> bool:
    async with database.read() as tx:
        return await conversations.is_any_claimable(tx, [ACCOUNT], CALL)


class TestAClaim:
    async def test_eight_at_once_never_claim_the_same(self, database: Database) -> None:
        await with_work(database, 20)

        async def worker(name: str) -> list[ConversationId]:
            mine: list[ConversationId] = []
            while claimed := await a_claim(database, name, limit=2):
                mine += [where.id for where, _ in claimed]
            return mine

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(worker(f"w{n}"), name=f"w{n}") for n in range(8)]
        claimed = [one for task in tasks for one in task.result()]
        # A worker may find all free rows locked for a moment; the next look finds the rest.
        claimed += [where.id for where, _ in await a_claim(database, "last")]
        assert len(claimed) == len(set(claimed)) == 20
        async with database.read() as tx:
            epochs = await tx.execute(sa.select(table.c.epoch))
            assert set(epochs.scalars()) == {1}

    async def test_read_then_write_claims_doubly(self, postgres_database: Database) -> None:
        """Negative control: why the claim is one statement that skips locked rows."""
        database = postgres_database
        await with_work(database, 1)
        both_have_read = asyncio.Barrier(2)

        async def naive(worker: str) -> int:
            async with database.transaction() as tx:
                free = await tx.execute(sa.select(table.c.id).where(table.c.lease_until.is_(None)))
                found = list(free.scalars())
                await both_have_read.wait()
                now = await tx.now()
                await tx.execute(
                    sa.update(table)
                    .where(table.c.id.in_(found))
                    .values(lease_owner=worker, lease_until=now + CALL)
                )
            return len(found)

        assert sum(await asyncio.gather(naive("a"), naive("b"))) == 2

    async def test_takes_only_what_has_work_here(self, database: Database) -> None:
        async with database.transaction() as tx:
            await a_conversation(tx, "1")
            with_turn = await a_conversation(tx, "2")
            await a_turn(tx, with_turn)
            with_row = await a_conversation(tx, "3")
            await a_delivery(tx, with_row)
        claimed = {where.ref.conversation_id for where, _ in await a_claim(database)}
        assert claimed == {"2", "3"}
        assert not await is_claimable(database)

    async def test_leaves_other_accounts_alone(self, database: Database) -> None:
        await with_work(database, 1)
        async with database.transaction() as tx:
            claimed = await conversations.claim(
                tx, [AccountId("901")], WorkerId("w"), "p", lease=CALL, call=CALL, limit=5
            )
        assert not claimed

    async def test_what_is_due_later_is_no_work_yet(self, database: Database) -> None:
        clock = Offset(database)
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            later = await tx.now() + timedelta(seconds=60)
            await a_delivery(tx, where, not_before=later)
            turn = await a_turn(tx, where)
            await turns.record(tx, await the(turns.get(tx, turn)), Claimed())
            await reactions.wish(tx, turn, "👀", later)
            await turns.record(
                tx, await the(turns.get(tx, turn)), Ended(Outcome.COMPLETED), outcome="completed"
            )
        assert not await is_claimable(database)
        assert not await a_claim(database)
        clock.pass_by(61)
        assert await is_claimable(database)
        assert len(await a_claim(database)) == 1

    async def test_a_lease_ends_only_after_its_owners_last_call(self, database: Database) -> None:
        clock = Offset(database)
        await with_work(database, 1)
        ((_, first),) = await a_claim(database, "w1")
        clock.pass_by(16)
        assert not await a_claim(database, "w2")
        clock.pass_by(5)
        ((_, second),) = await a_claim(database, "w2")
        assert second.epoch == first.epoch + 1

    async def test_many_more_conversations_than_work_are_not_looked_at(
        self, sqlite_database: Database
    ) -> None:
        async with sqlite_database.read() as tx:
            now = await tx.now()
            query = sa.select(table.c.id).where(conversations._has_work())
            statement = query.params(now=now, accounts=[ACCOUNT])
            text = statement.compile(
                dialect=sa.create_engine("sqlite://").dialect,
                compile_kwargs={"literal_binds": True},
            )
            plan = await tx.execute(sa.text(f"EXPLAIN QUERY PLAN {text}".replace(":", r"\:")))
            steps = [row.detail for row in plan]
        assert not [step for step in steps if step.startswith("SCAN")], steps
        assert any("ix_turns_open" in step for step in steps)
        assert any("ix_deliveries_open" in step for step in steps)


class TestAnOldOwner:
    async def test_cannot_write_after_a_take_over(self, database: Database) -> None:
        clock = Offset(database)
        await with_work(database, 1)
        ((where, old),) = await a_claim(database, "w1")
        clock.pass_by(30)
        ((_, new),) = await a_claim(database, "w2")
        with pytest.raises(LeaseLost):
            async with database.transaction() as tx:
                await conversations.lock(tx, old)
                await a_delivery(tx, where)
        with pytest.raises(LeaseLost):
            async with database.transaction() as tx:
                await conversations.release(tx, old)
        async with database.transaction() as tx:
            assert await conversations.locked_of(tx, [old]) == set()
            assert await conversations.locked_of(tx, [new]) == {where.id}
            assert not await deliveries.open_of(tx, where.id)

    async def test_an_insert_under_way_holds_the_take_over_up(
        self, postgres_database: Database
    ) -> None:
        """The claim has to wait for the lock, or to pass the row by: never both succeed."""
        database, clock = postgres_database, Offset(postgres_database)
        await with_work(database, 1)
        ((where, old),) = await a_claim(database, "w1")
        clock.pass_by(30)
        async with database.transaction() as tx:
            await conversations.lock(tx, old)
            await a_delivery(tx, where)
            assert not await spawn("another worker", a_claim(database, "w2"))
        ((_, new),) = await a_claim(database, "w2")
        assert new.epoch == old.epoch + 1

    async def test_without_the_lock_its_insert_commits_after_a_take_over(
        self, postgres_database: Database
    ) -> None:
        """Negative control: reading the epoch is not enough."""
        database, clock = postgres_database, Offset(postgres_database)
        await with_work(database, 1)
        ((where, old),) = await a_claim(database, "w1")
        clock.pass_by(30)
        async with database.transaction() as tx:
            assert (await conversations.get(tx, where.id)).epoch == old.epoch
            assert await spawn("another worker", a_claim(database, "w2"))
            await a_delivery(tx, where)
        async with database.read() as tx:
            assert len(await deliveries.open_of(tx, where.id)) == 1

    async def test_that_is_proved_dead_is_succeeded_at_once(self, database: Database) -> None:
        await with_work(database, 2)
        await a_claim(database, "w1")
        async with database.transaction() as tx:
            living = await conversations.free_dead(tx, ACCOUNT, WorkerId("w2"), "proof")
            other = await conversations.free_dead(tx, ACCOUNT, WorkerId("w1"), "another proof")
        assert (living, other) == (0, 0)
        async with database.transaction() as tx:
            assert await conversations.free_dead(tx, ACCOUNT, WorkerId("w1"), "proof") == 2
        assert len(await a_claim(database, "w2")) == 2


class TestAHintAtWork:
    async def test_names_what_others_put_into_a_conversation(self, database: Database) -> None:
        await with_work(database, 1)
        [(where, ownership)] = await a_claim(database, "w1")
        heard: list[str] = []
        database.hear_of_work(heard.append)
        async with database.transaction() as tx:
            await conversations.take_seq(tx, where.id)
            assert heard == []
        assert heard == [where.id]
        async with database.transaction() as tx:
            await conversations.lock(tx, ownership)
            await conversations.take_seq(tx, where.id)
            other = await a_conversation(tx, "999")
            await conversations.take_part(tx, other.id)
        assert heard == [where.id, other.id]

    async def test_names_nothing_that_was_rolled_back(self, database: Database) -> None:
        heard: list[str] = []
        database.hear_of_work(heard.append)
        with pytest.raises(LeaseLost):
            async with database.transaction() as tx:
                await conversations.take_seq(tx, (await a_conversation(tx, "999")).id)
                raise LeaseLost
        assert heard == []


class TestTheConversation:
    async def test_numbers_are_taken_once(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)

        async def take() -> int:
            async with database.transaction() as tx:
                return await conversations.take_seq(tx, where.id)

        taken = await asyncio.gather(*(take() for _ in range(10)))
        assert sorted(taken) == list(range(1, 11))

    async def test_is_made_once_by_two_at_the_same_time(self, postgres_database: Database) -> None:
        made_but_not_committed, other_waits = asyncio.Event(), asyncio.Event()

        async def first() -> str:
            async with postgres_database.transaction() as tx:
                where = await a_conversation(tx)
                made_but_not_committed.set()
                await other_waits.wait()
            return where.id

        async def second() -> str:
            await made_but_not_committed.wait()
            async with postgres_database.transaction() as tx:
                other_waits.set()
                return (await a_conversation(tx)).id

        one, other = await asyncio.gather(first(), second())
        assert one == other

    async def test_learns_its_parent_later(self, database: Database) -> None:
        async with database.transaction() as tx:
            before = await a_conversation(tx, "500")
            after = await a_conversation(tx, "500", "77")
        assert (before.id, after.ref.parent_conversation_id) == (after.id, "77")

    async def test_the_newest_message_is_the_greatest_id(self, database: Database) -> None:
        async with database.transaction() as tx:
            for message in ("999", "1000", "998"):
                where = await a_conversation(tx)
                await conversations.note_message(tx, where, message, other_bot=message == "999")  # type: ignore[arg-type]
            found = await a_conversation(tx)
        assert (found.last_message_id, found.has_other_bot) == ("1000", True)

    async def test_idle_means_that_nothing_is_due(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            assert await conversations.is_idle(tx, where)
            await a_delivery(tx, where)
            assert not await conversations.is_idle(tx, where)


class TestTheSeatBelt:
    async def test_one_turn_runs_per_session(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            first, second = await a_turn(tx, where, "1"), await a_turn(tx, where, "2")
            await turns.record(tx, await the(turns.get(tx, first)), Claimed())
        with pytest.raises(Conflict):
            async with database.transaction() as tx:
                await turns.record(tx, await the(turns.get(tx, second)), Claimed())
        async with database.read() as tx:
            assert (await the(turns.get(tx, second))).state is TurnState.QUEUED

    async def test_turns_stand_in_the_order_of_their_messages(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            late = await a_turn(tx, where, "30")
            early = await a_turn(tx, where, "9")
            middle = await a_turn(tx, where, "20")
            waiting = [turn.id for turn in await turns.open_of(tx, where.id)]
            await turns.record(tx, await the(turns.get(tx, late)), Claimed())
            running = [turn.id for turn in await turns.open_of(tx, where.id)]
        assert waiting == [early, middle, late]
        # A running turn is not overtaken.
        assert running == [late, early, middle]


def test_an_ownership_is_for_one_epoch() -> None:
    conversation = ConversationId("c")
    assert Ownership(conversation, 1) != Ownership(conversation, 2)


async def the(found: Awaitable[Row | None]) -> Row:
    """What must be there."""
    row = await found
    assert row is not None
    return row
