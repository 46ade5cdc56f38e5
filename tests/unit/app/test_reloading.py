"""A changed file while openab runs: whom the bot trusts changes at once, and is told."""

from pathlib import Path

from structlog.testing import capture_logs

from openab.app.reloading import Reloading
from openab.app.values import Live
from openab.config.load import check
from openab.domain.ids import AccountId

ENVIRON = {"HOME": "/home/me"}


def _text(*trusted: str) -> str:
    ids = ", ".join(f'"{one}"' for one in trusted)
    return f'[discord]\nbot_token = "t"\ntrusted_bot_ids = [{ids}]\n'


async def test_trust_is_gained_and_lost_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(_text("1", "2"))
    live = Live(check(path.read_text(), ENVIRON, str(path)).config, AccountId("900"), ENVIRON)
    applied: list[frozenset[str]] = []
    reloading = Reloading(
        str(path), live, ENVIRON, lambda: applied.append(live.policy().trusted_bots)
    )
    path.write_text(_text("2", "3"))

    with capture_logs() as logs:
        await reloading.reload()
        await reloading.reload()

    assert applied == [frozenset({"2", "3"})]
    told = [line for line in logs if line["event"] == "trusted_bots_changed"]
    assert [(line["added"], line["removed"]) for line in told] == [(["3"], ["1"])]


async def test_a_broken_file_changes_nobodys_trust(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(_text("1"))
    live = Live(check(path.read_text(), ENVIRON, str(path)).config, AccountId("900"), ENVIRON)
    reloading = Reloading(str(path), live, ENVIRON, lambda: None)
    path.write_text(_text("2") + "no = TOML =")

    with capture_logs() as logs:
        await reloading.reload()

    assert live.policy().trusted_bots == {"1"}
    assert [line["event"] for line in logs] == ["config_mistake", "config_kept"]
    assert not any("exc_info" in line for line in logs), "a traceback tells the author nothing"


async def test_a_file_without_a_change_is_told_to_have_been_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(_text("1"))
    live = Live(check(path.read_text(), ENVIRON, str(path)).config, AccountId("900"), ENVIRON)
    applied: list[bool] = []

    with capture_logs() as logs:
        await Reloading(str(path), live, ENVIRON, lambda: applied.append(True)).reload()

    assert [line["event"] for line in logs] == ["config_unchanged"]
    assert not applied
