"""`openab db`: what it prints, and its three exit codes."""

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from openab.cli.db import app
from openab.storage.schema import SCHEMA_REVISION


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration around, and a home of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENAB_HOME", raising=False)
    monkeypatch.delenv("OPENAB_DATABASE_URL", raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_the_life_of_a_database(tmp_path: Path) -> None:
    refused = run("check")
    assert (refused.exit_code, "type: openab db upgrade" in refused.stderr) == (1, True)
    assert run("current").stdout == "no tables\n"
    assert not (tmp_path / ".openab").exists()

    made = run("upgrade")
    assert (made.exit_code, made.stdout) == (0, f"schema none -> {SCHEMA_REVISION}\n")
    assert made.stderr == f"database: sqlite:///{tmp_path}/.openab/openab.db\n"
    assert stat.S_IMODE((tmp_path / ".openab").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / ".openab/openab.db").stat().st_mode) == 0o600

    assert run("upgrade").stdout == f"schema {SCHEMA_REVISION}, nothing to do\n"
    assert run("check").exit_code == 0
    assert run("current").stdout == f"{SCHEMA_REVISION}\n"
    assert run("vacuum").exit_code == 0


def test_no_vacuum_makes_a_database(tmp_path: Path) -> None:
    assert run("vacuum").exit_code == 1
    assert not (tmp_path / ".openab").exists()


def test_a_server_that_is_not_there_fails_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAB_DATABASE_URL", "postgres://me:hunter2@127.0.0.1:1/x")
    result = run("check")
    assert result.exit_code == 1
    assert "postgresql://me:***@127.0.0.1:1/x" in result.stderr
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    ("variable", "arguments"),
    [
        ("mysql://me:hunter2@db/x", ["check"]),
        ("", ["check", "-c", "nowhere.toml"]),
        ("", ["frobnicate"]),
    ],
)
def test_bad_usage_exits_with_two(
    monkeypatch: pytest.MonkeyPatch, variable: str, arguments: list[str]
) -> None:
    monkeypatch.setenv("OPENAB_DATABASE_URL", variable)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "hunter2" not in result.output


def test_the_rest_of_the_configuration_need_not_be_sound(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[discord]\nbot_token = "${NO_SUCH_TOKEN}"\n'
        f'[database]\nurl = "sqlite:///{tmp_path}/x.db"\n'
    )
    assert run("upgrade").exit_code == 0
    assert (tmp_path / "x.db").exists()


def test_the_variable_is_enough_where_the_configured_address_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text('[database]\nurl = "postgres://me:${PASSWORD}@db/x"\n')
    assert run("upgrade").exit_code == 2
    monkeypatch.setenv("OPENAB_DATABASE_URL", f"sqlite:///{tmp_path}/x.db")
    assert run("upgrade").exit_code == 0


def test_the_configurations_database_is_taken(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(
        '[discord]\nbot_token = "token"\n[agent]\ncommand = "true"\n'
        f'[database]\nurl = "sqlite:///{tmp_path}/other.db"\n'
    )
    result = run("upgrade", "-c", "other.toml")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "other.db").exists()
