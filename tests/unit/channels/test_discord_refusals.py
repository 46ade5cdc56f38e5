"""Which of the port's errors each of Discord's answers becomes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.channels.discord.refusals import translate
from openab.domain.errors import Rejected, Transient, Unknown
from openab.ports.channel import ChannelBusy, ChannelRejected, DeliveryUnknown, Refusal

REFERENCE = {"message_reference": {"_errors": [{"code": "REPLIES_UNKNOWN_MESSAGE"}]}}


@pytest.mark.parametrize(
    ("status", "code", "refusal"),
    [
        (400, 160004, Refusal.THREAD_EXISTS),
        (404, 10008, Refusal.MESSAGE_GONE),
        (404, 10003, Refusal.CONVERSATION_GONE),
        (404, 10004, Refusal.CONVERSATION_GONE),
        (400, 50083, Refusal.ARCHIVED),
        (400, 160005, Refusal.LOCKED),
        (400, 160002, Refusal.REFERENCE_INVALID),
        (400, 30046, Refusal.EDIT_TOO_OLD),
        (403, 50001, Refusal.FORBIDDEN),
        (403, 50013, Refusal.FORBIDDEN),
        (403, 0, Refusal.FORBIDDEN),
        (400, 160006, Refusal.THREAD_LIMIT),
        (400, 30033, Refusal.THREAD_LIMIT),
        (400, 50006, Refusal.INVALID_BODY),
        (400, 50035, Refusal.INVALID_BODY),
        (400, 200000, Refusal.BLOCKED),
        (401, 0, Refusal.UNAUTHORIZED),
        (401, 50027, Refusal.UNAUTHORIZED),
        (403, 40333, Refusal.OTHER),
        (400, 50005, Refusal.OTHER),
        (404, 0, Refusal.OTHER),
    ],
)
def test_definite_refusals(status: int, code: int, refusal: Refusal) -> None:
    error = translate(status, {"code": code, "message": "no"})

    assert isinstance(error, ChannelRejected)
    assert (error.refusal, error.code) == (refusal, code)


def test_an_invalid_form_is_about_the_reference_only_if_it_says_so() -> None:
    error = translate(400, {"code": 50035, "errors": REFERENCE})

    assert isinstance(error, ChannelRejected)
    assert error.refusal is Refusal.REFERENCE_INVALID


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 520, 524])
def test_a_server_error_leaves_it_open(status: int) -> None:
    assert isinstance(translate(status, {"code": 50013}), DeliveryUnknown)


def test_a_write_limit_says_when() -> None:
    error = translate(400, {"code": 20016, "retry_after": 7.5})

    assert isinstance(error, ChannelBusy)
    assert error.retry_after == 7.5


@given(
    st.integers(300, 599),
    st.dictionaries(
        st.sampled_from(["code", "message", "errors", "retry_after"]),
        st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.booleans(),
    ),
)
def test_every_answer_has_one_of_three_outcomes(status: int, answer: dict[str, Any]) -> None:
    assert isinstance(translate(status, answer), Rejected | Transient | Unknown)
