"""Whole runs of the laboratory: every point once, or so many strikes by chance; judged at the end."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from openab.cli.database import FAILED
from openab.ports.tasks import spawn
from tests.lab.brood import Life, Order
from tests.lab.laboratory import Laboratory
from tests.lab.people import NoPlace
from tests.lab.stories import STORIES, Story
from tests.lab.tripwire import ANY, KINDS, NEW

#: A life in which nothing strikes for so long is taken to pass the point no more.
_PATIENCE_SECONDS = 2.5
#: An order that does not strike is replaced by another, so often at most for each that does.
_TRIES = 3
#: What is given to come to rest after the last start.
_SETTLE_SECONDS = 90.0
#: From then on a broker outlives everything.
_OPENED = "commit:app.broker.Broker._open_database:after"
_WEIGHTS = (14, 2, 2, 2)
#: So often are all stories told without a new point before what is missing counts as out of reach.
_MOST_IN_VAIN = 4


@dataclass(frozen=True, slots=True)
class Stroke:
    """What was done to a process, where."""

    number: int
    point: str
    kind: str

    def __str__(self) -> str:
        return f"round {self.number}: {self.kind} at {self.point}"


@dataclass(eq=False)
class Report:
    """What a run came to."""

    seed: int = 0
    strokes: list[Stroke] = field(default_factory=list)
    passed: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    picture: str = ""
    #: Seconds from a start until no turn is left that only the dead process ran.
    recoveries: list[float] = field(default_factory=list)
    seconds: float = 0.0
    #: Told of each stroke.
    watch: Callable[[str], None] = lambda _told: None

    def note(self, point: str, kind: str) -> None:
        """A process was struck."""
        self.strokes.append(Stroke(len(self.strokes) + 1, point, kind))
        self.watch(str(self.strokes[-1]))

    @property
    def hits(self) -> Counter[str]:
        """How often each point was struck."""
        return Counter(stroke.point for stroke in self.strokes)

    def told(self) -> str:
        """All that somebody needs to do it again, and to see what went wrong."""
        last = [str(stroke) for stroke in self.strokes[-12:]]
        return "\n".join([f"seed {self.seed}", *last, *self.violations, self.picture])


class Strokes:
    """Starts a broker again and again, each time with an order, and notes where it struck."""

    def __init__(self, lab: Laboratory, report: Report) -> None:
        self._lab, self._report = lab, report

    async def strike(
        self, order: Order, life: Life | None, idle: Callable[[], bool]
    ) -> Life | None:
        """Wait until the order strikes (or `idle` says it will not); the life that goes on, if one does."""
        lab = self._lab
        before = await lab.rows.running() if life is None else {}
        known = len(life.struck) if life else 0
        if life is None:
            life = await lab.begin(order)
        else:
            life.order(order)
        over = asyncio.Event()
        recovering = spawn("recovering", self._recover(life, before, over))
        try:
            await _until(lambda: life.ended.is_set() or len(life.struck) > known or idle())
        finally:
            over.set()
            await recovering
        for point in life.struck[known:]:
            self._report.note(point, order.kind)
            life.is_cut |= order.kind == "cut-database"
        if order.kind == "kill" and len(life.struck) > known:
            await life.ended.wait()
        return await self._after(life)

    async def _after(self, life: Life) -> Life | None:
        if not life.ended.is_set():
            return life
        await self._lab.gone(life)
        self._report.passed.update(life.passed)
        if life.exit_code != -signal.SIGKILL and not _could_not_start(life):
            self._report.violations.append(f"a broker ended by itself: {life.exit_code}")
        return None

    async def _recover(
        self, life: Life, before: dict[str, tuple[int, str]], over: asyncio.Event
    ) -> None:
        while before and not over.is_set():
            now = await self._lab.rows.running()
            before = {turn: how for turn, how in before.items() if now.get(turn) == how}
            if not before:
                self._report.recoveries.append(time.monotonic() - life.began)
            # The rows of another process give no sign when they change.
            await asyncio.sleep(0.1)

    async def last(self, life: Life | None) -> Life:
        """The life in which everything comes to rest."""
        life = life or await self._lab.begin()
        life.order(Order("nowhere"))
        return life

    async def close(self, life: Life) -> None:
        """Stop in order."""
        life.send(signal.SIGTERM)
        await life.ended.wait()
        self._report.passed.update(life.passed)
        if life.exit_code:
            self._report.violations.append(f"an orderly stop ended with {life.exit_code}")


def _could_not_start(life: Life) -> bool:
    """It was cut off from its database before it had opened it: that it tells and ends (`docs/operations.md`)."""
    return life.exit_code == FAILED and life.is_cut and _OPENED not in life.passed


async def _until(fits: Callable[[], bool]) -> None:
    while not fits():  # noqa: ASYNC110 - processes and people have no sign in common
        await asyncio.sleep(0.02)


async def every_point(
    labs: Sequence[Laboratory],
    report: Report,
    is_enough: Callable[[Report], bool] = lambda _report: True,
) -> Report:
    """Each life is killed at the first point at which none was killed before, until there is none.

    The laboratories share the points and the stories, and work side by side: most of a life is waiting.
    The stories are told again, a few times, while the report `is_enough` not yet: on a slow machine
    people give up before everything that they wanted has happened.
    """
    began = time.monotonic()
    rooms = [Room(lab, report) for lab in labs]
    await _each(room.open() for room in rooms)
    shares = [list(STORIES.values())[n :: len(rooms)] for n in range(len(rooms))]
    await _each(room.exhaust(share) for room, share in zip(rooms, shares, strict=True))
    for again in range(1, _MOST_IN_VAIN):
        told = [shares[(n + again) % len(rooms)] for n in range(len(rooms))]
        searching = zip(rooms, told, strict=True)
        await _each(room.search(share, lambda: is_enough(report)) for room, share in searching)
    await _each(room.close() for room in rooms)
    report.seconds = time.monotonic() - began
    return report


async def _each(steps: Iterable[Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for n, step in enumerate(steps):
            group.create_task(step, name=f"room {n}")


class Room:
    """One of the laboratories in which every point is struck."""

    def __init__(self, lab: Laboratory, report: Report) -> None:
        self._lab, self._report = lab, report
        self._strokes = Strokes(lab, report)
        self._life: Life | None = None
        self._struck = 0

    async def open(self) -> None:
        """Nobody talks until the account listens: what was said before its first start is not answered."""
        await self._while(spawn("hearing", self._lab.hears()))

    async def exhaust(self, stories: Sequence[Story]) -> None:
        """Tell the stories beside one another, then each alone until nothing new comes while it is told."""
        await self._while(spawn("people", self._tell(stories)))

    async def search(self, stories: Sequence[Story], is_over: Callable[[], bool]) -> None:
        """Tell each alone, as long as something is missing."""
        await self._while(spawn("people", self._tell_alone(stories, is_over)))

    async def _tell(self, stories: Sequence[Story]) -> None:
        await _each(_told(story, self._lab) for story in stories)
        await self._tell_alone(stories, lambda: False)

    async def _tell_alone(self, stories: Sequence[Story], is_over: Callable[[], bool]) -> None:
        for story in stories:
            struck = -1
            while struck != self._struck and not is_over():
                struck = self._struck
                await _told(story, self._lab)

    async def close(self) -> None:
        """Come to rest, and judge."""
        await _finish(self._lab, self._strokes, self._report, self._life)

    async def _while(self, task: "asyncio.Task[None]") -> None:
        """Strike at points that are new until the task has ended."""
        while not task.done():
            self._life = await self._strokes.strike(Order(NEW), self._life, task.done)
            self._struck += self._life is None
        await task


async def by_chance(lab: Laboratory, report: Report, rounds: int, conversations: int) -> Report:
    """So many strikes at points, passings and of kinds that the seed chooses, beside talk without end."""
    seed, chance = report.seed, random.Random(report.seed)
    strokes = Strokes(lab, report)
    began = time.monotonic()
    stopping = asyncio.Event()
    life: Life | None = await lab.begin()
    await lab.hears()
    people = [
        spawn(f"person {n}", _talk(lab, random.Random(f"{seed} {n}"), stopping))
        for n in range(conversations)
    ]
    for _ in range(rounds * _TRIES):
        if len(report.strokes) >= rounds:
            break
        order, until = _order(chance, report), time.monotonic() + _PATIENCE_SECONDS
        life = await strokes.strike(order, life, lambda: time.monotonic() > until)  # noqa: B023
    stopping.set()
    life = await strokes.last(life)
    await asyncio.wait(people)
    await _finish(lab, strokes, report, life)
    report.seconds = time.monotonic() - began
    return report


def _order(chance: random.Random, report: Report) -> Order:
    kind = chance.choices(KINDS, _WEIGHTS)[0]
    seen = sorted(report.passed)
    if seen and chance.random() < 0.5:
        return Order(chance.choice(seen), chance.randint(1, 3), kind)
    return Order(ANY, chance.randint(1, 100), kind)


async def _talk(lab: Laboratory, chance: random.Random, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        await _told(chance.choice(list(STORIES.values())), lab)


async def _told(story: Story, lab: Laboratory) -> None:
    # What was lost is found by the judges.
    with suppress(NoPlace):
        await story(lab)


async def _finish(lab: Laboratory, strokes: Strokes, report: Report, life: Life | None) -> None:
    life = await strokes.last(life)
    report.violations += await lab.settled(_SETTLE_SECONDS)
    if report.violations:
        report.picture += lab.picture()
    await strokes.close(life)
