"""Decisions on hand-offs for one receiver, each a transaction of its own, by 1, 4 and 8 processes at once.

All processes see the same messages, as replicas would that hear the same bots: of fifty sources, twelve
a minute each, so that some events are new, some are repeated, and some are too many. One receiver is
the worst case: behind its gate nobody decides at the same time. What was accepted is read from the
database afterwards.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from benchmarks.handoff_worker import Order, Report
from benchmarks.report import Row, Target
from benchmarks.workload import Workload, new_database
from openab.domain.handoff.limits import RATE_WINDOW
from openab.storage.engine import Database
from openab.storage.schema import handoffs, rate_windows
from openab.storage.upgrade import upgrade

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

PROCESSES = (1, 4, 8)
#: What the target is for.
_PROMISED = 4
_DECISION = Target("hand-off decision, 4 processes, postgres", 2, "ms")
_ADMITTED = Target("hand-offs of a source accepted in a minute, postgres", 10, "hand-offs")
TARGETS = (_DECISION, _ADMITTED)

_ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 240.0


async def measure(workload: Workload) -> list[Row]:
    """Both rows; nothing without Postgres, where alone processes decide for each other."""
    if "postgres" not in workload.databases:
        return []
    seconds = workload.size(5.0, 0.5)
    async with new_database("postgres") as address:
        await upgrade(address)
        made: dict[int, list[Report]] = {}
        for count in PROCESSES:
            order = Order(address, f"9{count:02}", time.time(), seconds, 1_000_000, sources=50)
            made[count] = await carried_out(order, count)
        most, accepted = await admitted(address)
    told = sum(one.accepted for reports in made.values() for one in reports)
    if told != accepted:
        raise RuntimeError(f"{told} were told to be accepted, {accepted} are in the history")
    rates = {count: sum(one.decisions for one in made[count]) / seconds for count in PROCESSES}
    note = ", ".join(f"{count} processes {rate:.0f}/s" for count, rate in rates.items())
    return [
        Row(_DECISION, 1000 / max(rates[_PROMISED], 0.001), note),
        Row(_ADMITTED, most, f"{accepted} accepted, none twice"),
    ]


async def carried_out(order: Order, processes: int) -> list[Report]:
    """Let so many processes do the same at once."""
    line = json.dumps(asdict(order)).encode() + b"\n"
    async with _workers(processes) as workers, asyncio.TaskGroup() as group:
        tasks = [group.create_task(_report(one, line), name="decisions") for one in workers]
    return [task.result() for task in tasks]


async def admitted(address: str) -> tuple[int, int]:
    """The most that any minute of a source holds, and how many were accepted in all."""
    times: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    database = await Database.open(address)
    try:
        async with database.read() as tx:
            for row in await tx.execute(sa.select(rate_windows)):
                times[row.receiver, row.source].append(row.at)
            counted = await tx.execute(sa.select(sa.func.count()).select_from(handoffs))
            accepted = int(counted.scalar_one())
    finally:
        await database.close()
    most = max(_fullest(source) for source in times.values())
    return most, accepted


def _fullest(times: "Sequence[datetime]") -> int:
    return max(sum(start <= at < start + RATE_WINDOW for at in times) for start in times)


@asynccontextmanager
async def _workers(count: int) -> "AsyncIterator[Sequence[asyncio.subprocess.Process]]":
    """Processes that are ready to begin; none outlives the block."""
    argv = [sys.executable, "-m", "benchmarks.handoff_worker"]
    made: list[asyncio.subprocess.Process] = []
    try:
        for _ in range(count):
            pipe = asyncio.subprocess.PIPE
            made.append(
                await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, cwd=_ROOT)
            )
        async with asyncio.timeout(_START_SECONDS):
            for one in made:
                assert one.stdout is not None
                await one.stdout.readexactly(1)
        yield made
    finally:
        for one in made:
            if one.returncode is None:
                one.kill()
            await one.wait()


async def _report(worker: asyncio.subprocess.Process, order: bytes) -> Report:
    told, _ = await worker.communicate(order)
    return Report(**json.loads(told))
