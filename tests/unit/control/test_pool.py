"""Places for agents: never more than there are, the longest waiting first, the longest idle goes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from openab.control.pool import AgentPool, PoolCounters
from openab.control.settings import PoolSettings
from openab.domain.ids import SessionKey, TurnId
from openab.ports.agent import AgentSession, Liveness, SessionStatus, StaleEpoch
from openab.ports.tasks import spawn

START = datetime(2026, 1, 1, tzinfo=UTC)


class Host:
    """Agents that live from their start to their close; how many did at once is counted."""

    def __init__(self) -> None:
        self.alive: set[tuple[str, int]] = set()
        self.most = 0
        self.may_close = asyncio.Event()
        self.may_close.set()
        self.is_stale = False

    def start(self, name: AgentSession) -> None:
        self.alive.add((name.key, name.generation))
        self.most = max(self.most, len(self.alive))

    async def close(self, name: AgentSession) -> None:
        await self.may_close.wait()
        if self.is_stale:
            raise StaleEpoch("somebody else")
        self.alive.discard((name.key, name.generation))

    def status(self, name: AgentSession) -> SessionStatus:
        is_alive = (name.key, name.generation) in self.alive
        return SessionStatus(Liveness.IDLE if is_alive else Liveness.ABSENT)


class Hall:
    """A pool, its host, and turns that use them; a turn is named by its session and a number."""

    def __init__(self, size: int = 2, ttl: timedelta | None = None) -> None:
        self.host = Host()
        self.time = 0.0
        self.evicted: list[str] = []
        self.granted: list[str] = []
        self.pool = AgentPool(
            self.host,  # type: ignore[arg-type]
            PoolSettings(size, ttl),
            lambda: self.time,
            PoolCounters(self.evicted.append),
        )

    def ask(self, turn: str, waited: float = 0.0) -> bool:
        since = START + timedelta(seconds=self.time - waited)
        return self.pool.ask(TurnId(turn), session(turn), since, lambda: self.granted.append(turn))

    async def start(self, turn: str, generation: int = 1) -> None:
        name = AgentSession("db", session(turn), generation, 1)
        await self.pool.admit(TurnId(turn), name)
        self.host.start(name)

    async def work(self, turn: str) -> None:
        """From asking to the agent's start; it must have a place at once."""
        assert self.ask(turn)
        await self.start(turn)

    def leave(self, turn: str) -> None:
        self.time += 1
        self.pool.leave(TurnId(turn))


def session(turn: str) -> SessionKey:
    return SessionKey(turn[0])


@asynccontextmanager
async def a_hall(size: int = 2, ttl: timedelta | None = None) -> AsyncIterator[Hall]:
    hall = Hall(size, ttl)
    yield hall
    hall.host.may_close.set()
    await hall.pool.ended()


class TestAPlace:
    async def test_is_kept_by_an_idle_agent_and_used_again(self) -> None:
        async with a_hall() as hall:
            await hall.work("a1")
            hall.leave("a1")
            await hall.work("a2")
        assert (hall.evicted, hall.host.most) == ([], 1)

    async def test_is_asked_for_twice_by_one_turn_and_taken_once(self) -> None:
        async with a_hall(1) as hall:
            assert hall.ask("a1")
            assert hall.ask("a1")
            hall.leave("a1")
            assert hall.ask("b1")

    async def test_of_an_agent_that_ended_by_itself_is_free(self) -> None:
        async with a_hall(1) as hall:
            await hall.work("a1")
            hall.host.alive.clear()
            hall.leave("a1")
            assert hall.ask("b1")
        assert hall.evicted == []

    async def test_that_was_never_used_is_given_back(self) -> None:
        async with a_hall(1) as hall:
            assert hall.ask("a1")
            assert not hall.ask("b1")
            hall.leave("a1")
        assert hall.granted == ["a1", "b1"]


class TestAFullPool:
    async def test_ends_the_agent_that_was_idle_longest(self) -> None:
        async with a_hall() as hall:
            for turn in ("a1", "b1"):
                await hall.work(turn)
                hall.leave(turn)
            await hall.work("c1")
            assert hall.host.alive == {("b", 1), ("c", 1)}
        assert (hall.evicted, hall.host.most) == (["full"], 2)

    async def test_starts_nothing_before_the_former_agent_has_ended(self) -> None:
        async with a_hall(1) as hall:
            await hall.work("a1")
            hall.leave("a1")
            hall.host.may_close.clear()
            assert hall.ask("b1")
            starting = spawn("start", hall.start("b1"))
            done, _ = await asyncio.wait([starting], timeout=0.02)
            assert (done, hall.host.alive) == (set(), {("a", 1)})
            hall.host.may_close.set()
            await starting
        assert hall.host.most == 1

    async def test_never_ends_an_agent_that_works(self) -> None:
        async with a_hall() as hall:
            await hall.work("a1")
            await hall.work("b1")
            assert not hall.ask("c1")
            assert hall.pool.waiting == 1
        assert hall.host.alive == {("a", 1), ("b", 1)}

    async def test_serves_the_longest_waiting_first(self) -> None:
        async with a_hall(1) as hall:
            await hall.work("a1")
            assert not hall.ask("b1", waited=1)
            assert not hall.ask("c1", waited=9)
            hall.leave("a1")
            assert hall.granted == ["a1", "c1"]
            await hall.start("c1")
            hall.leave("c1")
        assert hall.granted == ["a1", "c1", "b1"]

    async def test_gives_a_session_its_own_agent_only_in_its_turn(self) -> None:
        async with a_hall(1) as hall:
            await hall.work("a1")
            assert not hall.ask("a2", waited=1)
            assert not hall.ask("b1", waited=5)
            hall.leave("a1")
            assert hall.granted == ["a1", "b1"]
            await hall.start("b1")
            hall.leave("b1")
            await hall.start("a2")
        assert (hall.evicted, hall.host.most) == (["full", "full"], 1)

    async def test_takes_nobody_back_who_has_gone(self) -> None:
        async with a_hall(1) as hall:
            await hall.work("a1")
            assert not hall.ask("b1")
            hall.leave("b1")
            hall.leave("a1")
        assert hall.granted == ["a1"]

    async def test_counts_an_agent_whose_end_was_refused_as_gone(self) -> None:
        async with a_hall(1) as hall:
            await hall.work("a1")
            hall.leave("a1")
            hall.host.is_stale = True
            await hall.work("b1")
        assert hall.evicted == ["full"]

    async def test_ends_the_agent_of_a_former_generation_first(self) -> None:
        async with a_hall(1) as hall:
            await hall.work("a1")
            hall.leave("a1")
            assert hall.ask("a2")
            await hall.start("a2", generation=2)
        assert (hall.host.alive, hall.host.most) == ({("a", 2)}, 1)


class TestTime:
    async def test_ends_an_idle_agent_and_no_other(self) -> None:
        async with a_hall(ttl=timedelta(hours=4)) as hall:
            await hall.work("a1")
            hall.leave("a1")
            await hall.work("b1")
            hall.time += 4 * 3600 - 1
            hall.pool.sweep()
            assert hall.evicted == []
            hall.time += 1
            hall.pool.sweep()
            await hall.pool.ended()
        assert (hall.evicted, hall.host.alive) == (["idle"], {("b", 1)})

    async def test_ends_nothing_where_that_is_off(self) -> None:
        async with a_hall(ttl=None) as hall:
            await hall.work("a1")
            hall.leave("a1")
            hall.time += 10**9
            hall.pool.sweep()
        assert hall.host.alive == {("a", 1)}


_MOVES = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["ask", "leave"])))


@given(st.integers(1, 3), _MOVES)
def test_whatever_happens_no_more_agents_live_than_there_are_places(
    size: int, moves: list[tuple[str, str]]
) -> None:
    async def play() -> None:
        async with a_hall(size) as hall:
            running: set[str] = set()
            for who, move in moves:
                hall.time += 1
                turn = f"{who}1"
                if move == "leave":
                    hall.leave(turn)
                    running.discard(turn)
                else:
                    hall.ask(turn)
                for granted in [f"{one}1" for one in "abcd"]:
                    if granted not in running and hall.pool._has(TurnId(granted)):
                        running.add(granted)
                        await hall.start(granted)
                assert len(running) <= size
            # Who still waits does so because everybody else works.
            assert not hall.pool._line or len(running) == size
            assert hall.host.most <= size

    asyncio.run(play())
