"""Two processes at one binding: one active, the other told; each lock and index is missed when it is not there."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextvars import Context
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from openab.control.completions import release_held
from openab.domain.binding import BindingStatus, EndReason, SessionBinding, TargetKind
from openab.domain.ids import SessionKey
from openab.domain.spawn import Held, Opened
from openab.routing.bindings import Bindings
from openab.storage import bindings as binding_rows
from openab.storage import conversations, deliveries, spawns
from openab.storage.bindings import farewell_key
from openab.storage.engine import Database
from openab.storage.failures import Conflict
from openab.storage.spawns import Spawn
from openab.storage.transaction import Transaction
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    HOME,
    a_binding,
    a_conversation,
    a_session,
    a_spawn,
    some_settings,
)
from tests.conformance.binding_stage import HOUR, Network
from tests.fakes.rooms import Rooms

Race = tuple[Network, Network]
Result = TypeVar("Result")


@pytest.fixture
async def race(database: Database, migrated_address: str) -> AsyncIterator[Race]:
    """Two processes' worth of connections to one database, on either dialect."""
    other = await Database.open(migrated_address)
    yield Network(database, "rooms"), Network(other, "rooms")
    await other.close()


@pytest.fixture
async def postgres_race(
    postgres_database: Database, migrated_postgres_address: str
) -> AsyncIterator[Race]:
    """The same where two transactions can be open at once."""
    other = await Database.open(migrated_postgres_address)
    yield Network(postgres_database, "rooms"), Network(other, "rooms")
    await other.close()


def _elsewhere(call: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
    """As another process does it, which stands in no transaction of ours."""
    return asyncio.get_running_loop().create_task(call, name="elsewhere", context=Context())


async def test_of_two_that_bind_at_once_one_is_active_and_the_other_told(race: Race) -> None:
    for number in range(5):
        sessions = [await race[0].session(f"{number}{side}") for side in (1, 2)]
        place = f"9{number}"
        made = await asyncio.gather(
            race[0].bind(sessions[0], place), race[1].bind(sessions[1], place)
        )
        found = await race[0].resolve(place)
        assert found is not None
        (loser,) = {one.binding_id for one in made} - {found.binding_id}
        told = await race[1].read(loser)
        assert (told.status, told.end_reason) == (BindingStatus.ENDING, EndReason.REPLACED)
        assert farewell_key(loser) in await race[0].owed()
        assert len(await race[0].active()) == number + 1


async def test_of_two_that_bind_the_same_session_at_once_there_is_one(race: Race) -> None:
    session = await race[0].session("40")
    one, other = await asyncio.gather(race[0].bind(session), race[1].bind(session))
    assert one.binding_id == other.binding_id
    assert len(await race[0].rows()) == 1
    assert await race[0].owed() == []


async def test_two_sweeps_end_a_binding_once(race: Race) -> None:
    session = await race[0].session("40")
    for place in range(50, 56):
        await race[0].bind(session, str(place), idle=HOUR)
    for net in race:
        net.clock.pass_by(3601)
    assert sum(await asyncio.gather(race[0].sweep(), race[1].sweep())) == 6
    assert len(await race[0].owed()) == 6
    await race[0].everything_is_sent()
    assert sum(await asyncio.gather(race[0].sweep(), race[1].sweep())) == 6
    assert {state for _, state, _ in await race[0].rows()} == {BindingStatus.ENDED}


async def test_two_looks_at_what_is_over_end_it_once(race: Race) -> None:
    made = await race[0].bind(await race[0].session("40"), idle=HOUR)
    for net in race:
        net.clock.pass_by(3601)
    assert list(await asyncio.gather(race[0].resolve(), race[1].resolve())) == [None, None]
    assert await race[0].owed() == [farewell_key(made.binding_id)]


async def test_each_binding_is_ended_by_one_of_two_that_unbind(race: Race) -> None:
    session = await race[0].session("40")
    mine = {(await race[0].bind(session, str(place))).binding_id for place in range(50, 56)}
    one, other = await asyncio.gather(race[0].unbind(session), race[1].unbind(session))
    assert set(one) | set(other) == mine
    assert not set(one) & set(other)


async def test_what_goes_on_twice_goes_on_once(race: Race) -> None:
    made = await race[0].bind(await race[0].session("40"))
    await race[0].unbind(made.binding_id, EndReason.ARCHIVED)
    found = await asyncio.gather(race[0].reattach(), race[1].reattach())
    assert sum(one is not None for one in found) == 1
    assert await race[0].active() == [made.binding_id]


class TestInTwoOpenTransactions:
    """The second one comes to its point while the first is not committed; then the first commits."""

    async def bind(self, net: Network, session: SessionKey, tx: Transaction) -> SessionBinding:
        return await net.bindings.bind(tx, session, TargetKind.SESSION, net.ref("50"))

    async def both(
        self, race: Race, monkeypatch: pytest.MonkeyPatch, module: Any, function: str
    ) -> "asyncio.Task[SessionBinding]":
        """Bind, and let the other bind as well once it has come to this call; returns its task, ended."""
        one, other = [await race[0].session(place) for place in ("40", "41")]
        async with race[0].database.transaction() as tx:
            await race[0].place(tx, "50")
        is_there, call = asyncio.Event(), getattr(module, function)

        async def noted(*what: Any, **more: Any) -> Any:
            is_there.set()
            return await call(*what, **more)

        async with race[0].database.transaction() as tx:
            await self.bind(race[0], one, tx)
            monkeypatch.setattr(module, function, noted)
            second = _elsewhere(race[1].bind(other))
            async with asyncio.timeout(10):
                await is_there.wait()
            assert not second.done()
        await asyncio.wait({second}, timeout=10)
        return second

    async def without_lock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def nothing(*_: object) -> None:
            """Nobody is locked out."""

        monkeypatch.setattr(conversations, "hold", nothing)

    async def without_index(self, race: Race) -> None:
        async with race[0].database.transaction() as tx:
            await tx.execute(sa.text("DROP INDEX uq_bindings_active_conversation"))

    async def test_the_later_commit_wins_and_the_other_is_told(
        self, postgres_race: Race, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        won = (await self.both(postgres_race, monkeypatch, conversations, "hold")).result()
        rows = {binding: (state, why) for binding, state, why in await postgres_race[0].rows()}
        assert rows.pop(won.binding_id) == (BindingStatus.ACTIVE, None)
        ((lost, how),) = rows.items()
        assert how == (BindingStatus.ENDING, EndReason.REPLACED)
        assert await postgres_race[0].owed() == [farewell_key(lost)]

    async def test_without_the_lock_the_index_refuses_the_second(
        self, postgres_race: Race, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self.without_lock(monkeypatch)
        second = await self.both(postgres_race, monkeypatch, binding_rows, "add")
        assert isinstance(second.exception(), Conflict)
        assert len(await postgres_race[0].active()) == 1

    async def test_without_lock_and_index_two_are_active(
        self, postgres_race: Race, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self.without_lock(monkeypatch)
        await self.without_index(postgres_race)
        await self.both(postgres_race, monkeypatch, binding_rows, "add")
        assert len(await postgres_race[0].active()) == 2
        assert await postgres_race[0].owed() == []

    async def test_the_lock_alone_leaves_one(
        self, postgres_race: Race, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self.without_index(postgres_race)
        (await self.both(postgres_race, monkeypatch, conversations, "hold")).result()
        assert len(await postgres_race[0].active()) == 1

    async def test_what_is_used_at_the_last_moment_is_not_swept(
        self, postgres_race: Race, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between a sweep's look and its lock somebody uses the binding."""
        sweeping, using = postgres_race
        made = await using.bind(await using.session("40"), idle=HOUR)
        sweeping.clock.pass_by(3601)
        hold = conversations.hold

        async def late(*what: Any) -> None:
            monkeypatch.setattr(conversations, "hold", hold)
            # By this process's clock its time is not over yet.
            using.clock.pass_by(3000)
            await _elsewhere(using.touch(made.binding_id))
            await hold(*what)

        monkeypatch.setattr(conversations, "hold", late)
        assert await sweeping.sweep() == 0
        assert await using.active() == [made.binding_id]

    async def test_a_session_that_is_deleted_at_this_moment_is_refused(
        self, postgres_race: Race
    ) -> None:
        one, other = postgres_race
        session = await one.session("40")
        async with one.database.transaction() as tx:
            assert await binding_rows.hold_session(tx, session)
            query = "SELECT session_key FROM sessions FOR UPDATE SKIP LOCKED"
            # Retention passes it over.
            assert await _elsewhere(self.seen(other, query)) == []
        assert await self.seen(other, query) == [session]
        async with one.database.transaction() as tx:
            assert not await binding_rows.hold_session(tx, SessionKey("net:1:2"))

    async def seen(self, net: Network, query: str) -> list[str]:
        async with net.database.transaction() as tx:
            return list((await tx.execute(sa.text(query))).scalars())

    async def test_a_commander_of_the_session_is_not_held_up(self, postgres_race: Race) -> None:
        one, other = postgres_race
        session = await one.session("40")
        async with one.database.transaction() as tx:
            assert await binding_rows.hold_session(tx, session)
            async with asyncio.timeout(10):
                await _elsewhere(self.taken(other))
            assert await binding_rows.hold_session(tx, session)

    async def test_the_end_of_a_turn_waits_for_nobody_who_moves_a_binding(
        self, postgres_race: Race
    ) -> None:
        """That one may be the next to want the conversation which the turn's end has locked."""
        one, other = postgres_race
        session = await one.session("40")
        moved, free = await one.bind(session, "50"), await one.bind(session, "51")
        async with one.database.transaction() as tx:
            await one.bindings.unbind(tx, moved.binding_id, EndReason.UNFOCUSED)
            async with asyncio.timeout(10):
                await _elsewhere(self.used(other, session))
        assert (await one.read(free.binding_id)).last_activity_at > free.last_activity_at
        assert (await one.read(moved.binding_id)).last_activity_at == moved.last_activity_at

    async def used(self, net: Network, session: SessionKey) -> None:
        async with net.database.transaction() as tx:
            await binding_rows.touch_of(tx, session)

    async def taken(self, net: Network) -> None:
        async with net.database.transaction() as tx:
            await tx.execute(sa.text("UPDATE sessions SET epoch = epoch + 1"))


async def test_what_was_held_is_shown_by_one_of_two_and_the_other_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = some_settings(bindings=Bindings({CHANNEL: Rooms()}))
    async with database.transaction() as tx:
        asked_in, thread = await a_conversation(tx), await a_conversation(tx, "500", HOME)
        key = await a_session(tx, thread, "luna")
        await a_binding(tx, thread, key)
        made = await a_spawn(tx, asked_in, agent="luna")
        for event, values in ((Opened(), {"session_key": key}), (Held(), {"answer": "Done."})):
            spawn = await spawns.get(tx, made)
            assert spawn is not None
            await spawns.record(tx, spawn, event, **values)
        as_both_saw_it = await spawns.held_of(tx, ACCOUNT)
    async with database.transaction() as tx:
        assert await release_held(tx, settings) == 1

    async def seen(*_: object) -> list[Spawn]:
        return as_both_saw_it

    monkeypatch.setattr(spawns, "held_of", seen)
    async with database.transaction() as tx:
        await conversations.close(tx, asked_in.id)
        assert await release_held(tx, settings) == 0
    async with database.read() as tx:
        assert (await conversations.get(tx, asked_in.id)).is_closed
        owed = [row["key"] for row in await deliveries.listed(tx)]
    assert owed == [f"spawn:{made}:held:1:v1"]
