"""Lengths as Discord may count them, and cuts between what people see as characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.text import measure


@given(st.text(), st.integers(0, 50))
def test_fit_takes_as_much_as_there_is_room_for(text: str, room: int) -> None:
    stop = measure.fit(text, 0, len(text), room)
    assert measure.units(text[:stop]) <= room
    assert stop == len(text) or measure.units(text[: stop + 1]) > room


@given(st.text(), st.integers(0, 50))
def test_fit_back_takes_as_much_of_the_end_as_there_is_room_for(text: str, room: int) -> None:
    start = measure.fit_back(text, room)
    assert measure.units(text[start:]) <= room
    assert start == 0 or measure.units(text[start - 1 :]) > room


@given(st.text())
def test_units_are_utf16_units(text: str) -> None:
    assert measure.units(text) == len(text.encode("utf-16-le")) // 2


@pytest.mark.parametrize("character", ["é", "👩\u200d👩\u200d👧", "👍🏽", "🇩🇪", "❤\ufe0f", "\r\n"])
def test_no_cut_inside_a_character(character: str) -> None:
    text = f"ab{character}"
    for index in range(3, len(text)):
        assert measure.splits_character(text, index)
        assert measure.whole_characters(text, 0, index) == 2


def test_the_ends_of_a_text_are_always_good_places() -> None:
    assert not measure.splits_character("\u0301", 0)
    assert not measure.splits_character("\r\n", 2)


def test_two_flags_may_be_separated() -> None:
    assert measure.whole_characters("🇩🇪🇫🇷", 0, 3) == 2


def test_a_pile_of_marks_is_cut_rather_than_kept_for_ever() -> None:
    text = "a" + "\u0301" * 500
    assert measure.whole_characters(text, 0, 300) == 300


def test_shorten_marks_what_it_cut() -> None:
    assert measure.shorten("abc", 3) == "abc"
    assert measure.shorten("abcd", 3) == "ab…"
    assert measure.shorten("ab😀😀", 4) == "ab…"
