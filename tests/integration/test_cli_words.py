"""The `openab` command itself: its words, and how little is imported to say the version."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from openab.cli.lazy import LazyGroup
from openab.cli.main import _Words, app

_HEAVY = ("sqlalchemy", "discord", "aiohttp", "pydantic", "alembic", "acp", "structlog", "rich")


def test_the_version_is_told_without_importing_what_runs_a_broker() -> None:
    program = (
        "import sys\n"
        "from openab.cli.main import app\n"
        "app(['--version'], standalone_mode=False)\n"
        f"print([name for name in {_HEAVY!r} if name in sys.modules])\n"
    )

    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert said[0].startswith("openab ")
    assert said[1] == "[]"


@pytest.mark.parametrize("word", ["turns", "why", "setup", "doctor", "db", "config", "conformance"])
def test_each_word_can_be_asked_for_help_without_importing_what_it_needs_to_work(
    word: str,
) -> None:
    program = (
        "import sys\n"
        "from openab.cli.main import app\n"
        f"app([{word!r}, '--help'], standalone_mode=False)\n"
        "print([name for name in ('sqlalchemy', 'discord', 'aiohttp') if name in sys.modules])\n"
    )

    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    assert "Usage:" in said
    assert said.splitlines()[-1] == "[]"


@pytest.mark.parametrize("word", sorted(_Words.modules))
def test_the_help_of_a_word_holds_nothing_about_completion(word: str) -> None:
    said = CliRunner().invoke(app, [word, "--help"]).stdout

    assert "Usage:" in said
    assert "completion" not in said


def test_help_names_every_word() -> None:
    said = CliRunner().invoke(app, ["--help"]).stdout

    for word in (
        "run",
        "setup",
        "doctor",
        "config",
        "db",
        "turns",
        "sessions",
        "deliveries",
        "why",
        "conformance",
    ):
        assert f" {word} " in said


def test_an_unknown_word_is_bad_usage() -> None:
    result = CliRunner().invoke(app, ["turnz"])

    assert result.exit_code == 2
    assert "No such command" in result.stderr


def test_a_configuration_before_the_word_is_refused_not_overlooked() -> None:
    result = CliRunner().invoke(app, ["-c", "other.toml", "turns"])

    assert result.exit_code == 2
    assert "openab turns -c other.toml" in " ".join(result.stderr.split())


@pytest.mark.parametrize("words", [[], ["run"]])
def test_a_start_without_a_file_says_how_to_make_one(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(app, words)

    assert result.exit_code == 2
    assert "openab setup" in result.stderr


def test_a_lazy_word_is_imported_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_word.py").write_text(
        "import typer\napp = typer.Typer()\n@app.command()\ndef late() -> None:\n    print('here')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    class Words(LazyGroup):
        modules = {"late": "late_word"}  # noqa: RUF012 - a test's own table

    lazy = typer.Typer(cls=Words)
    lazy.callback()(lambda: None)

    @lazy.command()
    def early() -> None:
        typer.echo("early")

    assert "here" in CliRunner().invoke(lazy, ["late"]).stdout
    assert "early" in CliRunner().invoke(lazy, ["early"]).stdout
    assert import_module("late_word").app is not None
