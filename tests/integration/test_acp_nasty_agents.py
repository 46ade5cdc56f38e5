"""Agents that misbehave on the wire, over real pipes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from openab.agents.limits import Sizes
from openab.domain.agent_events import (
    AgentEvent,
    EndKind,
    FailureKind,
    HostNotice,
    PermissionAsked,
    PlanChanged,
    TextDelta,
)
from openab.ports.agent import Liveness, OpenedBy
from tests.integration.acp_host import (
    PATIENT,
    SESSION,
    SHORT,
    Host,
    a_spec,
    end_of,
    failure_of,
    family,
    mark_of,
    text_of,
)

OK = "[[say=all is well]]"


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    made = Host(tmp_path)
    yield made
    await made.agents.stop()


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[Host]:
    """A host that does not wait long for an agent that does not answer."""
    made = Host(tmp_path, SHORT)
    yield made
    await made.agents.stop()


def is_text(event: AgentEvent) -> bool:
    return isinstance(event, TextDelta)


@pytest.mark.parametrize(
    "mode",
    ["noise", "string-ids", "list-ids", "unknown-updates", "meta", "loud-stderr", "no-newline"],
)
async def test_a_turn_survives(host: Host, tmp_path: Path, mode: str) -> None:
    await host.open(a_spec(tmp_path, mode))
    told = await host.ask(OK)
    assert text_of(told) == "all is well"
    assert end_of(told).kind is EndKind.COMPLETED
    if mode != "no-newline":
        assert text_of(await host.ask(OK)) == "all is well"


async def test_what_can_be_understood_of_odd_updates_is_told(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path, "unknown-updates"))
    plans = [event for event in await host.ask(OK) if isinstance(event, PlanChanged)]
    assert [entry.content for entry in plans[0].entries] == ["real"]


async def test_an_unknown_stop_reason_ends_the_turn(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path, "unknown-stop"))
    end = end_of(await host.ask(OK))
    assert (end.kind, end.stop_reason) == (EndKind.COMPLETED, "because")


async def test_an_error_that_is_no_object_ends_the_turn(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path, "string-error"))
    failure = failure_of(await host.ask("[[fail=400:x]]"))
    assert (failure.kind, failure.message) == (FailureKind.ERROR, "boom")


async def test_any_error_code_is_told(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path))
    assert failure_of(await host.ask("[[fail=400:bad request]]")).code == 400


async def test_requests_that_we_do_not_serve_are_refused_and_the_turn_goes_on(
    host: Host, tmp_path: Path
) -> None:
    await host.open(a_spec(tmp_path, "unknown-requests"))
    said = text_of(await host.ask(OK))
    assert said.count("-32601") == 4
    assert said.endswith("all is well")


async def test_a_line_of_20_mb_arrives_whole(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path, "big-line"))
    assert len(text_of(await host.ask(OK))) == 20_000_000 + len("all is well")


async def test_a_line_over_the_cap_is_dropped_and_the_turn_goes_on(tmp_path: Path) -> None:
    host = Host(tmp_path, sizes=Sizes(line=1_000_000))
    await host.open(a_spec(tmp_path, "big-line"))
    assert text_of(await host.ask(OK)) == "all is well"
    await host.agents.stop()


async def test_200_000_chunks_arrive_in_order_and_are_joined(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path))
    turn = await host.prompt("[[flood=200000]]")
    await host.idle()
    told = await host.told(turn)
    assert text_of(told).split() == [str(n) for n in range(200_000)]
    assert len(told) < 100


async def test_late_text_belongs_to_the_turn(tmp_path: Path) -> None:
    host = Host(tmp_path, replace(PATIENT, late_text=1.5))
    await host.open(a_spec(tmp_path, "late-update"))
    assert text_of(await host.ask(OK)) == "all is well and one more thing"
    await host.agents.stop()


async def test_text_before_the_session_exists_is_not_in_a_turn(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path, "early-update"))
    assert text_of(await host.ask(OK)) == "all is well"


async def test_an_exit_is_told_with_its_code_and_last_words(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path))
    told = await host.ask("[[say=half]][[stderr=out of \x1b[31mcheese]][[exit=3]]")
    failure = failure_of(told)
    assert text_of(told) == "half"
    assert (failure.kind, failure.exit_code) == (FailureKind.EXITED, 3)
    assert failure.stderr_tail == "out of cheese\nscripted exit 3"


async def test_a_crash_is_told_with_its_signal(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path))
    assert failure_of(await host.ask("[[say=half]][[crash]]")).exit_code == -9


async def test_an_exit_is_noticed_though_a_grandchild_holds_the_pipes(
    hasty: Host, tmp_path: Path
) -> None:
    await hasty.open(a_spec(tmp_path))
    mark = mark_of(hasty.agent())
    told = await hasty.ask("[[child]][[say=half]][[crash]]")
    assert text_of(told).endswith("half")
    assert failure_of(told).kind is FailureKind.EXITED
    assert not family(mark)


async def test_death_in_the_middle_of_a_line(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path, "half-line"))
    told = await host.ask(OK)
    assert text_of(told) == "half "
    assert failure_of(told).kind is FailureKind.EXITED


async def test_a_dead_agent_is_never_used_again_and_its_session_comes_back(
    host: Host, tmp_path: Path
) -> None:
    spec = a_spec(tmp_path)
    opened = await host.open(spec)
    await host.ask("remember the cat [[say=yes]]")
    await host.ask("[[crash]]")
    assert host.agents.status(SESSION).liveness is Liveness.ABSENT
    assert failure_of(await host.ask(OK)).kind is FailureKind.TRANSPORT
    again = await host.open(spec, opened.acp_session_id)
    assert (again.acp_session_id, again.context_lost) == (opened.acp_session_id, False)
    assert "remember the cat" in text_of(await host.ask("[[recall]]"))


async def test_an_agent_that_stops_reading_cannot_hang_us(hasty: Host, tmp_path: Path) -> None:
    await hasty.open(a_spec(tmp_path, "deaf"))
    assert text_of(await hasty.ask(OK)) == "all is well"
    failure = failure_of(await hasty.ask("x" * 1_000_000))
    assert failure.kind is FailureKind.TRANSPORT
    assert hasty.agents.status(SESSION).liveness is Liveness.ABSENT


async def test_silence_does_not_end_a_turn_but_cancel_does(hasty: Host, tmp_path: Path) -> None:
    await hasty.open(a_spec(tmp_path, "silent-retry"))
    turn = await hasty.prompt(OK)
    await asyncio.sleep(2 * max(SHORT.cancel, SHORT.write, SHORT.settle))  # past every time-out
    assert hasty.agents.status(SESSION).liveness is Liveness.PROMPTING
    await hasty.agents.cancel(SESSION, turn)
    assert end_of(await hasty.told(turn)).kind is EndKind.CANCELLED


async def test_an_agent_deaf_to_cancel_is_ended(hasty: Host, tmp_path: Path) -> None:
    await hasty.open(a_spec(tmp_path, "deaf-to-cancel"))
    mark = mark_of(hasty.agent())
    turn = await hasty.prompt("[[say=half]][[hang]]")
    await hasty.until(turn, is_text)
    await hasty.agents.cancel(SESSION, turn)
    told = await hasty.told(turn)
    assert text_of(told) == "half"
    assert end_of(told).kind is EndKind.CANCELLED
    assert not family(mark)


async def test_an_agent_that_breaks_over_a_cancel_is_not_used_again(
    host: Host, tmp_path: Path
) -> None:
    spec = a_spec(tmp_path, "cancel-breaks")
    opened = await host.open(spec)
    mark = mark_of(host.agent())
    turn = await host.prompt("[[say=half]] [[hang]]")
    await host.until(turn, is_text)
    await host.agents.cancel(SESSION, turn)
    assert end_of(await host.told(turn)).kind is EndKind.CANCELLED
    assert not family(mark)
    again = await host.open(spec, opened.acp_session_id)
    assert again.by is OpenedBy.RESUMED
    assert text_of(await host.ask(OK)) == "all is well"


async def test_cancel_answers_the_question_that_the_agent_waits_for(
    host: Host, tmp_path: Path
) -> None:
    spec = a_spec(tmp_path, "cancel-needs-answer", permission_mode="ask")
    await host.open(spec)
    pid = host.agent().pid
    turn = await host.prompt("[[permission=execute:rm -rf]]")
    await host.until(turn, lambda event: isinstance(event, PermissionAsked))
    await host.agents.cancel(SESSION, turn)
    assert end_of(await host.told(turn)).kind is EndKind.CANCELLED
    assert host.agent().pid == pid


async def test_an_idle_agent_gets_no_cancel(host: Host, tmp_path: Path) -> None:
    await host.open(a_spec(tmp_path, "cancel-poison"))
    turn = await host.prompt(OK)
    await host.told(turn)
    await host.agents.cancel(SESSION, turn)
    assert text_of(await host.ask(OK)) == "all is well"
    assert "session/cancel" not in [message.get("method") for message in host.received()]


async def test_the_hard_time_out_is_announced_and_ends_the_agent(tmp_path: Path) -> None:
    host = Host(tmp_path, timeouts=replace(PATIENT, hard_notice=0.5))
    await host.open(a_spec(tmp_path, hard_timeout_seconds=0.8))
    mark = mark_of(host.agent())
    told = await host.ask("[[say=half]][[hang]]")
    assert [event for event in told if isinstance(event, HostNotice)]
    assert failure_of(told).kind is FailureKind.HARD_TIMEOUT
    assert not family(mark)
    await host.agents.stop()


async def test_a_turn_without_a_hard_time_out_near_is_not_warned(tmp_path: Path) -> None:
    host = Host(tmp_path)
    await host.open(a_spec(tmp_path))
    assert not [e for e in await host.ask("[[wait=0.2]]") if isinstance(e, HostNotice)]
    await host.agents.stop()


async def test_too_much_output_ends_the_turn_with_what_came(tmp_path: Path) -> None:
    host = Host(tmp_path, sizes=Sizes(journal=100_000))
    await host.open(a_spec(tmp_path))
    told = await host.ask("[[flood=1000000]]")
    assert failure_of(told).kind is FailureKind.OUTPUT_TOO_LARGE
    assert text_of(told).startswith("0 1 2 3 ")
    await host.agents.stop()
