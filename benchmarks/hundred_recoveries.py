"""A broker killed beside a hundred running turns: how long until every one is at its agent again, and once.

From the moment at which the next broker process is started to the moment at which the last agent has
read its prompt once more. The agents say only text, so that the policy `careful` goes on by itself.
"""

import time
from contextlib import suppress

from benchmarks.report import Row, Target
from benchmarks.stage import START_SECONDS
from benchmarks.workload import Workload

_TIME = Target("100 running turns, kill -9: all prompted again after", 10.0, "s")
_LOST = Target("100 running turns, kill -9: lost", 0, "turns")
_DOUBLED = Target("100 running turns, kill -9: prompted twice", 0, "turns")
TARGETS = (_TIME, _LOST, _DOUBLED)


async def measure(workload: Workload) -> list[Row]:
    """Three rows of one run, on SQLite."""
    count = workload.size(100, 2)
    async with workload.stage() as stage:
        await stage.converse(count, chunks=1_000_000, seconds=0.5)
        await stage.shown(count)
        await stage.kill()
        receipts = stage.receipts
        tags = set(receipts.at)
        receipts.at.clear()
        receipts.count.clear()
        began = time.monotonic()
        connected = await stage.start(workload.profile)
        # Those that do not come are told below, as lost.
        with suppress(TimeoutError):
            await receipts.wait(tags, START_SECONDS + count)
        # One that is prompted twice is so soon.
        await stage.settle(workload.size(5.0, 0.5))
        took = max(receipts.at.values(), default=float("nan")) - began
    lost, doubled = tags - receipts.count.keys(), [tag for tag in tags if receipts.count[tag] > 1]
    return [
        Row(_TIME, took, f"{count} turns; IDENTIFY after {connected:.2f} s"),
        Row(_LOST, len(lost)),
        Row(_DOUBLED, len(doubled)),
    ]
