"""Whatever people do with bindings in whatever order, the rows say what a dozen lines of plain Python say."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openab.domain.binding import EndReason
from openab.storage import bindings as binding_rows
from openab.storage.engine import Database
from openab.storage.transaction import Transaction
from tests.conformance.binding_stage import HOUR, Network

INSTANT = timedelta(microseconds=1)
#: Mostly the same place: what comes one upon another is what matters.
places, hours = st.sampled_from([0, 0, 0, 1]), st.sampled_from([None, HOUR, 2 * HOUR])
Step = tuple[Any, ...]
waits = st.sampled_from([HOUR / 2, HOUR - 20 * INSTANT, HOUR])
binds = st.tuples(st.just("bind"), places, st.integers(0, 1), hours, hours)
single = st.one_of(
    binds,
    st.tuples(st.just("wait"), waits),
    st.tuples(st.sampled_from(["say", "unfocus", "archive", "open"]), places),
    st.tuples(st.sampled_from(["sweep", "send"])),
)
#: What chance alone seldom brings together: a stay in the archive, with something in between.
stays = st.builds(
    lambda between, span: [("archive", 0), *between, ("wait", span), ("open", 0), ("say", 0)],
    st.lists(single, max_size=2),
    waits,
)
steps = st.lists(st.one_of(st.lists(single, min_size=1, max_size=4), stays), max_size=6).map(
    lambda parts: [("bind", 0, 0, HOUR, None), *(step for part in parts for step in part)]
)


@dataclass
class Row:
    place: int
    session: int
    idle: timedelta | None
    until: timedelta | None
    used: timedelta
    state: str = "active"
    reason: str | None = None
    is_told: bool = False

    def over(self, now: timedelta) -> str | None:
        ends = [(self.until, "expired"), (self.idle and self.used + self.idle, "idle")]
        past = [(at, why) for at, why in ends if at is not None and at <= now]
        return min(past, key=lambda one: one[0])[1] if past else None


@dataclass
class Model:
    """What a person would expect."""

    now: timedelta = timedelta(0)
    rows: list[Row] = field(default_factory=list)

    def active(self, place: int) -> Row | None:
        return next((r for r in self.rows if (r.place, r.state) == (place, "active")), None)

    def end(self, row: Row, reason: str) -> None:
        row.state, row.reason = ("ended" if reason == "archived" else "ending"), reason
        row.is_told = False

    def bind(self, place: int, session: int, idle: timedelta | None, ttl: timedelta | None) -> None:
        until = None if ttl is None else self.now + ttl
        before = self.active(place)
        if before and not before.over(self.now) and before.session == session:
            before.idle, before.until, before.used = idle, until or before.until, self.now
            return
        if before:
            self.end(before, before.over(self.now) or "replaced")
        self.rows.append(Row(place, session, idle, until, self.now))

    def say(self, place: int) -> None:
        row = self.active(place)
        if row and (why := row.over(self.now)):
            self.end(row, why)
        elif row:
            row.used = self.now

    def unfocus(self, place: int, reason: str = "unfocused") -> None:
        if row := self.active(place):
            self.end(row, reason)

    def archive(self, place: int) -> None:
        self.unfocus(place, "archived")

    def open(self, place: int) -> None:
        last = next((row for row in reversed(self.rows) if row.place == place), None)
        if last and (last.state, last.reason) == ("ended", "archived") and not last.over(self.now):
            last.state, last.reason = "active", None

    def sweep(self) -> None:
        for row in self.rows:
            if row.state == "ending" and row.is_told:
                row.state = "ended"
            elif row.state == "active" and (why := row.over(self.now)):
                self.end(row, why)

    def send(self) -> None:
        for row in self.rows:
            row.is_told = row.state == "ending"

    def wait(self, span: timedelta) -> None:
        self.now += span


class Played:
    """The same steps on the rows, in conversations of this example's own."""

    def __init__(self, net: Network, example: int) -> None:
        self.net = net
        self.example = example

    def place(self, number: int) -> str:
        return f"5{number}-{self.example}"

    async def session(self, number: int) -> Any:
        return await self.net.session(f"4{number}-{self.example}")

    async def play(self, step: Step) -> None:
        net, (word, *values) = self.net, step
        if word == "bind":
            place, session, idle, ttl = values
            await net.bind(await self.session(session), self.place(place), idle=idle, ttl=ttl)
        elif word == "say":
            found = await net.resolve(self.place(*values))
            if found:
                await net.touch(found.binding_id)
        elif word in ("unfocus", "archive"):
            reason = EndReason.ARCHIVED if word == "archive" else EndReason.UNFOCUSED
            async with net.database.transaction() as tx:
                here = await net.place(tx, self.place(*values))
                found_here = await binding_rows.active_in(tx, here)
                if found_here:
                    await net.bindings.unbind(tx, found_here.binding.binding_id, reason)
        elif word == "open":
            await net.reattach(self.place(*values))
        elif word == "sweep":
            await net.sweep()
        elif word == "send":
            await net.everything_is_sent()

    async def rows(self) -> list[tuple[str, str, str | None]]:
        async with self.net.database.read() as tx:
            found = await binding_rows.listed(tx, 10_000, only_open=False)
        return [
            (
                str(one.binding.conversation.conversation_id),
                one.binding.status.value,
                one.binding.end_reason.value if one.binding.end_reason else None,
            )
            for one in reversed(found)
            if one.binding.conversation.conversation_id.endswith(f"-{self.example}")
        ]


examples = count()


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps)
async def test_rows_follow_the_model(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, chosen: list[Step]
) -> None:
    model, played = Model(), Played(Network(sqlite_database, "rooms"), next(examples))
    start = datetime.fromisoformat("2026-07-01T00:00+00:00") + played.example * 1000 * HOUR

    async def now(_tx: Transaction) -> datetime:
        return start + model.now

    monkeypatch.setattr(Transaction, "now", now)
    # What earlier examples left is not swept among this one's.
    await sweep_all(played.net)
    for step in chosen:
        # Each step has a moment of its own, as it has in life.
        model.now += INSTANT
        await played.play(step)
        getattr(model, step[0])(*step[1:])
        expected = [(played.place(row.place), row.state, row.reason) for row in model.rows]
        assert await played.rows() == expected, chosen


async def sweep_all(net: Network) -> None:
    await net.everything_is_sent()
    while await net.sweep():
        await net.everything_is_sent()
