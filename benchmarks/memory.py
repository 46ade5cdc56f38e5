"""The broker's memory with nothing to do, and what each running turn adds to it."""

from benchmarks.report import Row, Target
from benchmarks.workload import Workload

_IDLE = Target("broker memory, idle", 130.0, "MB")
_TURN = Target("broker memory, per running turn", 0.5, "MB")
TARGETS = (_IDLE, _TURN)


async def measure(workload: Workload) -> list[Row]:
    """Two rows: resident memory before, and with a hundred turns that have streamed for a while."""
    count = workload.size(100, 2)
    async with workload.stage() as stage:
        # The first turn loads what every turn shares.
        await stage.converse(1)
        await stage.quiet(workload.size(3.0, 0.6))
        idle = stage.memory_mb()
        await stage.converse(count, chunks=1_000_000, seconds=0.2)
        await stage.shown(count)
        await stage.settle(workload.size(30.0, 1.0))
        running = stage.memory_mb()
    note = f"{count} turns: {running:.0f} MB"
    return [Row(_IDLE, idle, "after one turn"), Row(_TURN, (running - idle) / count, note)]
