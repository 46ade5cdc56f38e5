"""Three hundred running turns of one account: requests a second, and whether all turns are served alike."""

from benchmarks.report import Row, Target, spread
from benchmarks.waits import waits_of
from benchmarks.workload import Workload

_REQUESTS = Target("300 running turns: requests to Discord", 50.0, "/s")
_EVENNESS = Target("300 running turns: longest edit gap / mean", 2.0, "times")
TARGETS = (_REQUESTS, _EVENNESS)


async def measure(workload: Workload) -> list[Row]:
    """Two rows of one run, on SQLite."""
    count = workload.size(300, 3)
    async with workload.stage() as stage:
        await stage.converse(count, chunks=1_000_000, seconds=1.0)
        await stage.shown(count)
        await stage.settle(workload.size(10.0, 0.0))
        began, ended = await stage.settle(workload.size(60.0, 3.5))
        requests = [one for one in stage.discord.journal.requests if began <= one.at <= ended]
        waits = waits_of(stage.edits(began), ended)
    refused = sum(one.status == 429 for one in requests)
    return [
        Row(_REQUESTS, len(requests) / (ended - began), f"{count} turns; 429 came {refused} times"),
        Row(_EVENNESS, waits.longest / waits.mean, f"gaps in s, {spread(waits.finished)}"),
    ]
