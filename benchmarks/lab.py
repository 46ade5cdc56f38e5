"""The crash laboratory at length: strikes by chance beside talk in many conversations, then the judges.

`python -m benchmarks lab --kills 200 --seed 7 --database postgres --conversations 10`. A printed seed
does the same strikes again, as far as the machine's own timing allows. Exit code 1: an invariant is
broken. `--every-point` kills once at each point instead.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import spread
from benchmarks.workload import DATABASES, new_database
from tests.lab.invariants import INVARIANTS
from tests.lab.laboratory import Setting, open_laboratory, open_rooms
from tests.lab.runs import Report, by_chance, every_point


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="./dev bench lab", description=(__doc__ or "").split(":")[0]
    )
    parser.add_argument("--kills", type=int, default=200, help="how many strikes")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument(
        "--conversations", type=int, default=10, help="how many people talk at once"
    )
    parser.add_argument("--database", choices=DATABASES, help="only this one")
    parser.add_argument("--every-point", action="store_true", help="once at each point instead")
    told = parser.parse_args(arguments)
    databases = (told.database,) if told.database else DATABASES
    reports = [asyncio.run(_run(told, database)) for database in databases]
    return int(any(report.violations for report in reports))


async def _run(told: argparse.Namespace, database: str) -> Report:
    def watch(stroke: str) -> None:
        sys.stderr.write(f"{database} {stroke}\n")

    report = Report(seed=told.seed, watch=watch)
    print(f"{database}: seed {told.seed}")
    async with new_database(database) as address:
        if told.every_point:
            asked = await _at_every_point(Setting(address), report)
        else:
            async with open_laboratory(Setting(address)) as lab:
                await by_chance(lab, report, told.kills, told.conversations)
                asked = len(lab.said)
                if report.violations:
                    print(
                        f"logs and, on SQLite, the database are kept in {kept(lab.agent_log.parent)}"
                    )
    print(summary(report, asked))
    return report


def kept(folder: Path) -> Path:
    """A copy of a laboratory's files that outlives it; sockets are left out."""
    place = Path(tempfile.mkdtemp(prefix="openab-lab-kept-"))

    def sockets(where: str, names: list[str]) -> set[str]:
        return {name for name in names if (Path(where) / name).is_socket()}

    return Path(shutil.copytree(folder, place, ignore=sockets, dirs_exist_ok=True))


async def _at_every_point(setting: Setting, report: Report) -> int:
    with tempfile.TemporaryDirectory() as claims:
        async with open_rooms(setting, Path(claims)) as rooms:
            await every_point(rooms, report)
            return sum(len(lab.said) for lab in rooms)


def summary(report: Report, asked: int) -> str:
    """What the run came to, for people."""
    kinds = sorted({stroke.kind for stroke in report.strokes})
    done = {kind: sum(stroke.kind == kind for stroke in report.strokes) for kind in kinds}
    lines = [
        f"{len(report.strokes)} strikes ({', '.join(f'{n} {kind}' for kind, n in done.items())})"
        f" in {report.seconds:.0f} s, {asked} messages",
        f"time from a start until no turn is left to the dead: s, {spread(report.recoveries)}",
        f"{len(report.hits)} points struck of {len(report.passed)} passed:",
        *(f"  {count:4} {point}" for point, count in sorted(report.hits.items())),
        "violations:",
        *(f"  {_count(report, law.__name__):4} {_sentence(law)}" for law in INVARIANTS),
    ]
    return "\n".join([*lines, *([report.told()] if report.violations else [])])


def _count(report: Report, law: str) -> int:
    return sum(violation.startswith(f"{law}:") for violation in report.violations)


def _sentence(law: object) -> str:
    return (law.__doc__ or "").splitlines()[0]
