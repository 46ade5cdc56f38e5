"""`openab config check`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from openab.cli.config import app


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENAB_DATABASE_URL", raising=False)
    monkeypatch.delenv("OPENAB_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config.toml"


def test_a_usable_file_exits_0_and_tells_its_cautions_and_its_database(file: Path) -> None:
    file.write_text(
        '[discord]\nbot_token = "t"\nallowed_users = []\n'
        '[database]\nurl = "postgresql://me:hidden@h/d"\n'
    )

    result = CliRunner().invoke(app, ["check"])

    assert result.exit_code == 0
    assert "config.toml:3: caution: discord.allowed_users: an empty list means everybody" in (
        result.stderr
    )
    assert result.stdout == (
        "config.toml can be used; database postgresql://me:***@h/d, 1 caution.\n"
    )


def test_every_mistake_is_told_and_it_exits_2(file: Path) -> None:
    file.write_text('[discord]\nbot_token = "t"\nallow_dms = true\n[pool]\nmax_sessions = 0\n')

    result = CliRunner().invoke(app, ["check", "-c", str(file)])

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{file}:3: mistake: discord.allow_dms: there is no such key (did you mean `allow_dm`?)",
        f"{file}:5: mistake: pool.max_sessions: 0 is not allowed here (write 1 or more)",
        f"{file} cannot be used: 2 mistakes.",
    ]


def test_a_missing_file_exits_2(file: Path) -> None:
    result = CliRunner().invoke(app, ["check", "-c", str(file)])

    assert result.exit_code == 2
    assert "openab setup" in result.stderr


def test_with_openab_it_judges_as_openab_would(file: Path) -> None:
    file.write_text('[discord]\nbot_token = "t"\noperators = ["1"]\n')

    result = CliRunner().invoke(app, ["check", "--openab"])

    assert result.exit_code == 0
    assert "config.toml:3: caution: discord.operators: OpenAB ignores this" in result.stderr
    assert result.stdout == "config.toml can be used by OpenAB, 1 caution.\n"
