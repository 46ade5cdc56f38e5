"""`python -m benchmarks [NAME…]`: runs the benchmarks and prints one table, targets beside.

The exit code is 0 also when a target is missed: 1 means that something could not be measured. A missed
target is measured once more under a profiler, and the profile is named below the table.

`python -m benchmarks lab` is the crash laboratory at length, with options of its own: see `benchmarks.lab`.
"""

import argparse
import asyncio
import importlib
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import lab
from benchmarks.report import Row, table
from benchmarks.workload import DATABASES, Workload

NAMES = (
    "start_up",
    "prompt_latency",
    "fifty_conversations",
    "hundred_streams",
    "three_hundred_turns",
    "hundred_recoveries",
    "handoff_decisions",
    "memory",
)
_PROFILES = Path(__file__).with_name("profiles")


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for."""
    # As on SIGINT: brokers and agents must not outlive a run that is told to stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    if arguments[:1] == ["lab"]:
        return lab.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="./dev bench", description=_sentences())
    parser.epilog = "lab: " + (lab.__doc__ or "").splitlines()[0] + " (`lab --help`)"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("name", nargs="*", help="which ones; without, all")
    parser.add_argument(
        "--smoke", action="store_true", help="the least work; its numbers mean nothing"
    )
    parser.add_argument("--database", choices=("sqlite", "postgres"), help="only this one")
    parser.add_argument("--profiles", type=Path, default=_PROFILES, metavar="FOLDER")
    told = parser.parse_args(arguments)
    if unknown := set(told.name) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    databases = (told.database,) if told.database else DATABASES
    workload = Workload(is_smoke=told.smoke, databases=databases)
    return asyncio.run(_run(told.name or NAMES, workload, told.profiles))


async def _run(names: Sequence[str], workload: Workload, profiles: Path) -> int:
    rows: list[Row] = []
    remarks: list[str] = []
    for name in names:
        sys.stderr.write(f"{name} …\n")
        measured = await _measured(name, workload)
        if measured is None:
            remarks.append(f"{name}: could not be measured; the reason stands above")
            continue
        rows += measured
        if not workload.is_smoke and not all(row.is_met for row in measured):
            report = profiles / f"{name}.txt"
            await _measured(name, replace(workload, profile=report))
            remarks.append(f"{name} missed a target; where its time goes: {report}")
    print(table(rows))
    print(*remarks, sep="\n")
    return int(any("could not" in remark for remark in remarks))


async def _measured(name: str, workload: Workload) -> list[Row] | None:
    measure: Callable[[Workload], Awaitable[list[Row]]]
    measure = importlib.import_module(f"benchmarks.{name}").measure
    try:
        return await measure(workload)
    except Exception:  # noqa: BLE001 - one that fails must not hide what the others found
        traceback.print_exc()
        return None


def _sentences() -> str:
    modules = [(name, importlib.import_module(f"benchmarks.{name}")) for name in NAMES]
    return "\n".join(f"{name}: {(one.__doc__ or '').splitlines()[0]}" for name, one in modules)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
