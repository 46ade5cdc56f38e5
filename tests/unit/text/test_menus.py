"""Menus: 25 a page, what is chosen first, every text within Discord's limits, every pick finds its choice."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.options import Choice, Option
from openab.domain.outbound import Menu
from openab.text.menus import (
    menu,
    named,
    of_category,
    option_of,
    page_of,
    picked,
)

anything = st.text(st.characters(exclude_categories=()), max_size=30) | st.sampled_from(
    ["", " ", "\0", "😀" * 120, "x" * 140, "a:b", "\ud83d", "~", "\u200b"]
)
options = st.builds(
    Option,
    anything,
    anything,
    anything,
    st.lists(st.builds(Choice, anything, anything, anything), max_size=80).map(tuple),
    st.none() | anything,
)


def _models(number: int, current: str | None = None) -> Option:
    choices = tuple(Choice(f"m{n}", f"Model {n}", "d" * 140) for n in range(number))
    return Option("model", "Model", "model", choices, current)


def _pages(option: Option) -> list[Menu]:
    found: list[Menu] = []
    for page in count():
        shown = menu(option, page)
        if shown is None or shown.page != page:
            return found
        found.append(shown)
    return found


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(options)
def test_every_page_is_one_that_discord_takes(option: Option) -> None:
    for shown in _pages(option):
        assert 1 <= len(shown.items) <= 25
        assert _units(shown.placeholder) <= 150
        assert len({item.value for item in shown.items}) == len(shown.items)
        for text in (shown.custom_id, *(button.custom_id for button in shown.turners)):
            assert _units(text) <= 100
        for item in shown.items:
            assert 1 <= _units(item.value) <= 100
            assert 1 <= _units(item.label) <= 100
            assert item.label.strip()
            assert _units(item.description) <= 100


@given(options)
def test_every_choice_stands_once_and_is_found_again(option: Option) -> None:
    items = [item for page in _pages(option) for item in page.items]
    found = [picked(option, item.value) for item in items]
    assert {choice.value for choice in found if choice} == {each.value for each in option.choices}
    assert len(items) == len({each.value for each in option.choices})


@given(options)
def test_the_ids_lead_back_to_their_option(option: Option) -> None:
    other = Option("another", "", "another category", ())
    for shown in _pages(option):
        assert option_of([other, option], shown.custom_id.removeprefix("openab:config:")) == option
        for button in shown.turners:
            turned = page_of(button.custom_id.removeprefix("openab:page:"))
            assert turned is not None
            assert of_category([other, option], turned[0]) == option
            assert turned[1] in (shown.page - 1, shown.page + 1)


def test_thirty_models_are_two_pages_with_the_current_one_first() -> None:
    first, second = _pages(_models(30, "m27"))
    assert (len(first.items), len(second.items)) == (25, 5)
    assert first.items[0].value == "m27"
    assert [item.is_current for item in first.items] == [True] + [False] * 24
    assert [item.value for item in first.items[1:3]] == ["m0", "m1"]
    assert not any(item.is_current for item in second.items)
    assert first.custom_id == "openab:config:model"
    assert [(each.label, each.custom_id) for each in first.turners] == [
        ("▶", "openab:page:model:1")
    ]
    assert [(each.label, each.custom_id) for each in second.turners] == [
        ("◀", "openab:page:model:0")
    ]
    assert first.placeholder == "Model (1/2)"


def test_twenty_six_agents_need_a_second_page_and_twenty_five_do_not() -> None:
    assert [len(page.items) for page in _pages(_models(26))] == [25, 1]
    (only,) = _pages(_models(25))
    assert only.turners == ()
    assert only.placeholder == "Model"


def test_a_long_description_is_cut_visibly() -> None:
    shown = menu(_models(1))
    assert shown is not None
    assert shown.items[0].description == "d" * 99 + "…"


def test_a_page_beyond_the_end_is_the_last_and_one_before_the_start_the_first() -> None:
    for page, nearest in ((9, 1), (-3, 0)):
        shown = menu(_models(30), page)
        assert shown is not None
        assert shown.page == nearest


def test_an_option_without_choices_has_no_menu() -> None:
    assert menu(_models(0)) is None


def test_a_value_that_is_gone_is_not_picked() -> None:
    assert picked(_models(3), "m9") is None
    assert option_of([_models(3)], "mode") is None
    assert of_category([_models(3)], "mode") is None


@pytest.mark.parametrize(
    "argument", ["", "model", "model:", ":1", "model:x", "model:-1", "m:1" + "0" * 9, "m:\u0661"]
)
def test_a_foreign_page_is_none(argument: str) -> None:
    assert page_of(argument) is None


def test_a_category_may_hold_colons() -> None:
    assert page_of("a:b:3") == ("a:b", 3)


def test_a_typed_choice_is_found_by_value_name_or_beginning() -> None:
    choices = (Choice("gpt-5", "GPT 5"), Choice("gpt-5-mini", "Mini"), Choice("opus", "Opus 4"))
    option = Option("model", "Model", "model", choices)
    for typed, value in (("gpt-5", "gpt-5"), (" MINI ", "gpt-5-mini"), ("op", "opus")):
        found = named(option, typed)
        assert found is not None
        assert found.value == value
    assert named(option, "gpt") is None
    assert named(option, " ") is None
    assert named(Option("o", "", "", (Choice("a"),)), "") is None
    assert named(option, "nothing") is None
