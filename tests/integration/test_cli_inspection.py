"""`openab turns|sessions|deliveries|why|db|config`: each as a process once, otherwise in this one."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from openab.cli.main import app
from openab.domain.gates import REASONS, Disposition
from openab.domain.ids import PlatformId
from openab.storage import inbox
from openab.storage.engine import Database
from openab.storage.inbox import Entry
from tests import stories
from tests.commands import Ended, environment, openab

Typed = Callable[..., Ended]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """A command in this process; an error that nobody expected comes out."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, env: dict[str, str]) -> Ended:
        clean: dict[str, str | None] = dict.fromkeys(os.environ)
        result = CliRunner().invoke(app, words, env={**clean, **env}, catch_exceptions=False)
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def env(tmp_path: Path, migrated_sqlite_address: str) -> dict[str, str]:
    path = migrated_sqlite_address.partition(":///")[2]
    return environment(tmp_path, OPENAB_DATABASE_URL=f"sqlite:///{path}")


@pytest.fixture
async def told(migrated_sqlite_address: str) -> tuple[str, str]:
    database = await Database.open(migrated_sqlite_address)
    ids = await stories.tell(database)
    await database.close()
    return ids


async def test_listings_are_tables_of_harmless_text(
    env: dict[str, str], told: tuple[str, str], tmp_path: Path
) -> None:
    turns = await openab("turns", env=env, folder=tmp_path)
    deliveries = await openab("deliveries", env=env, folder=tmp_path)
    sessions = await openab("sessions", env=env, folder=tmp_path)

    assert (turns.code, deliveries.code, sessions.code) == (0, 0, 0)
    assert "database: sqlite:///" in turns.err
    assert "auth_required" in turns.out
    # Not as an escape sequence, not as half of a pair, not as colour.
    assert "Ada \\x1b[2J\\x00\ufffd [red]" in turns.out
    assert "forbidden: 50013 Missing Permissions" in deliveries.out
    assert "codex-acp" in sessions.out
    assert "\x1b" not in turns.out + deliveries.out + sessions.out
    assert stories.SECRET_ANSWER not in turns.out + deliveries.out


async def test_json_is_one_object_a_line_and_nothing_else(
    env: dict[str, str], told: tuple[str, str], tmp_path: Path
) -> None:
    ended = await openab("turns", "--json", "--limit", "1", env=env, folder=tmp_path)

    (line,) = ended.out.splitlines()
    turn = json.loads(line)
    assert turn["id"] in told
    assert turn["requester_name"] == "Ada \x1b[2J\x00\ufffd [red]"
    assert "raw" not in turn


async def test_why_tells_what_became_of_a_message(
    env: dict[str, str], told: tuple[str, str], tmp_path: Path
) -> None:
    link = f"https://discord.com/channels/1/{stories.THREAD}/{stories.ASKED}"

    ended = await openab("why", link, env=env, folder=tmp_path)

    assert ended.code == 0, ended.err
    assert "turn: it started a turn (accepted)" in ended.out
    assert f"turn {told[0]}: answered, outcome failed" in ended.out
    assert "error: auth_required: log in \\x1b]0;first\\x07 (it wrote last: bye)" in ended.out
    assert "turn_failed" in ended.out
    assert f"create final 1, sent, message {stories.REPLY}" in ended.out
    assert "create final 2, dead (forbidden: 50013 Missing Permissions)" in ended.out
    assert "to do: log in to the agent once as the user that runs openab" in ended.out
    assert "to do: give the bot the permission that openab doctor names" in ended.out
    assert stories.SECRET_ANSWER not in ended.out


def test_why_says_what_to_do_about_an_ignored_and_an_unknown_message(
    env: dict[str, str], told: tuple[str, str], tmp_path: Path, typed: Typed
) -> None:
    ignored = typed("why", stories.IGNORED, env=env)
    unknown = typed("why", "999", env=env)
    own = typed("why", stories.REPLY, env=env)
    waiting = typed("why", stories.WAITING, env=env)

    assert ignored.code == 0
    assert "ignored: in a channel the bot answers only when it is mentioned" in ignored.out
    assert unknown.code == 1
    assert "no account in this database has seen it" in unknown.out
    assert (own.code, "openab sent it itself" in own.out) == (0, True)
    assert "start it with openab run" in waiting.out


@pytest.fixture
async def given(migrated_sqlite_address: str) -> str:
    database = await Database.open(migrated_sqlite_address)
    made = await stories.give(database)
    await database.close()
    return made


def test_why_tells_of_a_sub_agents_task(
    env: dict[str, str], given: str, tmp_path: Path, typed: Typed
) -> None:
    starter, itself = typed("why", stories.STARTER, env=env), typed("why", given, env=env)

    assert (starter.code, itself.code) == (0, 0)
    assert itself.out.startswith(f"spawn {given}\n")
    for out in (starter.out, itself.out):
        assert f"spawn {given}: sub-agent luna, finished" in out
        assert "asked for in 77 by turn" in out
        assert f"its thread {stories.STARTER}, session discord:900:{stories.STARTER}:luna" in out
        assert f"its answer went to {stories.STARTER}" in out
        assert "is told to discord:900:77" in out
        assert "\x1b" not in out
        assert stories.SECRET_TASK not in out
    (spawn,) = json.loads(typed("why", "--json", given, env=env).out)["spawns"]
    assert (spawn["id"], spawn["state"], spawn["remedies"]) == (given, "finished", [])
    sources = typed("turns", env=env).out
    assert "source" in sources
    assert all(word in sources for word in ("message", "spawn", "completion"))


@pytest.fixture
async def every_reason(migrated_sqlite_address: str) -> list[str]:
    """One reaction of a person on one message for each reason word there is."""
    database = await Database.open(migrated_sqlite_address)
    async with database.transaction() as tx:
        for number, reason in enumerate(REASONS):
            person = PlatformId(str(500 + number))
            key = f"{stories.IGNORED}:{person}:x"
            became = Disposition.IGNORED
            entry = Entry(stories.ACCOUNT, "reaction", key, stories.THREAD, person, became, reason)
            await inbox.add(tx, entry)
    await database.close()
    return list(REASONS)


def test_why_explains_every_reason(
    env: dict[str, str], every_reason: list[str], typed: Typed
) -> None:
    told = typed("why", stories.IGNORED, env=env).out

    for number, reason in enumerate(every_reason):
        assert f"reaction of {500 + number}" in told
        assert f"{REASONS[reason]} ({reason})" in told


def test_why_as_json(
    env: dict[str, str], told: tuple[str, str], tmp_path: Path, typed: Typed
) -> None:
    ended = typed("why", "--json", stories.ASKED, env=env)

    (account,) = json.loads(ended.out)["accounts"]
    assert (account["disposition"], account["reason"]) == ("turn", "accepted")
    assert account["turn"]["id"] == told[0]
    assert [each["state"] for each in account["turn"]["deliveries"]] == ["sent", "dead"]
    assert len(account["turn"]["remedies"]) == 2
    assert "raw" not in account["turn"]


def test_what_is_no_link_is_bad_usage(env: dict[str, str], tmp_path: Path, typed: Typed) -> None:
    ended = typed("why", "the last one", env=env)

    assert ended.code == 2
    assert "is no message link" in ended.err


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("sqlite:////proc/nowhere/x.db", 1, "the database is empty"),
        ("sqlite:///{tmp}", 1, ""),
        ("sqlite:///{tmp}/text.txt", 1, "file is not a database"),
        ("postgres://me:hidden@127.0.0.1:1/none", 1, "ConnectionRefusedError"),
        ("mysql://me:hidden@host/none", 2, "is not served"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_clear_line(
    url: str, code: int, said: str, tmp_path: Path, typed: Typed
) -> None:
    (tmp_path / "text.txt").write_text("no database " * 100)
    env = environment(tmp_path, OPENAB_DATABASE_URL=url.replace("{tmp}", str(tmp_path)))

    for words in (("turns",), ("db", "current")):
        if words == ("db", "current") and said == "the database is empty":
            continue
        ended = typed(*words, env=env)
        assert (ended.code, said in ended.err) == (code, True), ended.err
        assert "hidden" not in ended.err


def test_reading_waits_for_no_writer(
    env: dict[str, str], told: tuple[str, str], tmp_path: Path, typed: Typed
) -> None:
    path = env["OPENAB_DATABASE_URL"].partition(":///")[2]
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        ended = typed("turns", env=env)
        writer.execute("ROLLBACK")

    assert ended.code == 0, ended.err


def test_the_database_alone_is_read_from_a_file_whose_token_is_not_set(
    told: tuple[str, str], env: dict[str, str], tmp_path: Path, typed: Typed
) -> None:
    url = env.pop("OPENAB_DATABASE_URL")
    config = tmp_path / "config.toml"
    config.write_text(
        f'[discord]\nbot_token = "${{DISCORD_BOT_TOKEN}}"\n[database]\nurl = "{url}"\n'
    )

    ended = typed("turns", "--json", env=env)

    assert len(ended.out.splitlines()) == 2, ended.err


def test_the_variable_beats_the_file_in_every_command(
    told: tuple[str, str], env: dict[str, str], tmp_path: Path, typed: Typed
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[discord]\nbot_token = "t"\n[database]\nurl = "sqlite:////not/this.db"\n')
    wanted = env["OPENAB_DATABASE_URL"]

    for words in (("turns",), ("db", "current"), ("config", "check")):
        ended = typed(*words, env=env)
        assert ended.code == 0, ended.err
        assert wanted in ended.err + ended.out


def test_a_named_file_that_is_missing_is_bad_usage_everywhere(tmp_path: Path, typed: Typed) -> None:
    ended: list[Ended] = [
        typed(*words, "-c", "none.toml", env=environment(tmp_path))
        for words in (("turns",), ("db", "check"), ("doctor",), ("run",), ("config", "check"))
    ]

    assert [each.code for each in ended] == [2] * 5
    assert all("none.toml" in each.err for each in ended)
    assert "openab setup" in ended[3].err


async def test_db_brings_a_database_up_and_says_so(tmp_path: Path) -> None:
    env = environment(tmp_path, OPENAB_HOME=str(tmp_path / "home"))

    ended = await openab("db", "upgrade", env=env, folder=tmp_path)

    assert ended.code == 0, ended.err
    assert ended.out.startswith("schema none -> ")
    assert f"database: sqlite:///{tmp_path}/home/openab.db" in ended.err
    assert (os.stat(tmp_path / "home" / "openab.db").st_mode & 0o077) == 0  # noqa: PTH116 - in a coroutine
