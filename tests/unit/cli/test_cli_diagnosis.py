"""Links, remedies, and what the doctor makes of files and folders."""

import errno
import os
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.agents.limits import Timeouts
from openab.app.account_lock import AccountLock
from openab.app.diagnosis.account import _clock, _served_already
from openab.app.diagnosis.agent import agent
from openab.app.diagnosis.candidates import KNOWN, on_this_machine
from openab.app.diagnosis.links import message_id
from openab.app.diagnosis.machine import home_folder, secrets_in_files, working_folder
from openab.app.diagnosis.remedies import DEAD, FAILURES, SPAWNS, spawn_remedies, turn_remedies
from openab.app.diagnosis.report import Level
from openab.channels.discord.rest import Identity
from openab.domain.agent_events import FailureKind
from openab.domain.delivery import DeadReason
from openab.domain.ids import AccountId, PlatformId
from openab.domain.recovery import Verdict
from openab.domain.spawn import SpawnRefusal, SpawnState
from openab.ports.agent import AgentSpec
from openab.storage.inspection import LogLine, TurnLine, TurnStory
from openab.storage.spawn_stories import SpawnStory


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("https://discord.com/channels/1/2/3", "3"),
        ("https://ptb.discord.com/channels/1/2/3/", "3"),
        ("https://canary.discordapp.com/channels/@me/2/3?x=1", "3"),
        ("<https://discord.com/channels/1/2/3>", "3"),
        ("https://discord.com/channels/1/22", "22"),
        (" 123456789012345678 ", "123456789012345678"),
        ("2-3", "3"),
        ("https://evil.example/channels/1/2/3", None),
        ("https://discord.com/channels/1", None),
        ("https://discord.com/channels/1/2/3/4", None),
        ("123456789012345678901", None),
        ("١٢٣", None),
        ("", None),
    ],
)
def test_the_message_is_found_in_what_people_copy(written: str, found: str | None) -> None:
    assert message_id(written) == found


@given(st.text())
def test_no_text_makes_it_stumble(written: str) -> None:
    found = message_id(written)

    assert found is None or (found.isascii() and found.isdigit() and len(found) <= 20)


def test_every_failure_and_every_dead_reason_has_a_remedy() -> None:
    assert set(FAILURES) == set(FailureKind)
    assert set(DEAD) == set(DeadReason)


_THEN = datetime(2026, 7, 1, tzinfo=UTC)


def _running(*verdicts: Verdict, is_owned: bool = True) -> TurnStory:
    written: dict[str, Any] = dict.fromkeys(field.name for field in fields(TurnLine))
    turn = TurnLine(**{**written, "state": "running"})
    log = tuple(LogLine("turn_recovered", {"verdict": str(one)}, _THEN) for one in verdicts)
    return TurnStory(turn, log, (), is_owned, 0)


@pytest.mark.parametrize(
    ("story", "said"),
    [
        (_running(), "wait, or type !cancel"),
        (_running(Verdict.ASK), "Continue or Stop"),
        (_running(Verdict.ASK, Verdict.CONTINUE), "wait, or type !cancel"),
        (_running(Verdict.ASK, is_owned=False), "openab run"),
    ],
)
def test_who_asks_why_a_turn_does_not_move_is_told_of_its_question(
    story: TurnStory, said: str
) -> None:
    (remedy,) = turn_remedies(story)

    assert said in remedy


def test_known_agents_are_found_on_path(tmp_path: Path) -> None:
    for name in ("opencode", "claude-agent-acp"):
        (tmp_path / name).touch(mode=0o755)

    found = on_this_machine({"PATH": str(tmp_path)})

    assert [str(each) for each in found] == ["claude-agent-acp", "opencode acp"]
    assert len(KNOWN) == 9


def test_a_folder_that_others_can_enter_is_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "openab.db").touch(mode=0o600)
    assert [found.level for found in home_folder(home)] == [Level.WELL]

    home.chmod(0o755)
    (home / "openab.db").chmod(0o644)

    folder, file = home_folder(home)
    assert (folder.level, folder.remedy) == (Level.WARNING, f"chmod 700 {home}")
    assert file.remedy == f"chmod 600 {home / 'openab.db'}"


def test_a_home_that_is_no_folder_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert [found.level for found in home_folder(tmp_path / "file")] == [Level.FAILURE]
    assert [found.level for found in home_folder(tmp_path / "file" / "x")] == [Level.FAILURE]
    assert [found.level for found in home_folder(tmp_path / "later" / "x")] == [Level.WELL]


def test_the_working_folder_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert working_folder(tmp_path).level is Level.WELL
    assert working_folder(tmp_path / "file").level is Level.FAILURE
    missing = working_folder(tmp_path / "a b")
    assert (missing.level, missing.remedy) == (Level.FAILURE, f"mkdir -p '{tmp_path}/a b'")


def test_a_secret_in_a_file_is_told_with_who_can_read_it(tmp_path: Path) -> None:
    private, public, clean = (tmp_path / name for name in ("private", "public", "clean"))
    for path, mode in ((private, 0o600), (public, 0o644), (clean, 0o644)):
        path.write_text("nothing here" if path is clean else "token = tell.nobody")
        path.chmod(mode)

    found = list(secrets_in_files([private, public, clean, tmp_path / "none"], ["tell.nobody"]))

    assert [each.level for each in found] == [Level.WARNING, Level.WARNING]
    assert "the agent runs as the same user" in found[0].told
    assert "which others can read" in found[1].told
    assert "tell.nobody" not in repr(found)


@pytest.mark.parametrize(
    ("skews", "level", "said"),
    [
        ([0.4, -0.2], Level.WELL, "within"),
        ([7.0, 6.1], Level.WARNING, "6 s behind"),
        ([-90.0], Level.WARNING, "90 s ahead of"),
        ([], Level.WARNING, "no date"),
    ],
)
def test_the_clock_is_compared(skews: list[float], level: Level, said: str) -> None:
    found = _clock(skews)

    assert found.level is level
    assert said in found.told


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "make room on its disk"), (errno.EACCES, "permissions")],
)
def test_a_lock_that_cannot_be_made_is_told_with_what_mends_it(
    number: int, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: AccountLock) -> Never:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(AccountLock, "__enter__", fails)
    (tmp_path / "locks").mkdir()

    found = _served_already(tmp_path, Identity(AccountId("900"), "sol", PlatformId("901"), True))

    assert (found.level, remedy in found.remedy) == (Level.FAILURE, True)


async def test_an_agent_that_never_answers_is_given_up_in_time(tmp_path: Path) -> None:
    spec = AgentSpec("cat", "sleep", ("60",), str(tmp_path), {"PATH": "/usr/bin:/bin"})

    found = await agent(spec, Timeouts(initialize=0.2, leave=0.1, terminate=0.1))

    assert found.level is Level.FAILURE
    assert found.remedy


@pytest.mark.parametrize(
    ("state", "changes", "said"),
    [
        (SpawnState.OWED, {}, "openab run"),
        (SpawnState.OPENED, {}, "!cancel"),
        (SpawnState.HELD, {}, "/unfocus in the others"),
        (SpawnState.REFUSED, {"reason": "too_many"}, "max_subagents"),
        (SpawnState.FINISHED, {}, "turns.raw"),
        (SpawnState.FINISHED, {"answered_in": ("5",)}, None),
    ],
)
def test_a_spawn_has_a_remedy_unless_all_is_well(
    state: SpawnState, changes: dict[str, Any], said: str | None
) -> None:
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(SpawnStory))
    spawn = SpawnStory(**{**values, "answered_in": (), "state": state.value, **changes})

    assert [said in each for each in spawn_remedies(spawn) if said] == ([True] if said else [])
    assert bool(spawn_remedies(spawn)) is (said is not None)


def test_every_refusal_of_a_spawn_has_a_remedy() -> None:
    assert set(SPAWNS) == set(SpawnRefusal)
