"""The import contracts hold, and breaking one is noticed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT, copy_package

FORBIDDEN = {
    "control/crosses_planes.py": "import openab.presentation",
    "storage/looks_up.py": "import openab.control",
    "domain/waits.py": "import asyncio",
    "text/talks.py": "import aiohttp",
    "channels/discord/writes.py": "import sqlalchemy",
    "control/knows_discord.py": "import discord",
    "control/knows_acp.py": "import acp",
    "presentation/reads_config.py": "import openab.config",
    "app/plays.py": "import openab.simulator",
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_import_contract_is_kept() -> None:
    linted = lint_imports(ROOT)

    assert linted.returncode == 0, linted.stdout
    assert " 0 broken" in linted.stdout


def test_each_forbidden_import_is_noticed(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    for name, line in FORBIDDEN.items():
        (package / name).write_text(f'"""Breaks a contract."""\n{line}\n')

    linted = lint_imports(tmp_path)

    assert linted.returncode != 0
    unnoticed = [
        n for n in FORBIDDEN if n.removesuffix(".py").replace("/", ".") not in linted.stdout
    ]
    assert not unnoticed, linted.stdout


@pytest.mark.parametrize("name", ["helpers", "misc"])
def test_a_folder_without_a_place_in_the_layers_is_noticed(tmp_path: Path, name: str) -> None:
    folder = copy_package(tmp_path) / name
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Has no place."""\n')

    linted = lint_imports(tmp_path)

    assert linted.returncode != 0
    assert name in linted.stdout


def test_two_packages_that_import_each_other_are_noticed(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (package / "control" / "here.py").write_text("import openab.control.there\n")
    (package / "control" / "there.py").write_text("import openab.control.here\n")

    linted = lint_imports(tmp_path)

    assert linted.returncode != 0
    assert "No import cycles BROKEN" in linted.stdout
