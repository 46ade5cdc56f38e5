"""Processes: what an agent gets, and that nothing of it is left."""

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from openab.agents.acp.opening import Opening
from openab.agents.acp.process import AgentProcess
from openab.agents.acp.process_tree import OWNER_VARIABLE, reap_leftovers
from openab.agents.host.check import check_agent
from openab.domain.agent_events import TextDelta
from openab.domain.ids import AccountId, Incarnation
from openab.ports.agent import PromptLost
from openab.ports.tasks import spawn
from tests.integration.acp_host import SESSION, SHORT, Host, a_spec, family, mark_of, text_of


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    made = Host(tmp_path)
    yield made
    await made.agents.stop()


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[Host]:
    """A host that does not wait long for an agent that will not end."""
    made = Host(tmp_path, SHORT)
    yield made
    await made.agents.stop()


async def test_the_agent_gets_the_given_environment_and_the_marks_only(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "secret")
    await host.open(a_spec(tmp_path, env={"PATH": os.defpath, "KEY": "value"}))
    env = host.agent().environ()
    assert env[OWNER_VARIABLE] == f"db:1:{host.incarnation}"
    assert (
        {"KEY", "PATH"} <= set(env) <= {"KEY", "PATH", OWNER_VARIABLE, "OPENAB_AGENT", "LC_CTYPE"}
    )


async def test_the_agent_leads_a_session_of_its_own(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path))
    pid = host.agent().pid
    assert os.getsid(pid) == os.getpgid(pid) == pid


@pytest.mark.parametrize("modes", [[], ["stay-on-eof"], ["stay-on-eof", "ignore-sigterm"]])
async def test_closing_ends_every_descendant(hasty: Host, tmp_path: Path, modes: list[str]) -> None:
    await hasty.open(a_spec(tmp_path, "setsid-child", *modes))
    mark = mark_of(hasty.agent())
    assert "child" in text_of(await hasty.ask("[[say=x]]"))
    assert len(family(mark)) == 2
    await hasty.agents.close(SESSION)
    assert not family(mark)


async def test_a_grandchild_is_out_of_reach_of_the_agents_group(host: Host, tmp_path: Path) -> None:
    """The negative control of the test above: a signal to the group would miss it."""
    await host.open(a_spec(tmp_path))
    agent = host.agent().pid
    child = int(text_of(await host.ask("[[child]]")).split()[1])
    assert os.getpgid(child) != agent
    assert os.getsid(child) != agent


async def test_a_clean_goodbye_closes_the_session_and_stdin_first(
    host: Host, tmp_path: Path
) -> None:
    await host.open(a_spec(tmp_path))
    await host.ask("[[say=x]]")
    await host.agents.close(SESSION)
    assert host.received()[-1]["method"] == "session/close"
    assert '"event": "eof"' in (tmp_path / "log").read_text().splitlines()[-1]


async def test_stopping_in_mid_turn_gives_no_outcome(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path))
    mark = mark_of(host.agent())
    turn = await host.prompt("[[say=half]][[hang]]")
    await host.until(turn, lambda event: isinstance(event, TextDelta))
    await host.agents.stop()
    assert not family(mark)
    with pytest.raises(PromptLost):
        await host.told(turn)
    with pytest.raises(PromptLost):
        await host.prompt("[[say=x]]")


STUBBORN = ("stay-on-eof", "ignore-sigterm")


def reached(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> asyncio.Event:
    """Set when this method of this class has begun."""
    original, begun = getattr(owner, method), asyncio.Event()

    async def tell(*given: Any, **named: Any) -> Any:
        begun.set()
        return await original(*given, **named)

    monkeypatch.setattr(owner, method, tell)
    return begun


async def cut_twice(task: "asyncio.Task[Any]") -> None:
    """Cancel it, and again while it tidies up."""
    for _ in range(2):
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("owner", "method", "modes"),
    [
        (AgentProcess, "start", STUBBORN),
        (Opening, "initialize", (*STUBBORN, "silent")),
        (AgentProcess, "end", STUBBORN),
    ],
    ids=["starting", "greeting", "ending"],
)
async def test_a_check_that_is_cancelled_at_any_moment_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, modes: Any
) -> None:
    host = Host(tmp_path)
    begun = reached(monkeypatch, owner, method)
    checking = spawn(
        "check", check_agent(a_spec(tmp_path, *modes), SHORT, markers=host.agents.markers)
    )
    await begun.wait()
    await cut_twice(checking)
    assert not host.left()


@pytest.mark.parametrize("method", ["initialize", "session"])
async def test_an_opening_that_is_cancelled_twice_leaves_nothing(
    hasty: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    begun = reached(monkeypatch, Opening, method)
    opening = spawn("open", hasty.open(a_spec(tmp_path, *STUBBORN, "silent-new")))
    await begun.wait()
    await cut_twice(opening)
    await hasty.agents.stop()
    assert not hasty.left()


async def test_a_goodbye_that_is_cancelled_is_said_to_its_end(hasty: Host, tmp_path: Path) -> None:
    await hasty.open(a_spec(tmp_path, *STUBBORN, "deaf-to-cancel"))
    await hasty.prompt("[[say=half]][[hang]]")
    closing = spawn("close", hasty.agents.close(SESSION))
    await hasty.until_received("session/cancel")
    await cut_twice(closing)
    assert not hasty.left()


async def test_a_crashed_hosts_leftovers_are_ended_only_if_it_is_proved_dead(
    tmp_path: Path,
) -> None:
    """Also without PR_SET_PDEATHSIG: the leftover here has no parent that dies."""
    database = uuid.uuid4().hex
    env = {"PATH": os.defpath, OWNER_VARIABLE: f"{database}:1:crashed:life"}
    arguments = ["sleep", "600"]
    with subprocess.Popen(arguments, env=env, start_new_session=True) as leftover:  # noqa: ASYNC220 - nobody else runs on this loop
        asked: list[str] = []

        def is_dead(incarnation: Incarnation) -> bool:
            asked.append(incarnation)
            return incarnation == "crashed:life"

        reap = reap_leftovers
        assert await asyncio.to_thread(reap, database, AccountId("1"), lambda _: False) == 0
        assert await asyncio.to_thread(reap, database, AccountId("2"), is_dead) == 0
        assert await asyncio.to_thread(reap, "other", AccountId("1"), is_dead) == 0
        assert leftover.poll() is None
        assert await asyncio.to_thread(reap, database, AccountId("1"), is_dead) == 1
        assert asked == ["crashed:life"]
        assert leftover.wait(60) == -signal.SIGTERM


async def test_an_agent_dies_with_a_host_that_is_killed(tmp_path: Path) -> None:
    """The agent here ignores the end of its stdin, so only PR_SET_PDEATHSIG can end it."""
    with subprocess.Popen(  # noqa: ASYNC220 - nobody else runs on this loop
        [sys.executable, "-m", "tests.integration.acp_orphan", tmp_path],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as broker:
        assert broker.stdout is not None
        said = await asyncio.to_thread(next, (x for x in broker.stdout if x.startswith(b"pid ")))
        agent = psutil.Process(int(said.split()[1]))
        broker.kill()
        gone, _ = await asyncio.to_thread(psutil.wait_procs, [agent], 60)
    assert gone
