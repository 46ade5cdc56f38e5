"""Which database plain alembic takes: the same rule as in every command."""

from pathlib import Path

import pytest

from openab.storage.target import TargetUnclear, from_surroundings

_HOME = {"HOME": "/home/me"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text('[database]\nurl = "postgres://me:secret@db/openab"\n')
    return file


def test_without_anything_it_is_the_default(tmp_path: Path) -> None:
    found = from_surroundings({}, _HOME, tmp_path / "none.toml")
    assert found.file == "/home/me/.openab/openab.db"


def test_our_folder_can_be_elsewhere(tmp_path: Path) -> None:
    found = from_surroundings({}, {**_HOME, "OPENAB_HOME": "/srv/oab"}, tmp_path / "none.toml")
    assert found.file == "/srv/oab/openab.db"


def test_the_file_beats_the_default(config: Path) -> None:
    assert from_surroundings({}, _HOME, config).url == "postgresql+asyncpg://me:secret@db/openab"


def test_the_variable_beats_the_file_which_need_not_be_readable(tmp_path: Path) -> None:
    broken = tmp_path / "config.toml"
    broken.write_text("max_sessions = ${N}")
    environ = {**_HOME, "OPENAB_DATABASE_URL": "sqlite:///~/x.db"}
    assert from_surroundings({}, environ, broken).file == "/home/me/x.db"


def test_what_is_typed_beats_all(config: Path) -> None:
    environ = {**_HOME, "OPENAB_DATABASE_URL": "sqlite:////a.db"}
    assert from_surroundings({"url": "sqlite:////b.db"}, environ, config).file == "/b.db"


@pytest.mark.parametrize(
    "text",
    ['[database]\nurl = "postgres://${USER}@db/x"\n', "x = ${N}\n", "[database]\nurl = 5\n"],
)
def test_a_file_that_only_openab_can_read_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(TargetUnclear, match="OPENAB_DATABASE_URL"):
        from_surroundings({}, _HOME, file)


@pytest.mark.parametrize("text", ["", "[database]\n", "database = 3\n"])
def test_a_file_without_an_address_means_the_default(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    assert from_surroundings({}, _HOME, file).file == "/home/me/.openab/openab.db"
