"""Lines of an agent's stdout that the SDK would not survive."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.agents.acp.wire import parse, request_number, sendable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
MESSAGES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "method", "params", "result", "error", "_meta"), JSON)
)


@pytest.mark.parametrize(
    "line",
    [b"", b"null", b"42", b'"text"', b"[1, 2]", b"Welcome!", b"\xff\xfe", b"{", b"[" * 100_000],
)
def test_what_is_no_object_is_noise(line: bytes) -> None:
    assert parse(line) is None


@given(st.binary())
def test_no_bytes_are_too_odd(line: bytes) -> None:
    parsed = parse(line)
    assert parsed is None or isinstance(parsed, dict)


@given(MESSAGES)
def test_every_message_is_in_a_shape_that_the_sdk_survives(message: dict[str, Any]) -> None:
    parsed = parse(json.dumps(message).encode())
    if parsed is None:
        return
    assert "_meta" not in parsed
    if "method" in parsed:
        assert isinstance(parsed["method"], str)
        assert isinstance(parsed["params"], dict)
        assert "_meta" not in parsed["params"]
    else:
        assert type(parsed["id"]) is int
        error = parsed.get("error")
        assert error is None or (type(error["code"]) is int and isinstance(error["message"], str))
        assert ("error" in parsed) != ("result" in parsed)


@pytest.mark.parametrize(
    ("written", "number"),
    [(3, 3), ("3", 3), (3.0, 3), (3.5, None), ("x", None), (True, None), ([3], None), (None, None)],
)
def test_our_ids_are_recognised_however_they_are_written(
    written: object, number: int | None
) -> None:
    assert request_number(written) == number


def test_an_error_that_is_no_object_becomes_one() -> None:
    parsed = parse(b'{"id": 1, "error": "boom"}')
    assert parsed == {"id": 1, "error": {"code": -32603, "message": "boom"}}


def test_one_bad_byte_does_not_cost_the_line() -> None:
    parsed = parse(b'{"method": "m", "params": {"text": "a\xffb"}}')
    assert parsed == {"method": "m", "params": {"text": "a\ufffdb"}}


@given(st.text())
def test_ordinary_text_is_sent_as_it_is(text: str) -> None:
    assert sendable(text) == text


def test_a_lone_surrogate_is_replaced() -> None:
    assert sendable("a\ud83db") == "a\ufffdb"
    assert sendable("\ud83d\ude00") == "\U0001f600"
