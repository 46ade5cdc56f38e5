"""A message in an existing conversation until the agent has read `session/prompt`, with nothing else to do.

From the call that posts the message in the loopback Discord (so its and discord.py's work counts, too)
to the moment the agent's process had read the line from its stdin. Everything is committed by then:
the broker prompts only after the commits that the design asks for.
"""

from benchmarks.report import Row, Target, percentile, spread
from benchmarks.workload import Workload

_LIMITS = {"sqlite": 20.0, "postgres": 25.0}
TARGETS = tuple(
    Target(f"message → session/prompt, idle, p50, {name}", limit, "ms")
    for name, limit in _LIMITS.items()
)


async def measure(workload: Workload) -> list[Row]:
    """One row a database."""
    rows = []
    for target, name in zip(TARGETS, _LIMITS, strict=True):
        if name in workload.databases:
            taken = await _idle(workload, name)
            rows.append(Row(target, percentile(taken, 50), spread(taken)))
    return rows


async def _idle(workload: Workload, database: str) -> list[float]:
    async with workload.stage(database) as stage:
        await stage.converse(workload.size(5, 1))
        taken: list[float] = []
        for n in range(workload.size(60, 2)):
            await stage.quiet()
            thread = stage.threads[n % len(stage.threads)]
            taken += (await stage.ask([thread])).values()
        return [1000 * seconds for seconds in taken]
