"""One examination from log-in to clean-up: who is who, ears open, trials, table, threads gone."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp

from openab.cli.conformance.bench import Bench, Pace, Row, Verdict
from openab.cli.conformance.gateway import Deaf, Ears
from openab.cli.conformance.rest import OutOfReach, RefusedByDiscord, Rest
from openab.cli.conformance.sightings import Watch
from openab.cli.conformance.trials import perform
from openab.ports.tasks import spawn

_TEXT_CHANNEL = 0
_READY_SECONDS = 60.0
_PAGE = 100
#: More than this between our clock and Discord's makes what is said of expiries worthless.
MOST_SKEW_SECONDS = 5.0


class Unusable(Exception):
    """The examination cannot begin; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is examined, and by whom."""

    api_base: str
    token: str
    channel: str
    target: str
    #: A second bot's token, one that the target does not trust.
    stranger: str | None
    pace: Pace
    patience: float
    #: The threads stay, whatever comes of it.
    keep: bool
    tell: Callable[[str], None]


async def examine(assignment: Assignment) -> list[Row]:
    """Every row of the table. Raises Unusable, Deaf, OutOfReach or RefusedByDiscord."""
    async with aiohttp.ClientSession() as session:
        rest = Rest(session, assignment.api_base, assignment.token)
        bench = await _bench(assignment, rest)
        stranger = assignment.stranger and Rest(session, assignment.api_base, assignment.stranger)
        ears = Ears(session, rest, bench.watch.take, lambda: _catch_up(bench))
        listening = spawn("ears", ears.listen())
        trials = spawn("trials", _trials(bench, ears, stranger or None))
        try:
            await asyncio.wait({listening, trials}, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()
            rows = trials.result()
        except BaseException:
            assignment.tell(f"its threads are left: {', '.join(bench.threads) or 'none'}")
            raise
        finally:
            for task in (trials, listening):
                task.cancel()
            await asyncio.wait({trials, listening})
        await _clean_up(bench, rows, keep=assignment.keep)
        return rows


async def _trials(bench: Bench, ears: Ears, stranger: Rest | None) -> list[Row]:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await ears.is_ready.wait()
    except TimeoutError as late:
        raise Deaf("the gateway does not become ready") from late
    return await perform(bench, stranger)


async def _bench(assignment: Assignment, rest: Rest) -> Bench:
    me = await _known(rest, "/users/@me", "--token")
    target = await _known(rest, f"/users/{assignment.target}", "--target")
    channel = await _known(rest, f"/channels/{assignment.channel}", "--channel")
    if not target.get("bot"):
        raise Unusable(f"--target {assignment.target} is a person; give a bot's user id")
    if me["id"] == assignment.target:
        raise Unusable("--token is the target's own; the tester has to be another bot")
    if channel["type"] != _TEXT_CHANNEL:
        raise Unusable(f"--channel {assignment.channel} is no text channel of a server")
    if abs(rest.skew) > MOST_SKEW_SECONDS:
        assignment.tell(f"warning: this clock differs from Discord's by {rest.skew:.0f} s")
    return Bench(
        rest=rest,
        watch=Watch(assignment.target, assignment.pace.now),
        tester=str(me["id"]),
        target=assignment.target,
        channel=assignment.channel,
        pace=assignment.pace,
        patience=assignment.patience,
        tell=assignment.tell,
    )


async def _known(rest: Rest, path: str, option: str) -> dict[str, object]:
    try:
        found: dict[str, object] = await rest.get(path)
    except RefusedByDiscord as refused:
        raise Unusable(f"{option}: {refused}") from refused
    return found


async def _catch_up(bench: Bench) -> None:
    """What was said while nobody listened."""
    for thread in bench.threads:
        newest = await bench.rest.get(f"/channels/{thread}/messages?limit={_PAGE}")
        bench.watch.take_history(thread, newest)


async def _clean_up(bench: Bench, rows: Sequence[Row], *, keep: bool) -> None:
    """Threads in which something failed are left for people to look at."""
    if keep or any(row.verdict is Verdict.FAIL for row in rows):
        bench.tell(f"the threads are left: {', '.join(bench.threads)}")
        return
    try:
        is_all = await bench.clean_up()
    except (RefusedByDiscord, OutOfReach) as failed:
        bench.tell(f"not all of its threads could be removed: {failed}")
        return
    bench.tell("its threads are deleted" if is_all else "its threads are archived")
