"""Whether a session is definitely gone, as eight agents say it."""

import pytest

from openab.agents.acp.failures import Restore, RpcError, failure_of, restore_failure, words
from openab.agents.acp.stderr import TAIL_CHARACTERS, clean_tail
from openab.domain.agent_events import FailureKind

ID = "s-1"


@pytest.mark.parametrize(
    "error",
    [
        RpcError(-32002, "Resource not found"),
        RpcError(-32603, "Session not found: s-1"),
        RpcError(-32603, "Internal error", {"details": "NotFoundError"}),
        RpcError(
            -32603, "Internal error", {"details": "No conversation found with session ID s-1"}
        ),
        RpcError(-32603, "no rollout found for thread id s-1"),
        RpcError(-32603, "Internal error", {"details": 'Invalid session identifier "s-1".'}),
        RpcError(-32600, "unknown session s-1"),
        RpcError(-32600, "s-1 does not exist"),
        RpcError(400, "no such session"),
    ],
)
def test_a_session_that_is_said_to_be_absent_is_gone(error: RpcError) -> None:
    assert restore_failure(error, ID) is Restore.GONE


@pytest.mark.parametrize(
    "error",
    [
        RpcError(-32603, "Internal error"),
        RpcError(-32603, "Model not found: gpt-9", {"session": "s-1"}),
        RpcError(-32603, "Internal error", {"details": "ProviderModelNotFoundError"}),
        RpcError(-32603, "the model's server cannot be reached"),
        RpcError(-32603, "getaddrinfo ENOTFOUND: host not found while loading session"),
        RpcError(-32603, "process exited with code 1"),
        RpcError(-32603, "session s-1 is locked by another process"),
        RpcError(-32603, "database is locked"),
        RpcError(-32603, "file not found"),
        RpcError(429, "too many requests"),
    ],
)
def test_any_doubt_keeps_the_session(error: RpcError) -> None:
    assert restore_failure(error, ID) is Restore.DOUBT


def test_an_unknown_method_says_nothing_about_the_session() -> None:
    error = RpcError(-32601, "Method not found: session/resume")
    assert restore_failure(error, ID) is Restore.UNSUPPORTED


def test_a_wish_for_a_login_names_the_ways() -> None:
    failure = failure_of(RpcError(-32000, "Authentication required"), ("Log in",), "tail")
    assert (failure.kind, failure.auth_methods) == (FailureKind.AUTH_REQUIRED, ("Log in",))
    other = failure_of(RpcError(400, "Bad"), ("Log in",), "tail")
    assert (other.kind, other.code, other.auth_methods) == (FailureKind.ERROR, 400, ())


def test_the_detail_hidden_in_data_is_told() -> None:
    error = RpcError(-32603, "Internal error", {"details": "no credit"})
    assert words(error) == "Internal error: no credit"
    assert words(RpcError(-32603, "Internal error: no credit", "no credit")).count("no credit") == 1


@pytest.mark.parametrize(
    "data",
    [
        {"error": {"message": "no credit"}},
        {"data": {"error": {"message": "no credit", "type": "billing"}}},
        {"message": "", "details": "no credit"},
    ],
)
def test_the_words_of_a_model_provider_are_told_however_deep(data: object) -> None:
    assert words(RpcError(-32603, "Internal error", data)) == "Internal error: no credit"


def test_data_without_an_end_is_told_as_it_is() -> None:
    deep: dict[str, object] = {}
    for _ in range(9):
        deep = {"error": deep or {"code": 7}}
    assert words(RpcError(-32603, "Bad", deep)).startswith('Bad: {"error": {')


def test_last_words_are_short_and_printable() -> None:
    raw = b"old " * 5000 + b"\x1b[31mred\x1b[0m \x00\x07bell\r\nlast\ttab \xff"
    tail = clean_tail(raw)
    assert len(tail) <= TAIL_CHARACTERS
    assert tail.endswith("red bell\nlast\ttab \ufffd")
