"""A text's width is what a fixed-width font shows of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.text.columns import columns, padded


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("\uff71", 1),
        ("\uff21", 2),
        ("é", 1),
        ("e\u0301", 1),
        ("a\u200bb", 2),
        ("a\nb", 2),
        ("😀", 2),
        ("✌", 1),
        ("✌\ufe0f", 2),
        ("👍🏽", 2),
        ("👩\u200d👩\u200d👧", 2),
        ("🇩🇪", 2),
        ("\ufe0f", 0),
        ("🏽", 2),
        ("1\ufe0f\u20e3", 1),
    ],
)
def test_a_width_is_known(text: str, width: int) -> None:
    assert columns(text) == width


@given(st.text(st.characters(exclude_categories=())), st.integers(0, 60))
def test_padding_fills_exactly_and_takes_nothing_away(text: str, width: int) -> None:
    for align in ("left", "right", "center"):
        filled = padded(text, width, align)
        assert text in filled
        assert len(filled) - len(text) == max(0, width - columns(text))


def test_the_side_of_the_spaces_is_the_alignment() -> None:
    assert padded("日", 5) == "日   "
    assert padded("日", 5, "right") == "   日"
    assert padded("日", 5, "center") == " 日  "
