"""A file as OpenAB would read it."""

from pathlib import Path

import pytest

from openab.config.as_openab import judge_as_openab
from openab.config.findings import ConfigInvalid

SHAPES = Path(__file__).parent / "shapes"
TOKEN = '[discord]\nbot_token = "t"\n'


def said(text: str) -> list[str]:
    return [f"{each.path}:{each.line}" for each in judge_as_openab(text, {})]


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigInvalid) as raised:
        judge_as_openab(text, {})
    return [each.message for each in raised.value.mistakes]


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.toml")), ids=lambda path: path.stem)
def test_openabs_own_files_are_as_it_wants_them(path: Path) -> None:
    environ = {f"CHANNEL_{name}": "1" for name in ("ONE", "TWO", "THREE", "FOUR", "GENERAL")}

    cautions = judge_as_openab(
        path.read_text(encoding="utf-8"), {**environ, "DISCORD_BOT_TOKEN": "t", "KIRO_API_KEY": "k"}
    )

    assert cautions == ()


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('operators = ["1"]', ["discord.operators:3"]),
        ('allowed_user = ["1"]', ["discord.allowed_user:3"]),
        ("[presentation]\nmode = 'final'", ["presentation:3"]),
        ("[pool]\non_busy = 'queue'", ["pool.on_busy:4"]),
        ("[[cronjobs]]\na = 1", ["cronjobs:3"]),
        ("[telegram]\nanything = 1", []),
        ("[[cron.jobs]]\nschedule='x'\nchannel='C1'\nmessage='m'\nid='i'", ["cron.jobs[0].id:7"]),
        ('[agent]\nworking_dir = "${A:-b}"', [":4"]),
        ('[agent]\nworking_dir = "${A}"', [":4"]),
    ],
)
def test_what_openab_ignores_is_told(text: str, places: list[str]) -> None:
    assert said(TOKEN + text) == places


def test_another_chat_network_is_enough_for_openab() -> None:
    assert said('[slack]\nbot_token = "b"\napp_token = "a"') == []
    assert refused("[pool]") == ["no chat network is configured"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trusted_bot_ids = [5]", "OpenAB takes ids as strings only, not as a whole number"),
        ("max_buffered_messages = 0", "0 is not allowed here"),
        ('[agent]\nargs = "x"', "an array is expected, not a string"),
    ],
)
def test_what_openab_refuses_is_a_mistake(text: str, message: str) -> None:
    assert refused(TOKEN + text) == [message]


def test_a_value_that_breaks_the_text_for_openab_is_a_mistake() -> None:
    with pytest.raises(ConfigInvalid, match="no TOML once values are put in"):
        judge_as_openab('[discord]\nbot_token = "${T}"', {"T": 'a"b'})
