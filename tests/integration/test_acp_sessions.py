"""Opening sessions: the ladder from resume to new, and agents that lie on it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import openab.simulator
from openab.agents.host.check import check_agent
from openab.domain.agent_events import EndKind, FailureKind
from openab.ports.agent import AgentRefused, AgentSpec, AgentUnavailable, OpenedBy
from openab.ports.tasks import spawn
from tests.integration.acp_host import PATIENT, SESSION, SHORT, Host, a_spec, end_of, text_of


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    made = Host(tmp_path)
    yield made
    await made.agents.stop()


async def a_used_session(host: Host, spec: AgentSpec) -> str:
    """A session with a memory, whose process is gone."""
    opened = await host.open(spec)
    assert opened.by is OpenedBy.NEW
    await host.ask("remember the cat [[say=noted]]")
    await host.agents.close(SESSION)
    return opened.acp_session_id


def methods(host: Host) -> list[str]:
    return [message["method"] for message in host.received() if "method" in message]


async def test_resume_is_preferred_and_needs_no_replay(host: Host, tmp_path: Path) -> None:
    wanted = await a_used_session(host, a_spec(tmp_path))
    opened = await host.open(a_spec(tmp_path), wanted)
    assert (opened.by, opened.replayed, opened.context_lost) == (OpenedBy.RESUMED, 0, False)
    assert "session/load" not in methods(host)
    assert "remember the cat" in text_of(await host.ask("[[recall]]"))


@pytest.mark.parametrize("mode", ["no-resume", "resume-refused"])
async def test_load_is_next_and_its_replay_is_counted_and_never_shown(
    host: Host, tmp_path: Path, mode: str
) -> None:
    spec = a_spec(tmp_path, mode)
    wanted = await a_used_session(host, spec)
    opened = await host.open(spec, wanted)
    assert (opened.by, opened.replayed, opened.context_lost) == (OpenedBy.RESUMED, 2, False)
    assert text_of(await host.ask("[[say=only this]]")) == "only this"


async def test_a_replay_after_the_answer_does_not_leak_into_the_next_turn(
    tmp_path: Path,
) -> None:
    host = Host(tmp_path, timeouts=replace(PATIENT, replay_start=20, replay_quiet=1))
    spec = a_spec(tmp_path, "no-resume", "reply-before-replay")
    wanted = await a_used_session(host, spec)
    opened = await host.open(spec, wanted)
    assert opened.replayed == 2
    assert text_of(await host.ask("[[wait=1]][[say=only this]]")) == "only this"
    await host.agents.stop()


async def test_without_the_wait_that_replay_would_leak(tmp_path: Path) -> None:
    """The negative control of the test above."""
    hasty = Host(tmp_path, timeouts=replace(PATIENT, replay_start=0, replay_quiet=0))
    spec = a_spec(tmp_path, "no-resume", "reply-before-replay")
    wanted = await a_used_session(hasty, spec)
    await hasty.open(spec, wanted)
    assert text_of(await hasty.ask("[[wait=1]][[say=only this]]")) == "notedonly this"
    await hasty.agents.stop()


async def test_a_replay_on_resume_is_thrown_away_too(host: Host, tmp_path: Path) -> None:
    spec = a_spec(tmp_path, "replay-on-resume")
    wanted = await a_used_session(host, spec)
    assert (await host.open(spec, wanted)).replayed == 2
    assert text_of(await host.ask("[[say=only this]]")) == "only this"


@pytest.mark.parametrize("code", ["-32002", "-32603", "-32600"])
async def test_a_bogus_id_is_replaced(host: Host, tmp_path: Path, code: str) -> None:
    opened = await host.open(a_spec(tmp_path, more=["--unknown-id-code", code]), "s-bogus")
    assert (opened.by, opened.context_lost) == (OpenedBy.NEW, True)
    assert text_of(await host.ask("[[say=hi]]")) == "hi"


async def test_a_load_that_accepts_anything_and_replays_nothing_is_lost(
    host: Host, tmp_path: Path
) -> None:
    opened = await host.open(a_spec(tmp_path, "no-resume", "accept-any-id"), "s-bogus")
    assert (opened.by, opened.context_lost) == (OpenedBy.RESUMED, True)


async def test_an_agent_that_can_restore_nothing_begins_anew(host: Host, tmp_path: Path) -> None:
    spec = a_spec(tmp_path, "no-load", "no-resume")
    opened = await host.open(spec, "s-any")
    assert (opened.by, opened.context_lost) == (OpenedBy.NEW, True)


async def test_a_first_session_has_lost_nothing(host: Host, tmp_path: Path) -> None:
    opened = await host.open(a_spec(tmp_path, more=["--name", "Sol"]))
    assert (opened.by, opened.context_lost) == (OpenedBy.NEW, False)
    assert (opened.agent_name, opened.agent_version) == ("Sol", "1.0")


@pytest.mark.parametrize(
    ("mode", "seconds", "kind"),
    [("silent-load", 0.4, FailureKind.SETUP_TIMEOUT), ("load-broken", 60, FailureKind.ERROR)],
)
async def test_a_doubtful_restore_keeps_the_id(
    host: Host, tmp_path: Path, mode: str, seconds: float, kind: FailureKind
) -> None:
    wanted = await a_used_session(host, a_spec(tmp_path))
    doubtful = Host(tmp_path, timeouts=replace(PATIENT, open_session=seconds))
    with pytest.raises(AgentUnavailable) as unavailable:
        await doubtful.open(a_spec(tmp_path, mode), wanted)
    assert unavailable.value.failure.kind is kind
    assert not doubtful.left()
    opened = await host.open(a_spec(tmp_path), wanted)
    assert (opened.by, opened.acp_session_id) == (OpenedBy.RESUMED, wanted)


@pytest.mark.parametrize("mode", ["silent", "silent-new"])
async def test_a_set_up_call_that_is_never_answered_times_out(tmp_path: Path, mode: str) -> None:
    host = Host(tmp_path, timeouts=replace(PATIENT, initialize=0.6, open_session=0.4))
    with pytest.raises(AgentUnavailable) as unavailable:
        await host.open(a_spec(tmp_path, mode))
    assert unavailable.value.failure.kind is FailureKind.SETUP_TIMEOUT
    assert not host.left()


async def test_a_wish_for_a_login_names_the_ways(host: Host, tmp_path: Path) -> None:
    with pytest.raises(AgentRefused) as refused:
        await host.open(a_spec(tmp_path, "auth"))
    failure = refused.value.failure
    assert failure.kind is FailureKind.AUTH_REQUIRED
    assert failure.auth_methods == ("Log in with Example",)


@pytest.mark.parametrize("mode", ["not-acp", "version-99"])
async def test_what_is_no_acp_agent_is_refused(host: Host, tmp_path: Path, mode: str) -> None:
    with pytest.raises(AgentRefused) as refused:
        await host.open(a_spec(tmp_path, mode))
    assert refused.value.failure.kind is FailureKind.NOT_ACP
    assert not host.left()


async def test_options_are_set_after_a_new_session_and_a_refused_one_is_no_end(
    host: Host, tmp_path: Path
) -> None:
    options = {"model": "smart", "mode": "no-such"}
    await host.open(a_spec(tmp_path, "config-options", default_config_options=options))
    asked = [m["params"] for m in host.received() if m.get("method", "").endswith("config_option")]
    assert [(a["configId"], a["value"]) for a in asked] == [("model", "smart"), ("mode", "no-such")]
    assert end_of(await host.ask("[[say=hi]]")).kind is EndKind.COMPLETED


async def test_the_older_form_of_options_is_understood_and_set_by_its_own_requests(
    host: Host, tmp_path: Path
) -> None:
    opened = await host.open(a_spec(tmp_path, "older-options"))
    assert [option.option_id for option in opened.options] == ["model", "agent"]
    await host.agents.set_option(SESSION, "model", "smart")
    await host.agents.set_option(SESSION, "agent", "smart")
    assert [option.current for option in host.agents.options(SESSION)] == ["smart", "smart"]
    assert "chosen: mode=smart, model=smart" in text_of(await host.ask("[[chosen]]"))


async def test_a_deaf_agent_that_is_closed_in_a_hurry_is_gone_in_time(tmp_path: Path) -> None:
    host = Host(tmp_path, PATIENT)
    modes = ("deaf-to-cancel", "stay-on-eof", "ignore-sigterm", "setsid-child")
    await host.open(a_spec(tmp_path, *modes))
    asking = spawn("ask", host.ask("[[say=a]][[hang]]"))
    await host.until_received("session/prompt")
    async with asyncio.timeout(15):
        await host.agents.close(SESSION, within=2.5)
        assert not host.left()
    assert end_of(await asking).kind is EndKind.CANCELLED
    await host.agents.stop()


async def test_closing_while_opening_leaves_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path)
    spec = a_spec(tmp_path, "silent-new")
    opening = spawn("open", host.open(spec))
    await host.until_received("session/new")
    await host.agents.close(SESSION)
    with pytest.raises(AgentUnavailable):
        await opening
    assert not host.left()
    await host.agents.stop()


async def test_the_check_tells_who_it_is(tmp_path: Path) -> None:
    checked = await check_agent(a_spec(tmp_path, more=["--name", "Sol"]), PATIENT)
    assert (checked.failure, checked.agent_name, checked.agent_version) == (None, "Sol", "1.0")
    assert (checked.can_load, checked.can_resume) == (True, True)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"command": "no-such-agent"}, FailureKind.NOT_FOUND, "no-such-agent"),
        ({"command": str(openab.simulator.__file__)}, FailureKind.NOT_FOUND, "is no program"),
        ({"working_dir": "/no/such/folder"}, FailureKind.NOT_FOUND, "/no/such/folder"),
        ({"args": ("-c", "import sys; sys.exit('no key')")}, FailureKind.NOT_ACP, "code 1"),
        ({"args": ("-c", "print('hi'); input()")}, FailureKind.NOT_ACP, "`initialize`"),
        ({"args": ("-c", "import time; time.sleep(60)")}, FailureKind.SETUP_TIMEOUT, "initialize"),
    ],
)
async def test_the_check_tells_what_is_wrong(
    tmp_path: Path, change: dict[str, Any], kind: FailureKind, words: str
) -> None:
    spec = replace(a_spec(tmp_path), **change)
    hasty = replace(SHORT, initialize=0.6)
    checked = await check_agent(spec, hasty if kind is FailureKind.SETUP_TIMEOUT else PATIENT)
    assert checked.failure is not None
    assert checked.failure.kind is kind
    assert words in checked.failure.message


async def test_what_an_agent_says_before_it_dies_is_told(tmp_path: Path) -> None:
    spec = replace(a_spec(tmp_path), args=("-c", "import sys; sys.exit('no key')"))
    checked = await check_agent(spec, PATIENT)
    assert checked.failure is not None
    assert (checked.failure.exit_code, checked.failure.stderr_tail) == (1, "no key")
