"""Nothing that people or agents wrote acts on a terminal or breaks a line of JSON."""

import json
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.cli.printing import as_json, moment, print_table, safe

_ANYTHING = st.text(alphabet=st.characters(exclude_categories=()))


@given(_ANYTHING)
def test_shown_text_can_be_encoded_and_holds_nothing_that_acts(text: str) -> None:
    shown = safe(text)

    shown.encode()
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Zl", "Zp", "Cs"}


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert safe(text) == text


def test_controls_are_written_out() -> None:
    assert safe("a\x1b[2J\n\u202e\U000e0001\ud800") == "a\\x1b[2J\\x0a\\u202e\\U000e0001\ufffd"


@given(st.dictionaries(_ANYTHING, _ANYTHING))
def test_json_is_one_line_of_ascii_that_reads_back_sound(values: dict[str, str]) -> None:
    line = as_json(values)

    assert line.isascii()
    assert "\n" not in line
    for text in (*json.loads(line).keys(), *json.loads(line).values()):
        text.encode()


def test_moments_are_utc() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    assert moment(at) == "2026-01-02 03:04:05"
    assert moment(None) == ""
    assert as_json([at]) == '["2026-01-02T03:04:05+00:00"]'


def test_a_table_reads_nobodys_text_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("[bold]x[/bold]", "y" * 300)])

    shown = capsys.readouterr().out
    assert "[bold]x[/bold]" in shown
    assert "y" * 300 in shown
