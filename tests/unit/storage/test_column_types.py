"""Column types: what goes in comes out, on paper and without a database."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from openab.domain.turn import Outcome
from openab.storage.types import JsonDocument, RawText, UtcDateTime, one_of

_DIALECT = sqlite.dialect()
_any_text = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF, categories=None))
_zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
_moments = st.datetimes(datetime(1900, 1, 1), datetime(9000, 1, 1), timezones=_zones)  # noqa: DTZ001 - bounds are naive by contract
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _any_text,
    lambda inner: st.lists(inner) | st.dictionaries(_any_text, inner),
)


def round_trip(column_type: Any, value: Any) -> Any:
    stored = column_type.process_bind_param(value, _DIALECT)
    return column_type.process_result_value(stored, _DIALECT)


@given(_any_text)
def test_any_text_comes_back(text: str) -> None:
    assert round_trip(RawText(), text) == text


@given(_moments)
def test_a_moment_comes_back_in_utc(moment: datetime) -> None:
    back = round_trip(UtcDateTime(), moment)
    assert back == moment
    assert back.tzinfo is UTC


@given(_moments, _moments)
def test_stored_moments_sort_as_moments_do(one: datetime, two: datetime) -> None:
    column_type = UtcDateTime()
    first = column_type.process_bind_param(one, _DIALECT)
    second = column_type.process_bind_param(two, _DIALECT)
    assert first is not None
    assert second is not None
    assert (first < second) == (one < two)


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        round_trip(UtcDateTime(), datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake


@given(_json)
def test_a_json_value_comes_back_and_is_stored_as_ascii(value: Any) -> None:
    stored = JsonDocument().process_bind_param(value, _DIALECT)
    assert stored is None or (stored.isascii() and "\0" not in stored)
    assert round_trip(JsonDocument(), value) == value


@pytest.mark.parametrize("column_type", [RawText(), UtcDateTime(), JsonDocument()])
def test_nothing_stays_nothing(column_type: Any) -> None:
    assert round_trip(column_type, None) is None


def test_a_check_names_every_value_of_its_enum() -> None:
    text = str(one_of("outcome", Outcome, nullable=True).sqltext)
    assert text.startswith("outcome IS NULL OR outcome IN (")
    assert all(f"'{each.value}'" in text for each in Outcome)
