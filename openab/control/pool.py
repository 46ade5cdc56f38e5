"""The places for living agents: who has one, who waits in line for one, and which idle agent makes room."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from openab.control.settings import PoolSettings
from openab.domain.errors import OpenabError, Rejected
from openab.domain.ids import SessionKey, TurnId
from openab.ports.agent import Agents, AgentSession, Liveness
from openab.ports.tasks import end, spawn

log = structlog.get_logger()
#: Idle agents are looked at this often.
_SWEEP_SECONDS = 30.0

Ending = asyncio.Task[None]


@dataclass(slots=True)
class _Place:
    """One living agent, or one that may be started; `turn` is None while it is idle."""

    session: SessionKey
    turn: TurnId | None
    idle_since: float = 0.0
    #: Its name at the host, once something was started.
    name: AgentSession | None = None
    #: What must have ended before anything is started here.
    room: tuple[Ending, ...] = ()


@dataclass(frozen=True, slots=True)
class _Waiter:
    turn: TurnId
    session: SessionKey
    since: datetime
    granted: Callable[[], None]


@dataclass(slots=True)
class PoolCounters:
    """Where the pool reports what the metrics count."""

    #: An agent was ended to make room (`full`), after its time (`idle`), or by force (`hung`).
    evicted: Callable[[str], None] = field(default=lambda _reason: None)


class AgentPool:
    """As many places as agents may live here, one per session. All of it ends with the process.

    A turn asks for a place, and leaves when its run has ended, in whatever way. Its agent stays, idle,
    until it is ended to make room, after its time, or by itself. What ended is resumed on demand.
    """

    def __init__(
        self,
        agents: Agents,
        settings: PoolSettings,
        clock: Callable[[], float],
        counters: PoolCounters | None = None,
    ) -> None:
        self._agents = agents
        self._settings = settings
        self._clock = clock
        self._counters = counters or PoolCounters()
        self._places: dict[SessionKey, _Place] = {}
        self._line: dict[TurnId, _Waiter] = {}
        self._endings: dict[SessionKey, Ending] = {}

    @property
    def size(self) -> int:
        """How many agents may live at once."""
        return self._settings.max_sessions

    @property
    def waiting(self) -> int:
        """How many turns wait in line while every agent is busy with another conversation."""
        return sum(self._works(waiter.session) is None for waiter in self._line.values())

    def ask(
        self, turn: TurnId, session: SessionKey, since: datetime, granted: Callable[[], None]
    ) -> bool:
        """Whether the turn has its place. If not it waits in line, and `granted` is called later.

        The longest waiting is served first; a session's own idle agent is kept for it only then.
        """
        if not self._has(turn):
            self._line.setdefault(turn, _Waiter(turn, session, since, granted))
            self._serve()
        return self._has(turn)

    def leave(self, turn: TurnId) -> None:
        """The turn's run is over, or it does not want its place any more; twice is harmless."""
        self._line.pop(turn, None)
        for place in self._places.values():
            if place.turn == turn:
                place.turn, place.idle_since = None, self._clock()
        self._serve()

    async def admit(self, turn: TurnId, name: AgentSession) -> None:
        """Return when the turn, which has its place, may have its agent started under this name."""
        place = self._places[name.key]
        assert place.turn == turn
        former = place.name
        if former and former.generation != name.generation:
            await self._agents.close(former)
        ending = self._endings.get(name.key)
        before = {*place.room, *([ending] if ending else [])}
        if before:
            await asyncio.wait(before)
        for one in before:
            one.result()
        place.name, place.room = name, ()

    def count(self, reason: str) -> None:
        """An agent was ended from outside of the pool, for this reason."""
        self._counters.evicted(reason)

    async def run(self) -> None:
        """End what is idle for too long, until the task is cancelled."""
        try:
            while True:
                self.sweep()
                await asyncio.sleep(_SWEEP_SECONDS)
        finally:
            for ending in list(self._endings.values()):
                await end(ending)

    def sweep(self) -> None:
        """Begin to end the agents whose time has come, and serve who waits."""
        limit = self._settings.session_ttl
        if limit is not None:
            latest = self._clock() - limit.total_seconds()
            for place in self._idle():
                if place.idle_since <= latest:
                    self._evict(place, "idle")
        self._serve()

    async def ended(self) -> None:
        """Return when everything that is being ended has ended."""
        if self._endings:
            await asyncio.wait(self._endings.values())

    def _has(self, turn: TurnId) -> bool:
        return any(place.turn == turn for place in self._places.values())

    def _works(self, session: SessionKey) -> TurnId | None:
        place = self._places.get(session)
        return place.turn if place else None

    def _idle(self) -> list[_Place]:
        """The idle places whose agents live; the others are no places any more."""
        for place in [one for one in self._places.values() if one.turn is None]:
            if place.name is None or self._agents.status(place.name).liveness is Liveness.ABSENT:
                del self._places[place.session]
        return [place for place in self._places.values() if place.turn is None]

    def _serve(self) -> None:
        idle = self._idle()
        for waiter in sorted(self._line.values(), key=lambda one: (one.since, one.turn)):
            if self._works(waiter.session):
                continue
            if waiter.session not in self._places and not self._make_room(idle):
                return
            self._grant(waiter)
            idle = [place for place in idle if place.turn is None]

    def _make_room(self, idle: list[_Place]) -> bool:
        if len(self._places) < self._settings.max_sessions:
            return True
        if not idle:
            return False
        wanted = {waiter.session for waiter in self._line.values()}
        victim = min(idle, key=lambda place: (place.session in wanted, place.idle_since))
        idle.remove(victim)
        self._evict(victim, "full")
        return True

    def _grant(self, waiter: _Waiter) -> None:
        del self._line[waiter.turn]
        place = self._places.get(waiter.session)
        if place is None:
            place = self._places[waiter.session] = _Place(waiter.session, None)
            if len(self._places) + len(self._endings) > self._settings.max_sessions:
                place.room = tuple(self._endings.values())
        place.turn = waiter.turn
        waiter.granted()

    def _evict(self, place: _Place, reason: str) -> None:
        """Its agent remembers by itself; the session's row knows under which id."""
        del self._places[place.session]
        assert place.name is not None
        log.info("agent_evicted", session=place.session, reason=reason)
        self._counters.evicted(reason)
        former = self._endings.get(place.session)
        ending = spawn(f"evict {place.session}", self._end(place.name, former))
        self._endings[place.session] = ending
        ending.add_done_callback(lambda done: self._forget(place.session, done))

    async def _end(self, name: AgentSession, former: Ending | None) -> None:
        if former:
            await asyncio.wait([former])
        try:
            await self._agents.close(name)
        except Rejected as error:
            # Somebody else commands it, or the host is being stopped and ends it itself.
            log.info("agent_not_evicted", session=name.key, told=str(error))
        except OpenabError as error:
            log.warning("agent_not_evicted", session=name.key, told=str(error))

    def _forget(self, session: SessionKey, done: Ending) -> None:
        if self._endings.get(session) is done:
            del self._endings[session]
        self._serve()
