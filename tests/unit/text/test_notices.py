"""Every notice says what happened, fits a message and is inert whatever it quotes."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.agent_events import AgentFailure, EndKind, FailureKind, HostNotice, PromptEnded
from openab.ports.workspaces import Fault
from openab.text import notices
from openab.text.fences import open_at_end
from openab.text.neutralize import live_mentions

QUOTING: list[Callable[[str], str]] = [
    notices.permission_not_yours,
    lambda text: notices.permission_asked(text, text),
    notices.cancelled_by,
    notices.cancelled_before_start,
    notices.cancelling,
    notices.not_yours_to_cancel,
    notices.thread_not_opened,
    notices.answer_undelivered,
    lambda text: notices.part_lost(2, 4, text),
]
outside = st.text(st.characters(exclude_categories=()), max_size=900) | st.lists(
    st.sampled_from(
        ["<@1", "23>", "@here", "\n", "```", "`", "\0", "\x1b[31m", "\r", "😀" * 200, "."]
    )
).map("".join)


def _check(notice: str) -> None:
    assert notice.strip()
    assert len(notice.encode("utf-16-le")) // 2 <= 1990
    assert live_mentions(notice) == []
    assert open_at_end(notice) is None
    assert "\x1b" not in notice


@given(outside)
def test_names_and_reasons_are_quoted_safely_on_one_line(text: str) -> None:
    for notice in QUOTING:
        said = notice(text)
        _check(said)
        assert len(said.splitlines()) == 1


@given(outside, outside, st.sampled_from(FailureKind))
def test_every_failure_has_a_safe_notice(message: str, stderr: str, kind: FailureKind) -> None:
    failure = AgentFailure(kind, message, -32000, 1, stderr, (message,) * 9)
    _check(notices.agent_failed(failure))


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (AgentFailure(FailureKind.NOT_FOUND, "no such file: `gemini`"), "no such file: 'gemini'"),
        (
            AgentFailure(FailureKind.NOT_CONFIGURED, "write [agents.luna] for it"),
            "write [agents.luna] for it, or `/unfocus`",
        ),
        (AgentFailure(FailureKind.NOT_ACP, "it said hello"), "does not speak ACP: it said hello."),
        (AgentFailure(FailureKind.SETUP_TIMEOUT, "30 s"), "did not answer"),
        (AgentFailure(FailureKind.AUTH_REQUIRED, "", auth_methods=("oauth",)), "offers: oauth."),
        (
            AgentFailure(FailureKind.ERROR, "quota", code=-32603),
            "**Internal Error** (code: -32603): quota.",
        ),
        (AgentFailure(FailureKind.ERROR, "no"), "**Error**: no. Ask again or change the request."),
        (AgentFailure(FailureKind.ERROR, "no", code=401), "Check the agent's login"),
        (AgentFailure(FailureKind.EXITED, "", exit_code=3), "(exit code 3)"),
        (AgentFailure(FailureKind.EXITED, "", exit_code=-9), "(signal 9)"),
        (AgentFailure(FailureKind.TRANSPORT, "closed"), "connection to the agent broke: closed."),
        (AgentFailure(FailureKind.HARD_TIMEOUT, "7200 s"), "too long"),
        (AgentFailure(FailureKind.OUTPUT_TOO_LARGE, "256 MiB"), "too large: 256 MiB"),
    ],
)
def test_a_failure_is_named_with_what_is_known(failure: AgentFailure, said: str) -> None:
    assert said in notices.agent_failed(failure)


def test_the_end_of_stderr_is_shown_in_a_block() -> None:
    stderr = "".join(f"\x1b[31mline {n}\x1b[0m\r\n" for n in range(20))
    notice = notices.agent_failed(AgentFailure(FailureKind.EXITED, "", stderr_tail=stderr))
    assert notice.endswith("line 18\nline 19\n```")
    assert "line 11" not in notice


def test_numbers_and_times_are_told() -> None:
    assert "behind 3" in notices.queued_behind(3)
    assert "in 5 minutes" in notices.host_notice(HostNotice("hard_timeout_near", 5))
    assert "in 1 minute " in notices.hard_timeout_near(1)
    assert "disk full" in notices.host_notice(HostNotice("disk_full"))
    assert "Part 2 of 4" in notices.part_lost(2, 4)
    assert "<t:1700000000:T>" in notices.waiting_for_discord(datetime.fromtimestamp(1.7e9, UTC))
    assert "Ann" in notices.cancelled_by("Ann")


def test_the_fixed_notices_are_messages_too() -> None:
    for notice in (
        notices.interrupted_by_restart(),
        notices.nothing_to_cancel(),
        notices.context_lost(),
        notices.no_response(),
        notices.no_tokens(),
        notices.delivery_unclear(),
    ):
        _check(notice)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (None, "without any text"),
        (PromptEnded(EndKind.COMPLETED, "end_turn"), "without any text"),
        (PromptEnded(EndKind.COMPLETED, "end_turn", output_tokens=7), "without any text"),
        (PromptEnded(EndKind.COMPLETED, "end_turn", output_tokens=0), "login or API key"),
        (PromptEnded(EndKind.COMPLETED, "refusal", output_tokens=0), "login or API key"),
        (PromptEnded(EndKind.COMPLETED, "refusal"), "refused"),
        (PromptEnded(EndKind.COMPLETED, "max_tokens", output_tokens=9), "token limit"),
        (PromptEnded(EndKind.COMPLETED, "max_turn_requests"), "requests for one turn"),
        (PromptEnded(EndKind.COMPLETED, "new_word"), "without any text"),
    ],
)
def test_an_empty_answer_is_diagnosed_by_its_end(end: PromptEnded | None, said: str) -> None:
    notice = notices.empty_answer(end)
    assert said in notice
    _check(notice)


@given(outside, outside, st.lists(outside, max_size=12))
def test_a_refused_workspace_is_quoted_safely(alias: str, detail: str, known: list[str]) -> None:
    for fault in (*Fault, "a word of tomorrow"):
        said = notices.workspace_refused(fault, alias, detail, known)
        told = notices.agent_failed(AgentFailure(FailureKind.WORKSPACE, said))
        _check(told)
        assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("files", "commits", "what"),
    [
        (1, 0, "1 uncommitted file of"),
        (2, 3, "2 uncommitted files and 3 commits found nowhere else"),
        (0, 1, "1 commit found nowhere else"),
        (0, 0, "what git will not remove"),
    ],
)
def test_what_was_left_is_counted(files: int, commits: int, what: str) -> None:
    said = notices.work_left(files, commits)
    _check(said)
    assert what.removesuffix(" of") in said
