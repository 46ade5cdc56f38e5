"""`openab bindings`, and what `openab sessions` says of them."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from openab.cli.main import app
from openab.domain.binding import EndReason, Limits
from openab.domain.ids import SessionKey
from openab.domain.spawn import Opened, Refused, SpawnRefusal
from openab.routing.bindings import Bindings
from openab.storage import spawns
from openab.storage.conversations import Conversation
from openab.storage.engine import Database, Transaction
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    HOME,
    Offset,
    a_binding,
    a_conversation,
    a_session,
    a_spawn,
)
from tests.commands import Ended, environment
from tests.conformance.binding_stage import HOUR
from tests.fakes.rooms import Rooms

Typed = Callable[..., Ended]
NAME = "Ann \x1b[2J"
SECRET_TASK = "what it is to do"


@pytest.fixture
async def typed(
    tmp_path: Path, migrated_sqlite_address: str, monkeypatch: pytest.MonkeyPatch
) -> Typed:
    """A command on a database in which much is bound, was bound, and is about to be."""
    database = await Database.open(migrated_sqlite_address)
    # All of it happened two hours ago.
    Offset(database).pass_by(-7200)
    await _bound(database)
    await database.close()
    monkeypatch.chdir(tmp_path)
    path = migrated_sqlite_address.partition(":///")[2]
    env = environment(tmp_path, OPENAB_DATABASE_URL=f"sqlite:///{path}")

    def run(*words: str) -> Ended:
        clean: dict[str, str | None] = dict.fromkeys(os.environ)
        result = CliRunner().invoke(app, words, env={**clean, **env}, catch_exceptions=False)
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run


async def _bound(database: Database) -> None:
    silent, service = Bindings({}), Bindings({CHANNEL: Rooms()})
    async with database.transaction() as tx:
        home, child = await a_conversation(tx), await a_conversation(tx, "80", HOME)
        main, luna = await a_session(tx, home), await a_session(tx, child, "luna")
        await a_binding(tx, child, luna, limits=Limits(max_age=50 * HOUR))
        places = [await a_conversation(tx, place, HOME) for place in ("81", "82", "83", "84")]
        await a_binding(tx, places[0], main)
        await a_binding(tx, places[1], main, limits=Limits(idle=HOUR))
        ended = await a_binding(tx, places[2], main)
        await silent.unbind(tx, ended, EndReason.UNFOCUSED)
        ending = await a_binding(tx, places[3], main)
        await service.unbind(tx, ending, EndReason.REPLACED)
        await _spawned(tx, home, luna)


async def _spawned(tx: Transaction, home: Conversation, luna: SessionKey) -> None:
    await a_spawn(tx, home, "s1", requester_name=NAME, task=SECRET_TASK)
    at_work = await spawns.get(tx, await a_spawn(tx, home, "s2", parent_session=None))
    refused = await spawns.get(tx, await a_spawn(tx, home, "s3"))
    assert at_work
    assert refused
    await spawns.record(tx, at_work, Opened(), session_key=luna, turn_id="t1")
    why = SpawnRefusal.NO_STARTER
    await spawns.record(tx, refused, Refused(why), reason=why.value, settled_at=await tx.now())


def _lines(ended: Ended, row: str) -> list[dict[str, Any]]:
    assert ended.code == 0, ended.err
    return [line for line in map(json.loads, ended.out.splitlines()) if line["row"] == row]


def test_bindings_are_listed_as_they_are_at_this_moment(typed: Typed) -> None:
    lines = {
        line["conversation_id"]: line for line in _lines(typed("bindings", "--json"), "binding")
    }
    told = {
        place: (line["state"], line["end_reason"], line["ends_by"]) for place, line in lines.items()
    }
    assert told == {
        "80": ("active", None, "max_age"),
        "81": ("active", None, None),
        # Nobody has noted it yet.
        "82": ("expired", "idle", None),
        "83": ("ended", "unfocused", None),
        "84": ("ending", "replaced", None),
    }  # fmt: skip
    child = lines["80"]
    assert child["session_key"] == f"discord:{ACCOUNT}:80:luna"
    assert (child["agent"], child["kind"], child["bound_by"]) == ("luna", "session", "31")
    assert child["max_age_seconds"] == 180_000
    assert child["ends_at"] > child["bound_at"]
    assert lines["83"]["ended_at"] is not None


def test_only_what_is_not_over_can_be_asked_for(typed: Typed) -> None:
    lines = _lines(typed("bindings", "--json", "--open"), "binding")
    assert {line["conversation_id"] for line in lines} == {"80", "81", "84"}
    assert len(_lines(typed("bindings", "--json", "--limit", "2"), "binding")) == 2


def test_sub_agents_at_work_are_listed_without_their_tasks(typed: Typed) -> None:
    ended = typed("bindings", "--json")
    lines = {line["state"]: line for line in _lines(ended, "spawn")}
    assert set(lines) == {"owed", "opened"}
    assert lines["owed"]["parent_session_key"] == f"discord:{ACCOUNT}:{HOME}"
    assert (lines["opened"]["parent_session_key"], lines["opened"]["turn_id"]) == (None, "t1")
    assert all(7200 <= line["age_seconds"] < 7500 for line in lines.values())
    assert {line["conversation_id"] for line in lines.values()} == {HOME}
    shown = typed("bindings")
    assert SECRET_TASK not in ended.out + shown.out


def test_the_tables_are_of_harmless_text(typed: Typed) -> None:
    shown = typed("bindings").out
    assert "2 h 0 min" in shown
    assert "a person" in shown
    assert "(max_age)" in shown
    assert "expired" in shown
    assert "Ann \\x1b[2J" in shown
    assert "\x1b" not in shown


def test_sessions_tell_where_else_they_are_bound(typed: Typed) -> None:
    lines = map(json.loads, typed("sessions", "--json").out.splitlines())
    bound = {line["session_key"]: line["bound_to"] for line in lines}
    # A sub-agent's own thread is its own; what is over is not told.
    assert bound == {
        f"discord:{ACCOUNT}:{HOME}": ["81"],
        f"discord:{ACCOUNT}:80:luna": [],
    }
    assert "bound to" in typed("sessions").out


def test_nothing_at_all_is_told_as_that(
    tmp_path: Path, migrated_sqlite_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = migrated_sqlite_address.partition(":///")[2]
    env: dict[str, str | None] = {**environment(tmp_path, OPENAB_DATABASE_URL=f"sqlite:///{path}")}
    for words in (["bindings"], ["bindings", "--json"], ["bindings", "--open"]):
        ended = CliRunner().invoke(app, words, env=env, catch_exceptions=False)
        assert (ended.exit_code, ended.stdout) == (0, "")
