"""Durations: what people type is what they read again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.durations import LONGEST, duration, spelled


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("24h", 86400),
        ("2d", 172800),
        ("1d12h", 129600),
        (" 1D 12H 5m 7s ", 129600 + 307),
        ("0m", 0),
        ("007m", 420),
        ("9999999d", 9999999 * 86400),
    ],
)
def test_what_it_says(text: str, seconds: int) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", " ", "m", "90", "-1m", "1.5h", "1h1d", "5m5m", "1w", "off", "٣m", "99999999d", "1d, 2h"],
)
def test_what_says_nothing(text: str) -> None:
    assert duration(text) is None


@given(st.integers(0, int(LONGEST.total_seconds())))
def test_what_is_spelled_is_read_as_the_same(seconds: int) -> None:
    span = timedelta(seconds=seconds)

    assert duration(spelled(span)) == span


@given(st.text(max_size=30) | st.from_regex(r"[0-9dhms ]{0,20}", fullmatch=True))
def test_any_text_is_a_duration_or_none(text: str) -> None:
    span = duration(text)

    assert span is None or span >= timedelta(0)
