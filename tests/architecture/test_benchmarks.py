"""Every benchmark tells what it measures and against which target, and runs."""

import importlib
import math
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES
from benchmarks.commits import counting
from benchmarks.lab import kept, summary
from benchmarks.report import Row, Target, percentile, table
from benchmarks.workload import Workload
from openab.domain.ids import AccountId, ChannelName
from openab.storage import accounts
from openab.storage.engine import Database
from openab.storage.upgrade import upgrade
from tests.lab.runs import Report

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def test_every_module_that_measures_is_on_the_list() -> None:
    found = {path.stem for path in _FOLDER.glob("*.py") if "async def measure(" in path.read_text()}
    assert found == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
async def test_a_benchmark_has_a_sentence_and_measures_each_target(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    rows = await module.measure(Workload(is_smoke=True, databases=("sqlite",)))
    targets = [target for target in module.TARGETS if not target.what.endswith("postgres")]
    assert (module.__doc__ or "").splitlines()[0].endswith(".")
    assert [row.target for row in rows] == targets
    assert all(math.isfinite(row.measured) and row.measured >= 0 for row in rows)
    assert all(row.target.limit >= 0 and row.target.unit for row in rows)


def test_what_a_laboratory_leaves_is_kept_without_its_sockets() -> None:
    # A socket's path may have a hundred characters only.
    folder = Path(tempfile.mkdtemp(prefix="openab-"))
    (folder / "home").mkdir()
    (folder / "home" / "openab.db").write_text("rows")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "lab"))
        copied = kept(folder)
    try:
        assert [path.name for path in copied.rglob("*")] == ["home", "openab.db"]
    finally:
        shutil.rmtree(copied)
        shutil.rmtree(folder)


def test_the_table_shows_a_miss_beside_its_target() -> None:
    target = Target("something", 20, "ms")
    told = table([Row(target, 10, "n 3"), Row(target, 30), Row(target, math.nan)]).splitlines()
    assert " ".join(told[1].split()) == "something 10 ms ≤ 20 ms 50 % met n 3"
    assert [line.split()[-1] for line in told[2:]] == ["MISSED", "MISSED"]


def test_of_a_target_of_nothing_nothing_is_used() -> None:
    told = table([Row(Target("lost", 0, "turns"), 0), Row(Target("lost", 0, "turns"), 1)])
    assert [line.split()[-1] for line in told.splitlines()[1:]] == ["met", "MISSED"]


def test_the_laboratory_tells_what_it_struck_and_what_it_found() -> None:
    report = Report(seed=7, violations=["no_overlap: two at once"], recoveries=[1.5])
    report.note("agent:prompt:agent_run:after", "kill")
    told = summary(report, 12)
    assert "1 strikes (1 kill)" in told
    assert "1 agent:prompt:agent_run:after" in told
    assert "1 No session works on two prompts at once." in told
    assert "seed 7" in told
    assert "round 1: kill at agent:prompt:agent_run:after" in told


def test_percentiles_are_measured_values() -> None:
    assert [percentile([3, 1, 2, 4], percent) for percent in (1, 50, 75, 99)] == [1, 2, 3, 4]


async def test_commits_are_counted_one_by_one_and_reads_are_not(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'counted.db'}"
    await upgrade(url)
    database = await Database.open(url)
    try:
        with counting(tmp_path / "counted.db") as commits:
            for n in range(3):
                await _write(database, f"account-{n}")
                async with database.read() as tx:
                    await tx.now()
            assert commits.so_far == 3
    finally:
        await database.close()


async def _write(database: Database, account: str) -> None:
    async with database.transaction() as tx:
        await accounts.ensure(tx, ChannelName("discord"), AccountId(account), "sol")
