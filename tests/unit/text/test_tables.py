"""Tables become code or bullets; nothing else changes, nothing is lost, and the splitter can cut it."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openab.text.columns import columns
from openab.text.fences import open_at_end
from openab.text.neutralize import live_mentions, neutralize
from openab.text.split import MESSAGE_LIMIT, join, split, split_parts
from openab.text.tables import LONGEST_TEXT, TableStyle, convert

TABLE = "| Name | Age |\n|---|--:|\n| Ann | 7 |\n| 日本 | 12345 |"
CODE = """```
| Name |   Age |
| ---- | ----- |
| Ann  |     7 |
| 日本 | 12345 |
```"""
BULLETS = "• Name: Ann\n• Age: 7\n\n• Name: 日本\n• Age: 12345"

prose = st.sampled_from(
    ["", "plain", "a | b", "# title", "```\ncode | x\n```", "\0nul", "\ud83d", "x\r", "\u2028|", "- item",
     "~~~\n| a | b |\n|---|---|\n~~~", "    | a | b |\n    |---|---|", "<@1>", "---|---", "1. one\n2. two",
     "<div>\n\n</div>", "|", "> quote", "\x0b\x0c\x85"]
)  # fmt: skip
pieces = st.sampled_from(
    ["| a | b |\n", "|---|---|\n", "|:-:|-|\n", "> ", "- ", "1. ", "  ", "\t", "```\n", "~~~\n", "`", "|", "\\|",
     "\n", "\r\n", "\r", "\0", "\ud83d", "\ude00", "<@1", "23>", "@here", "日本", "👩\u200d👧", "<br>", "x" * 90,
     "\\", "<!--\n", "===\n", "[a]: /u\n", "y" * 2100]
)  # fmt: skip
documents = st.lists(pieces, max_size=40).map("".join)
styles = st.sampled_from(TableStyle)


def test_a_table_is_shown_in_each_style() -> None:
    assert convert(TABLE, "code") == CODE
    assert convert(TABLE, TableStyle.BULLETS) == BULLETS
    assert convert(TABLE, "off") == TABLE


@given(prose, prose, st.sampled_from(["\n\n", "\r\n\r\n"]))
def test_what_is_no_table_stays_byte_for_byte(before: str, after: str, gap: str) -> None:
    text = f"{before}{gap}{TABLE}{gap}{after}"
    shown = f"{before}{gap}{CODE}\n{gap[len(gap) // 2 :]}{after}"
    assert convert(text, "code") == shown


@given(prose.filter(lambda text: "<div>" not in text), styles)
def test_a_text_without_a_table_is_returned_as_it_is(text: str, style: TableStyle) -> None:
    assert convert(text, style) == text


@settings(max_examples=500)
@given(documents, styles)
@example("> | a |\n> |---|\n> | `<`@1> |", TableStyle.CODE)
@example("- ```\n  x\n| a | b |\n|---|---|\n", TableStyle.CODE)
@example("``` | a\n---|---\n", TableStyle.CODE)
def test_any_text_can_be_converted_neutralised_and_split(text: str, style: TableStyle) -> None:
    shown = convert(text, style)
    assert open_at_end(shown) == open_at_end(text)
    parts = split_parts(shown)
    assert join(parts).strip() == neutralize(shown).strip()
    for part in parts:
        assert live_mentions(part.content) == []
        assert open_at_end(part.content) is None


@settings(max_examples=300)
@given(documents, styles)
def test_no_word_is_lost_and_the_text_does_not_explode(text: str, style: TableStyle) -> None:
    shown = convert(text, style)
    for word in ("日本", "👩\u200d👧", "@here", "x" * 90, "y" * 2100):
        assert shown.count(word) >= text.count(word)
    assert len(shown) <= 4 * len(text) + 2100 * max(1, text.count("-"))


@pytest.mark.parametrize("cut", range(len(TABLE) + 1))
def test_a_table_that_is_cut_off_is_converted_as_far_as_it_is_there(cut: int) -> None:
    shown = convert(TABLE[:cut], "code")
    is_table = cut >= len("| Name | Age |\n|---|-")
    assert (shown != TABLE[:cut]) == is_table
    assert open_at_end(shown) is None


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{TABLE}\n```",
        f"```\n{TABLE}",
        f"~~~md\n{TABLE}\n~~~",
        "    " + TABLE.replace("\n", "\n    "),
        f"- so:\n  ```\n{TABLE}\n  ```",
    ],
)
def test_a_table_in_code_stays(text: str) -> None:
    assert convert(text, "code") == text
    assert convert(text, "bullets") == text


def test_in_a_quote_it_becomes_bullets_in_the_quote() -> None:
    quoted = "> so:\n> " + TABLE.replace("\n", "\n> ") + "\n> end\nout"
    shown = "> so:\n> " + BULLETS.replace("\n", "\n> ").replace("> \n", ">\n") + "\n> end\nout"
    assert convert(quoted, "code") == shown
    assert convert(quoted, "bullets") == shown


def test_in_a_list_it_is_a_block_at_the_left_edge_or_bullets_under_the_item() -> None:
    below = "1. see\n\n   " + TABLE.replace("\n", "\n   ") + "\n2. next"
    assert convert(below, "code") == f"1. see\n\n{CODE}\n2. next"
    assert convert(below, "bullets") == (
        "1. see\n\n   " + BULLETS.replace("\n", "\n   ").replace("   \n", "\n") + "\n2. next"
    )


def test_a_table_right_behind_a_marker_leaves_the_marker() -> None:
    behind = "- " + TABLE.replace("\n", "\n  ")
    assert convert(behind, "code") == f"-\n{CODE}"
    assert convert(behind, "bullets").startswith("- • Name: Ann\n  • Age: 7\n\n  • Name")
    nested = "> - " + TABLE.replace("\n", "\n>   ")
    assert convert(nested, "code").startswith("> - • Name: Ann\n>   • Age: 7\n>\n>   • Name")


def test_cells_keep_pipes_and_what_is_too_much_but_no_backtick() -> None:
    text = "| `a\\|b` | c<br>d |\n|---|---|\n| 1 | 2 | more |\n| 3 |"
    assert convert(text, "code").split("\n")[1:-1] == [
        "| a|b | c d |      |",
        "| --- | --- | ---- |",
        "| 1   | 2   | more |",
        "| 3   |     |      |",
    ]
    assert convert(text, "bullets") == "• `a|b`: 1\n• c d: 2\n• more\n\n• `a|b`: 3"


def test_a_table_without_rows_keeps_its_header() -> None:
    assert convert("| a | b |\n|---|---|", "bullets") == "• a\n• b"
    assert convert("a | b\n--- | ---", "code") == "```\n| a   | b   |\n| --- | --- |\n```"


def test_a_line_without_a_pipe_is_text_again() -> None:
    assert convert(f"{TABLE}\nThat was it: x \\| y.", "code") == f"{CODE}\nThat was it: x \\| y."


def test_a_table_of_many_messages_is_a_block_in_each() -> None:
    rows = "".join(f"| {n} | {'word ' * 9}|\n" for n in range(200))
    parts = split(convert(f"before\n\n| n | text |\n|---|---|\n{rows}\nafter", "code"))
    assert len(parts) > 4
    for part in parts[1:-1]:
        assert part.startswith("```\n| ")
        assert part.endswith(" |\n```")
        assert len(set(map(columns, part.split("\n")[1:-1]))) == 1
    assert parts[-1].endswith("after")


def test_a_row_too_wide_for_a_message_gives_bullets() -> None:
    wide = "| a | b |\n|---|---|\n" + f"| {'x' * 1500} | {'y' * 1500} |\n" * 2
    shown = convert(wide, "code")
    assert shown.startswith("• a: xxx")
    assert all(len(part) <= MESSAGE_LIMIT for part in split(shown))


def test_one_long_cell_does_not_fill_messages_with_spaces() -> None:
    rows = "| 1 | 2 |\n" * 60
    shown = convert(f"| a | b |\n|---|---|\n| 1 | {'long ' * 300}|\n{rows}", "code")
    assert shown.startswith("• a: 1\n• b: long")
    heads = convert(f"| {'long ' * 300}| b |\n|---|---|\n{rows}", "bullets")
    assert heads.startswith("| long")


def test_a_mention_that_a_backtick_hid_is_made_inert_afterwards() -> None:
    shown = neutralize(convert("| a | b |\n|---|---|\n| <`@1> | @`here |", "code"))
    assert live_mentions(shown) == []


def test_a_very_long_text_stays() -> None:
    long = f"{TABLE}\n" + "word " * (LONGEST_TEXT // 5)
    assert convert(long, "code") == long


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(ValueError, match="fancy"):
        convert(TABLE, "fancy")
