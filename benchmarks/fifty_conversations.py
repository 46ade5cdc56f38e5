"""The same way from message to prompt, when messages come in fifty conversations at once."""

from benchmarks.report import Row, Target, percentile, spread
from benchmarks.workload import Workload

_NAMES = ("sqlite", "postgres")
TARGETS = tuple(
    Target(f"message → session/prompt, 50 at once, p99, {name}", 200.0, "ms") for name in _NAMES
)


async def measure(workload: Workload) -> list[Row]:
    """One row a database."""
    rows = []
    for target, name in zip(TARGETS, _NAMES, strict=True):
        if name in workload.databases:
            taken = await _at_once(workload, name)
            rows.append(Row(target, percentile(taken, 99), spread(taken)))
    return rows


async def _at_once(workload: Workload, database: str) -> list[float]:
    async with workload.stage(database) as stage:
        await stage.converse(workload.size(50, 2))
        taken: list[float] = []
        for _ in range(workload.size(8, 1)):
            await stage.quiet()
            taken += (await stage.ask(stage.threads)).values()
        return [1000 * seconds for seconds in taken]
