"""Directives are read at the very start only; everything below the head is content, byte for byte."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openab.text.directives import Directive, Header, message_header, output_header

anything = st.text(st.characters(exclude_categories=())) | st.lists(
    st.sampled_from(
        ["[[", "]]", ":", "handoff", "reply_to", "ws", "title", "@a", "1", "\n", "\r\n", "\r", " ", "]", "=", "\0"]
    ),
    max_size=30,
).map("".join)  # fmt: skip
keys = st.text("abcXYZ019-_", min_size=1, max_size=8) | st.sampled_from(["handoff", "reply_to"])
values = st.text(st.characters(exclude_characters="]\r\n"), max_size=20)
heads = st.lists(st.tuples(keys, values), min_size=1, max_size=6)
content = anything.filter(lambda text: not text.lstrip(" \t").startswith("[["))


def test_the_head_is_read_and_taken_off() -> None:
    header = output_header("[[handoff:123]]\n [[reply_to: m-1 ]] \r\n[[mood:fine]]\n\nHello\n")
    assert header.directives == {"handoff": "123", "reply_to": "m-1"}
    assert header.body == "\nHello\n"
    assert header.unknown == (Directive("mood", "fine"),)
    assert [line.key for line in header.lines] == ["handoff", "reply_to", "mood"]


@given(heads, content, st.sampled_from(["\n", "\r\n"]))
def test_a_head_gives_its_last_values_and_the_body_as_it_was(
    head: list[tuple[str, str]], body: str, end: str
) -> None:
    text = "".join(f"[[{key}:{value}]]{end}" for key, value in head) + body
    header = output_header(text)
    assert header.lines == tuple(Directive(key, value.strip()) for key, value in head)
    assert header.body == body
    last = {key: value.strip() for key, value in head}
    said = dict(header.directives) | {
        line.key: line.value for line in (*header.invalid, *header.unknown)
    }
    assert said == last


@given(anything)
@example("[[a:b")
@example("[[handoff:1]]" * 3)
def test_it_is_total_and_the_body_is_the_end_of_the_text(text: str) -> None:
    for read in (output_header, message_header):
        header = read(text)
        assert text.endswith(header.body)
        assert bool(header.lines) == (header.body != text)


@given(content, anything)
def test_nothing_below_other_content_is_ever_read(first: str, rest: str) -> None:
    text = (
        f"{first}x\n[[handoff:1]]\n{rest}"
        if not first.strip()
        else f"{first}\n[[handoff:1]]\n{rest}"
    )
    assert output_header(text) == Header({}, text)
    assert message_header(text) == Header({}, text)


@pytest.mark.parametrize(
    "text",
    [
        "[[say=hello]]",
        "[[tool=execute:cargo test:2.0]]\n[[handoff:1]]",
        "[[fail=-32603:no]]",
        '[[script=[["say","a]]b"]]]]',
        "[[recall]]",
        "[[handoff:1]\n",
        "[[hand\noff:1]]",
        "[[handoff:1\n]]",
        "[[:1]]",
        "[[a b:1]]",
        "[[ключ:1]]",
        "\n[[handoff:1]]",
        "\ufeff[[handoff:1]]",
        "`[[handoff:1]]`",
    ],
)
def test_what_only_looks_like_a_directive_is_content(text: str) -> None:
    assert output_header(text) == Header({}, text)


def test_text_behind_the_brackets_is_content_and_ends_the_head() -> None:
    header = output_header("[[handoff:1]]  go on\n[[handoff:2]]\n")
    assert header.directives == {"handoff": "1"}
    assert header.body == "go on\n[[handoff:2]]\n"
    assert output_header("[[a:1]][[handoff:1]]").body == "[[handoff:1]]"


@pytest.mark.parametrize("value", ["", "0x1", "1" * 21, str(2**64), "\u0661", "1 2", "<@1>"])
def test_an_invalid_value_is_stripped_and_told_even_if_an_earlier_one_was_good(value: str) -> None:
    header = output_header(f"[[handoff:7]]\n[[handoff:{value}]]\nbody")
    assert header.directives == {}
    assert header.invalid == (Directive("handoff", value),)
    assert header.body == "body"


def test_the_last_value_wins() -> None:
    assert output_header("[[handoff:x]]\n[[handoff:7]]").directives == {"handoff": "7"}
    assert output_header(f"[[handoff:{2**64 - 1}]]").directives == {"handoff": str(2**64 - 1)}
    assert output_header(f"[[reply_to:{'a' * 65}]]").directives == {}


def test_a_person_names_a_workspace_and_a_title() -> None:
    header = message_header("[[ws:@shop]]\n[[title: Fix [1] now ]]\nplease")
    assert header.directives == {"ws": "@shop", "title": "Fix [1] now"}
    assert header.body == "please"
    assert message_header("[[ws:@shop]] please").body == "please"


@pytest.mark.parametrize("line", ["[[ws:shop]]", "[[ws:@]]", "[[ws:@a b]]", "[[title: ]]"])
def test_a_persons_invalid_value_is_told(line: str) -> None:
    header = message_header(f"{line}\nplease")
    assert len(header.invalid) == 1
    assert header.body == "please"


def test_a_persons_other_lines_are_theirs() -> None:
    text = "[[Category:Food]]\n[[ws:@shop]]"
    assert message_header(text) == Header({}, text)
    header = message_header("[[title:a]]\n[[handoff:1]]\nx")
    assert header.body == "[[handoff:1]]\nx"
    assert header.unknown == ()
