"""An owner proved dead is succeeded at once; everybody else's lease is waited for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from openab.app.life_lock import LifeLock, proves_dead
from openab.domain.ids import WorkerId
from openab.storage import conversations, schema
from openab.storage.conversations import Conversation
from openab.storage.engine import Database
from tests.builders import ACCOUNT, Offset, a_conversation, a_delivery, some_settings
from tests.conformance.control_stage import Stage

OTHER = WorkerId("other-1")
_LEASE, _CALL = timedelta(seconds=15), timedelta(seconds=60)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[LifeLock]:
    made = LifeLock(tmp_path / "other-home" / "locks")
    made.acquire()
    yield made
    made.release()


async def owned_by_another(database: Database, proof: str) -> Conversation:
    """A conversation with something to send, and a lease of another process that has not ended."""
    async with database.transaction() as tx:
        where = await a_conversation(tx)
        await a_delivery(tx, where)
    async with database.transaction() as tx:
        ((claimed, _),) = await conversations.claim(
            tx, [ACCOUNT], OTHER, proof, lease=_LEASE, call=_CALL, limit=1
        )
    return claimed


class Watch:
    """A broker whose proofs are counted."""

    def __init__(self, database: Database, is_buried: Callable[[str], bool] = proves_dead) -> None:
        self.asked: list[str] = []
        self._is_buried = is_buried
        self.stage = Stage(database, some_settings(call=_CALL))
        self.now = 0.0
        self.stage.services = replace(
            self.stage.services, is_buried=self._ask, clock=lambda: self.now
        )
        self.stage.dispatcher = type(self.stage.dispatcher)(self.stage.services)

    def _ask(self, _owner: WorkerId, proof: str) -> bool:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        self.asked.append(proof)
        return self._is_buried(proof)

    async def looks(self) -> None:
        """One look at what can be claimed, as at each poll."""
        await self.stage.dispatcher._succession.step()
        await self.stage.dispatcher._claim_all(self.stage.stopping)

    async def looks_later(self) -> None:
        self.now += 2
        await self.looks()

    def has_it(self) -> bool:
        return bool(self.stage.dispatcher._held)


@asynccontextmanager
async def watching(
    database: Database, is_buried: Callable[[str], bool] = proves_dead
) -> AsyncIterator[Watch]:
    """Ends the owners of what was claimed."""
    watch = Watch(database, is_buried)
    try:
        yield watch
    finally:
        await watch.stage.dispatcher._stop_all()


async def test_a_dead_owner_is_succeeded_at_once(database: Database, life: LifeLock) -> None:
    where = await owned_by_another(database, life.proof)
    async with watching(database) as watch:
        await watch.looks()
        assert not watch.has_it(), "it lives"
        life.release()
        await watch.looks_later()
        assert watch.has_it()
        await watch.stage.channel.until(lambda channel: channel.posted("77"))
        async with database.read() as tx:
            assert (await conversations.get(tx, where.id)).epoch == where.epoch + 1


@pytest.mark.parametrize(
    "forge",
    [
        lambda proof: proof,
        lambda proof: "another-boot:" + proof.partition(":")[2],
        lambda proof: proof.replace(":", ":9", 2),
        lambda proof: proof + "-missing",
        lambda _proof: "",
    ],
    ids=["living", "other machine or boot", "other inode", "missing file", "no proof"],
)
async def test_anybody_else_is_waited_for(
    database: Database, life: LifeLock, forge: Callable[[str], str]
) -> None:
    proof = life.proof
    if forge(proof) != proof:
        life.release()
    await owned_by_another(database, forge(proof))
    clock = Offset(database)
    async with watching(database) as watch:
        await watch.looks()
        clock.pass_by(_LEASE.total_seconds())
        await watch.looks_later()
        assert not watch.has_it(), "the last call may still be under way"
        clock.pass_by(_CALL.total_seconds())
        await watch.looks_later()
        assert watch.has_it()


async def test_control_a_look_that_believes_everything_takes_from_the_living(
    database: Database, life: LifeLock
) -> None:
    await owned_by_another(database, life.proof)
    async with watching(database, lambda _proof: True) as watch:
        await watch.looks()
        assert watch.has_it()


async def test_nobody_is_asked_after_who_holds_nothing_up(
    database: Database, life: LifeLock
) -> None:
    where = await owned_by_another(database, life.proof)
    async with watching(database) as watch:
        for _ in range(5):
            await watch.looks()
        assert len(watch.asked) == 1, "no more often than the clock allows"
        async with database.transaction() as tx:
            rows = schema.deliveries
            await tx.execute(sa.delete(rows).where(rows.c.conversation == where.id))
        await watch.looks_later()
        assert len(watch.asked) == 1, "no work, no question"


async def test_a_claim_made_meanwhile_is_left_alone(database: Database, life: LifeLock) -> None:
    """The dead owner's lease went to a third process between the look and its consequence."""
    where = await owned_by_another(database, life.proof)
    clock = Offset(database)
    clock.pass_by(90)
    async with database.transaction() as tx:
        await conversations.claim(
            tx, [ACCOUNT], WorkerId("third"), "p", lease=_LEASE, call=_CALL, limit=1
        )
    async with database.transaction() as tx:
        assert await conversations.free_dead(tx, ACCOUNT, OTHER, life.proof) == 0
        assert (await conversations.get(tx, where.id)).lease_owner == "third"
