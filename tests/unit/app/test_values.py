"""From the configuration to what the control plane is told of bindings and named agents."""

from datetime import timedelta

import pytest

from openab.app.values import Live, binding_settings, settings
from openab.cli.run import redactor_for
from openab.config.load import Loaded, check
from openab.config.reload import with_live_keys
from openab.control.settings import BindingSettings, Settings
from openab.domain.binding import Limits
from openab.domain.ids import AccountId, SessionKey, WorkerId
from openab.domain.spawn import SpawnLimits

ENVIRON = {"HOME": "/home/me", "PATH": "/bin", "KEPT": "kept"}
LUNA = (
    '[agents.luna]\ncommand = "bin/other-agent"\nargs = ["acp"]\nworking_dir = "~/luna"\n'
    'env = { KEY = "the-secret-of-luna" }\ninherit_env = ["KEPT"]\n'
    "[pool]\nprompt_hard_timeout_secs = 60\n"
    '[permissions]\nmode = "ask"\n'
)


def loaded(text: str = "") -> Loaded:
    return check(f'[discord]\nbot_token = "the-token-of-the-bot"\n{text}', ENVIRON, "config.toml")


def told(text: str = "") -> Settings:
    live = Live(loaded(text).config, AccountId("900"), ENVIRON)
    return settings(live, AccountId("900"), WorkerId("w"), "proof")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", BindingSettings(True, Limits(idle=timedelta(hours=24)))),
        (
            "idle_hours = 0\nmax_age_hours = 1.5",
            BindingSettings(True, Limits(max_age=timedelta(minutes=90))),
        ),
        (
            "spawn_subagent_sessions = true\nmax_subagents = 2\nmax_subagent_depth = 3",
            BindingSettings(
                True,
                Limits(idle=timedelta(hours=24)),
                SpawnLimits(is_on=True, depth=3, at_once=2),
            ),
        ),
        (
            "enabled = false\nspawn_subagent_sessions = true",
            BindingSettings(False, Limits(idle=timedelta(hours=24))),
        ),
    ],
)
def test_bindings_are_as_they_are_written(written: str, expected: BindingSettings) -> None:
    config = loaded(f"[discord.thread_bindings]\n{written}").config

    assert binding_settings(config) == expected
    assert told(f"[discord.thread_bindings]\n{written}").binding == expected


def test_a_named_agent_goes_by_its_name_and_shares_what_is_everybodys() -> None:
    made = told(LUNA)
    (name, luna) = next(iter(made.named_agents().items()))

    assert (name, luna.name, luna.command) == ("luna", "luna", "bin/other-agent")
    assert (luna.args, luna.working_dir) == (("acp",), "/home/me/luna")
    assert luna.env["KEY"] == "the-secret-of-luna"
    assert luna.env["KEPT"] == "kept"
    assert luna.hard_timeout_seconds == 60
    assert luna.permission_mode == "ask"
    assert made.agent().command == "openab-agent"


def test_a_session_is_started_with_the_agent_that_its_key_names() -> None:
    made = told(LUNA)

    assert made.spec_of(SessionKey("discord:900:1:luna")) == made.named_agents()["luna"]
    assert made.spec_of(SessionKey("discord:900:1")) == made.agent()
    assert made.spec_of(SessionKey("discord:900:1:gone")) is None


def test_a_changed_agent_waits_for_a_restart() -> None:
    live = Live(loaded(LUNA).config, AccountId("900"), ENVIRON)
    live.config = with_live_keys(live.config, loaded().config)

    assert set(live.named_agents()) == {"luna"}


def test_the_secrets_of_every_agent_are_taken_out() -> None:
    redactor = redactor_for(loaded(LUNA + '[agent]\nenv = { K = "the-secret-of-all" }'))
    shown = redactor.text("the-token-of-the-bot the-secret-of-luna the-secret-of-all")

    assert "secret-of" not in shown
    assert "token-of" not in shown
