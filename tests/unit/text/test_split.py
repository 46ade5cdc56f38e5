"""Splitting loses nothing, keeps every limit, leaves no fence open and makes no mention."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openab.text.fences import open_at_end
from openab.text.neutralize import live_mentions, neutralize
from openab.text.split import MESSAGE_LIMIT, Part, join, split, split_parts

LIMIT = 240

_pieces = st.sampled_from(
    [
        "word ", "\n", "\n\n", "\r\n", "```python\n", "```\n", "```", "~~~\n", "````md\n", "  ```js\n",
        "    indented\n", "``` a ` b\n", "x" * 90, "x" * 400, " " * 300, "\n" * 300, "😀" * 70, "e\u0301",
        "👩\u200d👩\u200d👧", "🇩🇪🇫🇷", "<@1", "23>", "<", "@everyone", "@he", "re", "\0", "\ud83d", "\ude00",
        "```" + "i" * 300 + "\n", "`" * 250, "~" * 500, "| a | b |\n",
    ]
)  # fmt: skip
documents = st.lists(_pieces, max_size=60).map("".join) | st.text(
    st.characters(exclude_categories=()), max_size=1500
)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _check(text: str, parts: list[Part], limit: int = LIMIT) -> None:
    for part in parts:
        assert len(part.content) <= limit
        assert _units(part.content) <= limit
        assert part.content.strip()
        assert part.content == part.prefix + part.text + part.suffix
        assert not (part.lead + part.trail).strip()
        assert open_at_end(part.content) is None
        assert live_mentions(part.content) == []
    whole = neutralize(text)
    assert join(parts) == (whole if whole.strip() else "")


@settings(max_examples=600)
@given(documents)
@example("```" + "a" * 500 + "\nx\n```")
@example("~~~ " + "a ~~~" * 100)
@example("``` " + "b " * 150 + "` c\nplain " * 40)
@example("\u0301" * 2000)
@example("```\n" + "\n" * 2000 + "x")
@example("`" * 3000)
def test_parts_are_valid_messages_and_join_to_the_text(text: str) -> None:
    _check(text, split_parts(text, LIMIT))


@given(documents, st.integers(200, 239))
def test_the_first_part_leaves_room(text: str, room: int) -> None:
    parts = split_parts(text, LIMIT, room)
    _check(text, parts)
    assert all(_units(part.content) <= room for part in parts[:1])


@given(st.text("ab \n", max_size=MESSAGE_LIMIT))
def test_a_short_text_is_one_message_and_stays_as_it_is(text: str) -> None:
    assert split(text) == ([text.strip()] if text.strip() else [])


def _cuts_in_code(parts: list[str], opener: str) -> None:
    assert len(parts) > 1
    for part in parts:
        assert part.startswith(f"{opener}\n")
        assert part.endswith("\n" + opener.rstrip("abcdefghijklmnopqrstuvwxyz"))


@pytest.mark.parametrize("opener", ["```python", "~~~", "`````md"])
def test_a_block_is_closed_and_opened_again_with_its_info_string(opener: str) -> None:
    mark = opener.rstrip("abcdefghijklmnopqrstuvwxyz")
    text = f"{opener}\n" + "some code here\n" * 300 + mark
    _cuts_in_code(split(text), opener)


def test_a_block_left_open_is_closed_at_the_end() -> None:
    assert split("look:\n```py\nprint()") == ["look:\n```py\nprint()\n```"]


def test_the_last_closing_line_never_stands_in_a_part_of_its_own() -> None:
    for length in range(1900, 2010):
        text = "```\n" + "x" * (length - 9) + "\ny\n```\nafter"
        assert "```\n```" not in "".join(split(text))
        _check(text, split_parts(text), MESSAGE_LIMIT)


def test_a_cut_stands_at_a_line_end_outside_code_where_there_is_one() -> None:
    text = "a line of text\n" * 120 + "```\n" + "code\n" * 60 + "```\nthe end"
    first = split(text)[0]
    assert first == ("a line of text\n" * 120).strip()


@given(
    st.integers(0, 2**32), st.sampled_from(["word ", "x", "line of text\n", "```py\ncode\n```\n"])
)
@settings(max_examples=60)
def test_six_thousand_characters_need_four_parts_at_most(seed: int, unit: str) -> None:
    text = (unit * 6000)[seed % len(unit) :][:6000]
    for first_room in (MESSAGE_LIMIT, MESSAGE_LIMIT - 23):
        assert len(split(text, first_room=first_room)) <= 4
    coded = "```python title=abc\n" + text[:5976] + "\n```"
    assert len(split(coded, first_room=MESSAGE_LIMIT - 23)) <= 4


def test_a_nicer_place_to_cut_does_not_cost_a_fifth_part() -> None:
    block = "```\n" + "code line\n" * 230 + "```\n"
    text = (("word " * 90 + "\n" + block) * 3)[:6000]
    assert len(split(text, first_room=MESSAGE_LIMIT - 23)) <= 4


def test_two_thousand_astral_characters_need_four_parts_at_most() -> None:
    parts = split_parts("😀" * 2000)
    assert len(parts) <= 4
    _check("😀" * 2000, parts, MESSAGE_LIMIT)


@pytest.mark.parametrize("mention", ["<@123>", "<@!123>", "<@&123>", "@everyone", "@here"])
def test_no_place_of_the_cut_makes_a_mention(mention: str) -> None:
    for offset in range(len(mention) + 3):
        text = "x" * (LIMIT - offset) + mention * 100
        _check(text, split_parts(text, LIMIT))


@pytest.mark.parametrize("shift", range(8))
def test_a_cut_in_the_middle_of_a_line_never_turns_its_rest_into_a_fence(shift: int) -> None:
    for space in ("", " "):
        text = "a" * (LIMIT - shift) + space + "```\n" + "plain text\n" * 60
        parts = split_parts(text, LIMIT)
        _check(text, parts)
        assert all(part.prefix == part.suffix == "" for part in parts)


def test_an_inline_code_that_looks_like_a_fence_until_its_end_opens_nothing_beyond_it() -> None:
    text = "``` " + "b " * 150 + "``` c\n" + "plain text\n" * 60
    parts = split_parts(text, LIMIT)
    _check(text, parts)
    assert all(part.prefix == "" for part in parts)


def test_characters_are_kept_whole() -> None:
    family = "👩\u200d👩\u200d👧"
    for shift in range(8):
        for part in split("x" * shift + family * 400):
            assert part.strip("x").replace(family, "") == ""


@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "\0"])
def test_a_blank_text_needs_no_message(text: str) -> None:
    assert split(text) == []


def test_a_limit_without_room_for_fences_is_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        split("x", 100)
