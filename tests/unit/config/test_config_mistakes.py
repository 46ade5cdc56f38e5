"""Every mistake at once, with its place and what to write instead; and what is only said."""

from pathlib import Path

import pytest

from openab.config.findings import ConfigInvalid, Finding
from openab.config.later import LATER
from openab.config.load import check, load

ENVIRON = {"HOME": "/home/me"}
TOKEN = '[discord]\nbot_token = "t"\n'


def mistakes(text: str, **environ: str) -> list[Finding]:
    with pytest.raises(ConfigInvalid) as raised:
        check(text, {**ENVIRON, **environ}, "config.toml")
    return list(raised.value.mistakes)


def the_mistake(text: str, **environ: str) -> Finding:
    (mistake,) = mistakes(text, **environ)
    return mistake


def cautions(text: str, source: str = "config.toml") -> dict[str, str]:
    loaded = check(text, {**ENVIRON, "EMPTY": ""}, source)
    return {each.path: f"{each.message} {each.remedy}".strip() for each in loaded.cautions}


def test_all_mistakes_of_a_file_are_told_in_its_order() -> None:
    text = """\
[discord]
bot_token = "${NOPE}"
allowed_channels = [1.4883e+18]
allowed_users = ["x", "y"]
message_processing_mode = "batched"
max_buffered_messages = 0
allow_user_message = "involved"
[pool]
max_sessions = "10"
[presentation]
mode = "flow"
[presentation.conversations.abc]
[[cron.jobs]]
schedule = "* * * * *"
[http]
listen = "nowhere"
[database]
url = "mysql://u:pw@h/d"
"""
    told = [(each.line, each.path) for each in mistakes(text)]

    assert told == [
        (2, ""),
        (3, "discord.allowed_channels[0]"),
        (4, "discord.allowed_users"),
        (5, "discord.message_processing_mode"),
        (6, "discord.max_buffered_messages"),
        (7, "discord.allow_user_message"),
        (9, "pool.max_sessions"),
        (11, "presentation.mode"),
        (12, "presentation.conversations.abc"),
        (13, "cron.jobs[0].channel"),
        (13, "cron.jobs[0].message"),
        (16, "http.listen"),
        (18, "database.url"),
    ]


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "no chat network is configured", "add [discord]"),
        ('[slack]\nbot_token = "b"\napp_token = "a"', "no chat network", "add [discord]"),
        ("[discord]", "token is missing", "bot_token ="),
        ('[discord]\nbot_token = " "', "token is empty", "variable"),
        ('[discord]\nbot_token = "a b"', "white space", "copy it again"),
        ('[discord]\nbot_token = 5', "a string is expected, not a whole number", "quotes"),
        (TOKEN + 'allow_dm = "yes"', "true or false is expected, not a string", "without quotes"),
        (TOKEN + "allowed_users = 5", "an array is expected", "brackets"),
        (TOKEN + "allowed_users = [true]", "an id is expected", '"123'),
        (TOKEN + "allowed_users = [1e3]", "1000.0 is no id", "has lost digits"),
        (TOKEN + 'allowed_users = ["18446744073709551616"]', "no usable id", "let everybody in"),
        (TOKEN + 'allowed_users = ["${EMPTY}"]', "no usable id", "let everybody in"),
        (TOKEN + 'trusted_bot_ids = ["@sol"]', "no usable id", ""),
        (TOKEN + 'max_batch_tokens = 0', "0 is not allowed", "1 or more"),
        (TOKEN + 'message_processing_mode = "Batched"', "no longer a mode", "per-thread"),
        (TOKEN + 'allow_bot_messages = "some"', '"some" is not among', "'mentions' or 'all'"),
        (TOKEN + 'api_base = "discord.com"', "no web address", "https://discord.com"),
        (TOKEN + "[pools]", "no such key", "`pool`"),
        (TOKEN + "[presentation]\nedit_interval_ms = 0", "0 is not allowed", "greater"),
        (TOKEN + "[presentation]\nedit_interval_ms = -1", "out of range", "from 0"),
        (TOKEN + "[database]\nkeep_days = 1000000000", "out of range", "100000000"),
        (TOKEN + "[database]\nkeep_days = nan", "out of range", "from 0"),
        (TOKEN + '[cluster]\nlease_seconds = "15"', "a number is expected", "without quotes"),
        (TOKEN + "[pool]\nmax_sessions = 1.5", "a whole number is expected", "without a point"),
        (TOKEN + "pool = 3", "unknown", ""),
        ("pool = 3\n" + TOKEN, "a table is expected, not a whole number", "[section]"),
        ('agent = "x"\n' + TOKEN, "a table is expected, not a string", "[section]"),
        (TOKEN + '[agent]\ncommand = ""', "command is empty", "program"),
        (TOKEN + "[agent]\nenv = { A = 1 }", "a string is expected", "quotes"),
        (TOKEN + "[agents.sol]\nargs = []", "program is missing", "OPENAB_AGENT_COMMAND counts"),
        (TOKEN + '[agents.sol]\ncommand = ""', "command is empty", "program"),
        (TOKEN + '[agents."so l"]\ncommand = "x"', '"so l" is no name', "1 to 32 of the"),
        (TOKEN + '[agents.""]\ncommand = "x"', '"" is no name', "a-z A-Z 0-9 _ -"),
        (TOKEN + f'[agents.{33 * "x"}]\ncommand = "x"', "is no name for an agent", "1 to 32"),
        (TOKEN + "[agents]\nsol = 1", "a table is expected", "[section]"),
        (TOKEN + "[discord.thread_bindings]\nidle_hours = 87601", "ten years", "0 for never"),
        (TOKEN + "[discord.thread_bindings]\nidle_hours = 0.01", "a minute", "0.0167 to 87600"),
        (TOKEN + "[discord.thread_bindings]\nmax_age_hours = -1", "-1 hours", "0.0167 to 87600"),
        (TOKEN + "[discord.thread_bindings]\nmax_age_hours = nan", "nan hours", "to 87600"),
        (TOKEN + "[discord.thread_bindings]\nidle_hours = '1'", "a number is expected", "quotes"),
        (TOKEN + "[thread_bindings]\nidle_hours = 1", "no such key", "[discord.thread_bindings]"),
        (TOKEN + "[agent.luna]\ncommand = 'x'", "no such key", "did you mean `[agents.luna]`?"),
        (
            TOKEN + "[discord.thread_bindings]\nspawn_subagents = true",
            "no such key",
            "did you mean `spawn_subagent_sessions`?",
        ),
        (
            TOKEN + "spawn_subagent_sessions = true",
            "no such key",
            "did you mean `thread_bindings.spawn_subagent_sessions`?",
        ),
        (TOKEN + "[discord.thread_bindings]\nmax_subagents = 0", "0 is not allowed", "1 or more"),
        (TOKEN + '[http]\nlisten = "host:99999"', "no address with a port", "127.0.0.1:8787"),
        (TOKEN + '[database]\nurl = "sqlite://"', "three slashes", "sqlite:///"),
        (TOKEN + "[database]\nurl = 5", "a string is expected", "quotes"),
        (TOKEN + f'[reactions.emojis]\ndone = "{65 * "x"}"', "at most 64 characters", ""),
        ("x = \n" + TOKEN, "this is no TOML", "toml.io"),
    ],
)  # fmt: skip
def test_each_mistake_says_what_to_write(text: str, message: str, remedy: str) -> None:
    if message == "unknown":
        assert "unknown to openab, ignored" in cautions(text)["discord.pool"]
        return
    mistake = the_mistake(text, EMPTY="")

    assert message in mistake.message
    assert remedy in mistake.remedy


def test_what_is_no_toml_is_told_with_its_line_and_the_undefined_names() -> None:
    told = [(each.line, each.message) for each in mistakes('a = "${GONE}"\nb = 1 2\n')]

    assert told[0] == (1, "${GONE} is not defined")
    assert told[1][0] == 2
    assert len(told) == 2


def test_an_unusable_variable_for_the_database_is_named() -> None:
    mistake = the_mistake(TOKEN, OPENAB_DATABASE_URL="oracle://u:hidden@h/d")

    assert mistake.path == "$OPENAB_DATABASE_URL"
    assert "hidden" not in str(mistake)


def test_a_long_value_in_the_wrong_place_is_not_repeated() -> None:
    token = "x" * 70

    told = mistakes(
        f'[discord]\nbot_token = "t"\nallowed_users = ["{token}"]\napi_base = "{token}"'
    )

    assert token not in "".join(map(str, told))


def test_an_undefined_name_is_not_told_twice() -> None:
    mistake = the_mistake(TOKEN + 'allowed_channels = ["${GONE}"]\n[pool]')

    assert str(mistake) == (
        "line 3: ${GONE} is not defined (set GONE in the environment, or write ${GONE:-a default})"
    )


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("allowed_users = []", "discord.allowed_users", "everybody say so with allow_all_users"),
        ("allowed_channels = []", "discord.allowed_channels", "every channel"),
        ('allowed_users = ["1"]\nallow_all_users = true', "discord.allowed_users", "not looked at"),
        ("allow_all_users = false", "discord.allow_all_users", "nobody is heard"),
        ('allowed_users = ["1", "<@2>"]', "discord.allowed_users[1]", '"<@2>" is no id, left out'),
        ('allowed_users = ["1", "${EMPTY}"]', "discord.allowed_users[1]", '"" is no id, left out'),
        ("mood = 1", "discord.mood", "unknown to openab, ignored"),
        ('api_base = "http://proxy:80/api"', "discord.api_base", "plain HTTP"),
        ("[telegram]\nx = 1", "telegram", "not served"),
        ('[hooks.pre_boot]\ninline = "true"', "hooks", "not served"),
        ('[filestore]\nbucket = "b"\nregion = "r"', "filestore", "not served"),
        ("[[cronjobs]]\na = 1", "cronjobs", "write [[cron.jobs]]"),
        ("[stt]\nenabled = true", "stt", "comes later"),
        (
            "[discord.thread_bindings]\nspawn_subagent_sessions = true",
            "discord.thread_bindings.spawn_subagent_sessions",
            "no sub-agent is configured add [agents.NAME]",
        ),
        (
            "[discord.thread_bindings]\nspawn_subagent_sessions = true\nenabled = false",
            "discord.thread_bindings.spawn_subagent_sessions",
            "without effect write enabled = true",
        ),
        ("[agent_host]\nlinger_minutes = 1", "agent_host.linger_minutes", "comes later"),
    ],
)
def test_what_is_only_said(text: str, path: str, said: str) -> None:
    assert said in cautions(TOKEN + text)[path]


@pytest.mark.parametrize(
    "text",
    [
        "allow_all_users = true\nallowed_users = []",
        'allow_user_messages = "INVOLVED"',
        "allow_dm = false",
        'message_processing_mode = "per_message"',
        'api_base = "http://127.0.0.1:8080/api/v10"',
        '[agent_host]\nmode = "daemon"',
        '[workspace]\nper_thread = "off"',
        '[agents.sol]\ncommand = "x"',
        "[discord.thread_bindings]\nidle_hours = 1\nmax_age_hours = 87600",
        "[discord.thread_bindings]\nidle_hours = 0.0167\nmax_age_hours = 0",
        "[discord.thread_bindings]\nspawn_subagent_sessions = true\n[agents.s]\ncommand = 'x'",
        "[stt]\nenabled = false",
        "[cron]\nusercron_enabled = false",
    ],
)
def test_what_is_as_it_says_needs_no_word(text: str) -> None:
    assert cautions(TOKEN + text) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agent_host.fence_minutes", "1"),
        ("cron.usercron_enabled", "true"),
    ],
)
def test_a_key_whose_feature_comes_later_says_so(key: str, value: str) -> None:
    said = cautions(f'discord.bot_token = "t"\n{key} = {value}')

    assert [path for path, sentence in said.items() if "comes later" in sentence] == [
        next(each.key for each in LATER if key.startswith(each.key))
    ]


def test_plain_http_is_said() -> None:
    assert "use https://" in cautions(TOKEN, "http://127.0.0.1/config.toml")[""]


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="openab setup"):
        load(str(tmp_path / "config.toml"), ENVIRON)


def test_a_folder_and_a_file_in_another_encoding_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"a = 1\nb = '\xff'\n")

    with pytest.raises(ConfigInvalid, match="line 2: the file is not UTF-8"):
        load(str(file), ENVIRON)
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load(str(tmp_path), ENVIRON)
    with pytest.raises(ConfigInvalid, match="s3:// is not served"):
        load("s3://bucket/config.toml", ENVIRON)


def test_a_call_must_end_within_the_lease_that_allows_it() -> None:
    mistake = the_mistake(TOKEN + "[cluster]\nlease_seconds = 5\ncall_seconds = 5\n")
    assert (mistake.line, mistake.path) == (5, "cluster.call_seconds")
