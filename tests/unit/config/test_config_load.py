"""What a usable configuration comes to."""

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.config.load import Loaded, check, load
from openab.config.words import (
    BotMode,
    DispatchMode,
    HostMode,
    PresentationMode,
    ToolDisplay,
    UserMode,
)
from openab.domain.ids import PlatformId
from openab.domain.listen import Listen

SHAPES = Path(__file__).parent / "shapes"
ENVIRON = {
    "HOME": "/home/me",
    "DISCORD_BOT_TOKEN": "the-token",
    "KIRO_API_KEY": "key",
    "CHANNEL_ONE": "11",
    "CHANNEL_TWO": "12",
    "CHANNEL_THREE": "13",
    "CHANNEL_FOUR": "14",
    "CHANNEL_GENERAL": "21",
}


def ids(*written: str) -> frozenset[PlatformId]:
    return frozenset(map(PlatformId, written))


def checked(text: str, **environ: str) -> Loaded:
    return check(text, {**ENVIRON, **environ}, "config.toml")


def with_token(more: str = "", **environ: str) -> Loaded:
    return checked(f'[discord]\nbot_token = "t"\n{more}', **environ)


def shape(name: str) -> Loaded:
    return load(str(SHAPES / f"{name}.toml"), ENVIRON)


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_real_openab_file_loads(path: Path) -> None:
    config = load(str(path), ENVIRON).config

    assert config.discord.bot_token.reveal() == "the-token"
    assert config.agent.command in path.read_text(encoding="utf-8")


def test_the_facts_of_the_team_bot() -> None:
    config = shape("team_bot").config

    assert config.discord.channels == ids("11", "12", "13", "14")
    assert config.discord.users is None
    assert config.discord.allow_bot_messages is BotMode.MENTIONS
    assert config.discord.allow_user_messages is UserMode.MENTIONS
    assert len(config.discord.allowed_role_ids) == 3
    assert config.agent.args == ("acp", "--trust-all-tools")
    assert config.agent.env["KIRO_API_KEY"].reveal() == "key"
    assert "DISCORD_BOT_TOKEN" in config.agent.inherit_env
    assert config.pool.session_ttl == timedelta(hours=24)
    assert config.reactions.emojis.coding == "⭐"
    assert config.cron.usercron_path == "cronjob.toml"


def test_the_facts_of_the_others() -> None:
    assert shape("sibling_bot").config.reactions.emojis.coding == "🐿️"
    assert shape("persona_bot").config.discord.channels == ids("21")
    reviewer = shape("reviewer_bot").config
    assert reviewer.discord.users is None
    assert reviewer.discord.trusted_bot_ids == {"400000000000000001", "400000000000000002"}
    assert reviewer.agent.args == ("-c", "shell_environment_policy.inherit=all")
    assert reviewer.reactions.tool_display is ToolDisplay.COMPACT
    fetched = shape("fetched_bot").config
    assert fetched.discord.channels is None
    assert fetched.discord.max_bot_turns == 1000
    assert fetched.discord.message_processing_mode is DispatchMode.PER_THREAD


def test_the_defaults() -> None:
    loaded = with_token()
    config = loaded.config

    assert loaded.cautions == ()
    assert config.agent.command == "openab-agent"
    assert config.agent.working_dir == "/home/me"
    assert config.discord.allow_user_messages is UserMode.MULTIBOT_MENTIONS
    assert config.discord.thread_bindings.idle == timedelta(hours=24)
    assert config.discord.thread_bindings.max_age is None
    assert config.discord.thread_bindings.max_subagents == 5
    assert config.discord.thread_bindings.max_subagent_depth == 1
    assert config.presentation.mode is PresentationMode.STREAM
    assert config.presentation.multibot_mode is None
    assert config.presentation.edit_interval == timedelta(milliseconds=1500)
    assert config.pool.prompt_hard_timeout == timedelta(hours=2)
    assert config.agent_host.mode is HostMode.DAEMON
    assert config.http.listen == Listen("127.0.0.1", 8787)
    assert not config.http.is_configured
    assert config.database.auto_upgrade is None
    assert loaded.database.masked == "sqlite:////home/me/.openab/openab.db"


@pytest.mark.parametrize(
    ("section", "variable", "words"),
    [
        ("", "opencode acp --x", ["opencode", "acp", "--x"]),
        ("", "", ["openab-agent"]),
        ('[agent]\ncommand = "mine"', "opencode acp", ["mine"]),
        ('[agent]\nargs = ["more"]', "opencode acp", ["opencode", "more"]),
        ('[agent]\ncommand = "mine"\nargs = ["a"]', "opencode acp", ["mine", "a"]),
    ],
)
def test_the_agent_comes_from_the_file_else_from_the_variable(
    section: str, variable: str, words: list[str]
) -> None:
    agent = with_token(section, OPENAB_AGENT_COMMAND=variable).config.agent

    assert [agent.command, *agent.args] == words


def test_further_agents_have_the_same_keys() -> None:
    config = with_token('[agents.sol]\ncommand = "codex-acp"\nworking_dir = "~/sol"').config

    assert config.agents["sol"].command == "codex-acp"
    assert config.agents["sol"].working_dir == "/home/me/sol"


def test_further_agents_do_not_come_from_the_variable() -> None:
    section = '[agents.Sol_2-x]\ncommand = "mine"\n[agents.luna]\ncommand = "hers"\nargs = ["a"]'
    agents = with_token(section, OPENAB_AGENT_COMMAND="opencode acp --x").config.agents

    assert (agents["Sol_2-x"].command, agents["Sol_2-x"].args) == ("mine", ())
    assert agents["Sol_2-x"].working_dir == "/home/me"
    assert (agents["luna"].command, agents["luna"].args) == ("hers", ("a",))


@given(st.integers(min_value=2**53, max_value=2**64 - 1), st.sampled_from(["{}", '"{}"']))
def test_the_greatest_ids_keep_their_digits(number: int, form: str) -> None:
    config = with_token(f"trusted_bot_ids = [{form.format(number)}]").config

    assert config.discord.trusted_bot_ids == {str(number)}


@pytest.mark.parametrize(
    ("lists", "channels"),
    [
        ("", None),
        ("allowed_channels = []", None),
        ('allowed_channels = ["1"]', {"1"}),
        ('allowed_channels = ["1"]\nallow_all_channels = true', None),
        ('allowed_channels = ["1"]\nallow_all_channels = false', {"1"}),
        ("allow_all_channels = false", set()),
    ],
)
def test_who_is_let_in(lists: str, channels: set[str] | None) -> None:
    assert with_token(lists).config.discord.channels == channels


@pytest.mark.parametrize(
    ("key", "written", "word"),
    [
        ("allow_user_messages", '"Multibot_Mentions"', "multibot-mentions"),
        ("message_processing_mode", '"PER_LANE"', "per-lane"),
        ("allow_bot_messages", '"NONE"', "off"),
        ("allow_bot_messages", "true", "all"),
        ("allow_bot_messages", "false", "off"),
    ],
)
def test_words_forgive_case_and_underscores(key: str, written: str, word: str) -> None:
    assert getattr(with_token(f"{key} = {written}").config.discord, key) == word


def test_a_conversation_may_have_a_mode_of_its_own() -> None:
    presentation = with_token(
        '[presentation]\nmultibot_mode = "final"\n'
        '[presentation.conversations."77"]\nmode = "heartbeat"\n'
        "[presentation.conversations.78]\n"
    ).config.presentation
    own, other, silent = PlatformId("77"), PlatformId("1"), PlatformId("78")

    assert presentation.mode_in(own, with_other_bots=True) is PresentationMode.HEARTBEAT
    assert presentation.mode_in(other, own, with_other_bots=True) is PresentationMode.HEARTBEAT
    assert presentation.mode_in(other, None, with_other_bots=True) is PresentationMode.FINAL
    assert presentation.mode_in(silent, with_other_bots=False) is PresentationMode.STREAM


@pytest.mark.parametrize(
    ("written", "listen"),
    [("", None), ("0.0.0.0:80", Listen("0.0.0.0", 80)), ("[::1]:8", Listen("::1", 8))],
)
def test_where_to_listen(written: str, listen: Listen | None) -> None:
    http = with_token(f'[http]\nlisten = "{written}"').config.http

    assert http.listen == listen
    assert http.is_configured


def test_the_variable_beats_the_configured_database() -> None:
    section = '[database]\nurl = "sqlite:////one.db"'

    assert with_token(section).database.file == "/one.db"
    assert with_token(section, OPENAB_DATABASE_URL="sqlite:////two.db").database.file == "/two.db"
    assert with_token(OPENAB_HOME="/var/oab").database.file == "/var/oab/openab.db"


def test_nothing_that_prints_a_configuration_tells_its_secrets() -> None:
    loaded = with_token(
        '[agent]\nenv = { KEY = "hidden-1" }\n[agents.s]\ncommand = "c"\nenv = { K = "hidden-5" }\n'
        '[database]\nurl = "postgresql://u:hidden-2@h/d"\n'
        '[stt]\napi_key = "hidden-3"\n[secrets.refs]\na = "hidden-4"'
    )

    printed = f"{loaded!r} {loaded.config} {loaded.config.agent.env}"
    assert "hidden" not in printed
    assert "***" in printed


def test_a_configuration_cannot_be_changed() -> None:
    config = with_token('[agent]\nenv = { A = "1" }').config

    with pytest.raises(ValueError, match="frozen"):
        config.pool.max_sessions = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.agent.env["B"] = config.agent.env["A"]  # type: ignore[index]


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes('﻿[discord]\r\nbot_token = "t"\r\n'.encode())

    assert load(str(file), ENVIRON).config.discord.bot_token.reveal() == "t"


def test_an_address_is_loaded_without_a_running_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(source: str) -> str:
        return f'[discord]\nbot_token = "{source}"'

    monkeypatch.setattr("openab.config.load.read_source", read)

    loaded = load("https://host/c.toml", ENVIRON)

    assert loaded.config.discord.bot_token.reveal() == "https://host/c.toml"
    assert loaded.source == "https://host/c.toml"
