"""The folder of our own, and what is made in it."""

import os
from pathlib import Path

import pytest

from openab.config.paths import expand_home, openab_home, private_file, private_folder


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/me"}, "/home/me/.openab"),
        ({"HOME": "/home/me", "OPENAB_HOME": ""}, "/home/me/.openab"),
        ({"HOME": "/home/me", "OPENAB_HOME": "~/oab"}, "/home/me/oab"),
        ({"HOME": "/home/me", "OPENAB_HOME": "/var/oab"}, "/var/oab"),
    ],
)
def test_where_it_is(environ: dict[str, str], folder: str) -> None:
    assert openab_home(environ) == Path(folder)


def test_only_the_own_home_is_expanded() -> None:
    home = Path("/home/me")

    assert expand_home("~", home) == home
    assert expand_home("~/a", home) == home / "a"
    assert expand_home("~other/a", home) == Path("~other/a")


def test_folders_and_files_are_for_their_owner_only(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        folder = private_folder(tmp_path / "a" / "b")
        file = private_file(folder / "f")
    finally:
        os.umask(previous)

    assert folder.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_was_open_is_closed_and_its_content_kept(tmp_path: Path) -> None:
    folder = tmp_path / "loose"
    folder.mkdir(mode=0o755)
    file = folder / "f"
    file.write_text("kept")
    file.chmod(0o644)

    assert private_folder(folder).stat().st_mode & 0o777 == 0o700
    assert private_file(file).stat().st_mode & 0o777 == 0o600
    assert file.read_text() == "kept"


def test_a_folder_that_everybody_shares_stays_open(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)

    assert private_folder(folder).stat().st_mode & 0o777 == 0o777
