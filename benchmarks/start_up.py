"""How long `openab --version` takes, and `openab run` until its IDENTIFY has reached Discord."""

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.report import Row, Target, percentile, spread
from benchmarks.stage import Stage, open_stage
from benchmarks.workload import Workload

_VERSION = Target("openab --version, p50", 0.4, "s")
_FIRST = Target("openab run → IDENTIFY, new database, p50", 3.0, "s")
_AGAIN = Target("openab run → IDENTIFY, p50", 3.0, "s")
TARGETS = (_VERSION, _FIRST, _AGAIN)
_LINES = 60


async def measure(workload: Workload) -> list[Row]:
    """Three rows; a profile of these is what each import costs."""
    if workload.profile:
        await asyncio.to_thread(_imports, workload.profile)
    versions = [await _version() for _ in range(workload.size(10, 1))]
    first, again = [], []
    for _ in range(workload.size(5, 1)):
        async with open_stage() as stage:
            first.append(await stage.start())
            again.append(await _restart(stage))
    return [
        Row(_VERSION, percentile(versions, 50), spread(versions)),
        Row(_FIRST, percentile(first, 50), spread(first)),
        Row(_AGAIN, percentile(again, 50), spread(again)),
    ]


async def _restart(stage: Stage) -> float:
    await stage.kill()
    gone = lambda: not stage.discord.gateway.of_bot(stage.bot.id)  # noqa: E731 - a predicate
    await stage.discord.wait_until(gone, 10)
    return await stage.start()


async def _version() -> float:
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "openab", "--version", stdout=asyncio.subprocess.DEVNULL
    )
    code = await process.wait()
    if code:
        raise RuntimeError(f"openab --version ended with {code}")
    return time.monotonic() - began


def _imports(report: Path) -> None:
    imports = [sys.executable, "-X", "importtime", "-c", "import openab.cli.run, acp.connection"]
    told = subprocess.run(imports, stderr=subprocess.PIPE, text=True, check=True).stderr
    lines = re.findall(r"^import time: +\d+ \| +\d+ \| .*$", told, re.MULTILINE)
    lines.sort(key=lambda line: int(line.split("|")[1]), reverse=True)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("\n".join(lines[:_LINES]) + "\n")
