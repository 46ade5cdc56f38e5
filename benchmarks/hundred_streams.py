"""A hundred turns that stream twenty chunks a second: the broker's and embedded host's CPU, edits, commits.

The agents' and the loopback Discord's work is done by other processes and is not counted.
"""

from benchmarks.commits import counting
from benchmarks.report import Row, Target, spread
from benchmarks.waits import waits_of
from benchmarks.workload import Workload

_CPU = Target("100 turns, 20 chunks/s each: CPU, of one core", 60.0, "%")
_AGE = Target("100 turns, 20 chunks/s each: oldest edit / fair share", 2.0, "times")
_COMMITS = Target("100 turns, 20 chunks/s each: write commits", 5.0, "/s")
TARGETS = (_CPU, _AGE, _COMMITS)
#: Forty edits a second for all turns, but of no turn sooner than the edit interval.
_BUDGET, _INTERVAL = 40.0, 1.5


async def measure(workload: Workload) -> list[Row]:
    """Three rows of one run, on SQLite."""
    count = workload.size(100, 2)
    async with workload.stage() as stage:
        await stage.converse(count, chunks=1_000_000, seconds=0.05)
        await stage.shown(count)
        await stage.settle(workload.size(10.0, 0.0))
        with counting(stage.database) as commits:
            used = stage.cpu_seconds()
            began, ended = await stage.settle(workload.size(40.0, 2.0))
            used, written = stage.cpu_seconds() - used, commits.so_far
        waits = waits_of(stage.edits(began), ended)
    elapsed, share = ended - began, max(count / _BUDGET, _INTERVAL)
    return [
        Row(_CPU, 100 * used / elapsed, f"{count} turns for {elapsed:.0f} s"),
        Row(
            _AGE, waits.longest / share, f"share {share:.3g} s; gaps in s, {spread(waits.finished)}"
        ),
        Row(_COMMITS, written / elapsed, f"{written} commits"),
    ]
