"""What a changed file changes while openab runs."""

import pytest

from openab.config.load import check
from openab.config.models import Config
from openab.config.reload import check_reload, with_live_keys
from openab.config.words import PresentationMode


def config(text: str = "") -> Config:
    return check(f'[discord]\nbot_token = "t"\n{text}', {"HOME": "/home/me"}, "c").config


@pytest.mark.parametrize(
    ("text", "now", "restart"),
    [
        ("", [], []),
        ("# only a comment", [], []),
        ('trusted_bot_ids = ["1"]', ["discord.trusted_bot_ids"], []),
        ("[presentation]\nedit_interval_ms = 900", ["presentation.edit_interval_ms"], []),
        (
            '[presentation.conversations.5]\nmode = "final"',
            ["presentation.conversations"],
            [],
        ),
        ('allowed_users = ["1"]', [], ["discord.allowed_users"]),
        ('[agent]\nenv = { A = "1" }', [], ["agent.env"]),
        ('[agents.sol]\ncommand = "x"', [], ["agents.sol"]),
        ("[discord.thread_bindings]\nidle_hours = 1", [], ["discord.thread_bindings.idle_hours"]),
        ('[database]\nurl = "sqlite:////x"', [], ["database.url"]),
        ('[slack]\nbot_token = "b"\napp_token = "a"', [], ["slack"]),
    ],
)
def test_each_change_takes_effect_now_or_needs_a_restart(
    text: str, now: list[str], restart: list[str]
) -> None:
    reload = check_reload(config(), config(text))

    assert list(reload.now) == now
    assert list(reload.restart) == restart


def test_only_the_live_keys_are_taken_over() -> None:
    changed = config(
        'trusted_bot_ids = ["1"]\n[presentation]\nmode = "final"\n[pool]\nmax_sessions = 3'
    )

    merged = with_live_keys(config(), changed)

    assert merged.discord.trusted_bot_ids == changed.discord.trusted_bot_ids
    assert merged.presentation.mode is PresentationMode.FINAL
    assert merged.pool.max_sessions == 10
    assert check_reload(merged, changed).restart == ("pool.max_sessions",)
