"""Plain `alembic` and every command of openab mean the same database."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from openab.config.load import check
from openab.storage.target import TargetUnclear, from_surroundings

_FILE = '[discord]\nbot_token = "t"\n'
_URL = '[database]\nurl = "sqlite:////file.db"\n'


@pytest.mark.parametrize(
    ("written", "environ", "shown"),
    [
        ("", {}, "sqlite:////home/me/.openab/openab.db"),
        ("", {"OPENAB_HOME": "/srv/openab"}, "sqlite:////srv/openab/openab.db"),
        ("", {"OPENAB_HOME": "~/bots/one"}, "sqlite:////home/me/bots/one/openab.db"),
        (_URL, {}, "sqlite:////file.db"),
        (_URL, {"OPENAB_HOME": "/srv/openab"}, "sqlite:////file.db"),
        (_URL, {"OPENAB_DATABASE_URL": "sqlite:////variable.db"}, "sqlite:////variable.db"),
        (_URL, {"OPENAB_DATABASE_URL": ""}, "sqlite:////file.db"),
        (
            _URL,
            {"OPENAB_DATABASE_URL": "postgres://me:hidden@h/d?sslmode=require"},
            "postgresql://me:***@h/d?ssl=require",
        ),
    ],
)
def test_it_is_the_one_that_openab_means(
    written: str, environ: Mapping[str, str], shown: str, tmp_path: Path
) -> None:
    complete = {"HOME": "/home/me", **environ}
    file = tmp_path / "config.toml"
    file.write_text(_FILE + written)

    found = from_surroundings({}, complete, file)

    assert found == check(_FILE + written, complete, "config.toml").database
    assert found.masked == shown


def test_x_url_beats_them_all(tmp_path: Path) -> None:
    environ = {"HOME": "/home/me", "OPENAB_DATABASE_URL": "sqlite:////variable.db"}

    found = from_surroundings({"url": "sqlite:///~/x.db"}, environ, tmp_path / "config.toml")

    assert found.masked == "sqlite:////home/me/x.db"


@pytest.mark.parametrize("url", ['"${WHERE}"', "5", "["])
def test_what_only_openab_can_read_is_not_guessed(url: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[database]\nurl = {url}\n")

    with pytest.raises(TargetUnclear, match="OPENAB_DATABASE_URL"):
        from_surroundings({}, {"HOME": "/home/me"}, file)
