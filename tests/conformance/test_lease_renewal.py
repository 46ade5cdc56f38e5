"""Leases stay alive while the main loop does not breathe, on both dialects."""

import asyncio
import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from openab.domain.ids import ConversationId, WorkerId
from openab.storage.engine import Database, DatabaseUnavailable
from openab.storage.renewal import LeaseRenewal, Renewal
from openab.storage.schema import conversations
from openab.storage.upgrade import upgrade

_WORKER = WorkerId("worker")
_LEASE = 2.0
_SOON = 60.0


async def lease(database: Database, name: str, owner: str | None, seconds: float) -> None:
    """A conversation that `owner` holds for so long from now, at epoch 7."""
    async with database.transaction() as tx:
        now = await tx.now()
        await tx.execute(
            conversations.insert().values(
                id=name,
                channel="discord",
                account="1",
                conversation_id=name,
                place="thread",
                lease_owner=owner,
                lease_until=now + timedelta(seconds=seconds),
                epoch=7,
                created_at=now,
            )
        )


async def is_held(database: Database, name: str) -> bool:
    async with database.read() as tx:
        row = sa.select(conversations.c.lease_until).where(conversations.c.id == name)
        until = (await tx.execute(row)).scalar_one()
        return bool(until > await tx.now())


@contextmanager
def renewing(address: str) -> Iterator[tuple[LeaseRenewal, "queue.Queue[Renewal]"]]:
    """A renewal that runs, and what it told; stopped at the end."""
    told: queue.Queue[Renewal] = queue.Queue()
    renewal = LeaseRenewal(address, _WORKER, _LEASE, _LEASE / 4, told.put)
    renewal.start()
    try:
        yield renewal, told
    finally:
        assert renewal.stop(_SOON)


def block_the_loop(seconds: float) -> None:
    """What a loop must never do; here it is the point."""
    time.sleep(seconds)


async def test_a_blocked_main_loop_loses_no_lease(
    database: Database, migrated_address: str
) -> None:
    await lease(database, "mine", _WORKER, _LEASE)
    await lease(database, "unrenewed", "another", _LEASE)
    with renewing(migrated_address) as (_, told):
        assert told.get(timeout=_SOON).epochs == {"mine": 7}
        block_the_loop(1.5 * _LEASE)
        assert await is_held(database, "mine")
        # The negative control: so long is long enough to lose one.
        assert not await is_held(database, "unrenewed")


async def test_validity_counts_from_before_it_asked(
    database: Database, migrated_address: str
) -> None:
    await lease(database, "mine", _WORKER, 30)
    before = time.monotonic()
    with renewing(migrated_address) as (renewal, told):
        first = told.get(timeout=_SOON)
        valid = renewal.valid_until(ConversationId("mine"), 7)
        assert before <= first.asked_at
        assert valid is not None
        assert valid >= first.asked_at + _LEASE
        assert renewal.valid_until(ConversationId("mine"), 6) is None
        assert renewal.valid_until(ConversationId("other"), 7) is None


async def test_only_own_and_living_leases_are_renewed(
    database: Database, migrated_address: str
) -> None:
    await lease(database, "mine", _WORKER, 30)
    await lease(database, "ended", _WORKER, -1)
    await lease(database, "another", "another", 30)
    await lease(database, "nobodys", None, 30)
    with renewing(migrated_address) as (_, told):
        assert told.get(timeout=_SOON).epochs == {"mine": 7}
    assert not await is_held(database, "ended")


async def test_a_row_in_use_does_not_hold_up_the_others(migrated_postgres_address: str) -> None:
    database = await Database.open(migrated_postgres_address)
    await lease(database, "mine", _WORKER, 30)
    await lease(database, "in use", _WORKER, 30)
    async with database.transaction() as tx:
        await tx.execute(
            sa.update(conversations).where(conversations.c.id == "in use").values(bot_turns=1)
        )
        with renewing(migrated_postgres_address) as (_, told):
            await asyncio.to_thread(told.get, timeout=_SOON)
            later = await asyncio.to_thread(told.get, timeout=_SOON)
            assert later.epochs == {"mine": 7}
    await database.close()


async def test_a_failure_is_told_and_the_next_round_goes_on(sqlite_address: str) -> None:
    with renewing(sqlite_address) as (_, told):
        failed = await asyncio.to_thread(told.get, timeout=_SOON)
        # No tables yet.
        assert failed.failure is not None
        assert failed.epochs == {}
        await upgrade(sqlite_address)
        async with asyncio.timeout(_SOON):
            while (await asyncio.to_thread(told.get, timeout=_SOON)).failure is not None:
                pass


async def test_a_server_that_is_not_there_is_told() -> None:
    with renewing("postgresql+asyncpg://nobody@127.0.0.1:1/nothing") as (_, told):
        failed = await asyncio.to_thread(told.get, timeout=_SOON)
        assert isinstance(failed.failure, DatabaseUnavailable)


async def test_a_listener_that_raises_does_not_end_it(migrated_sqlite_address: str) -> None:
    told: queue.Queue[Renewal] = queue.Queue()

    def listen(renewal: Renewal) -> None:
        told.put(renewal)
        raise RuntimeError("a bug of the listener")

    renewal = LeaseRenewal(migrated_sqlite_address, _WORKER, _LEASE, 0.01, listen)
    renewal.start()
    for _ in range(3):
        await asyncio.to_thread(told.get, timeout=_SOON)
    assert await asyncio.to_thread(renewal.stop, _SOON)
