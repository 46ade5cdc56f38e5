"""A thread's title is short, visible and pings nobody."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.text.neutralize import live_mentions
from openab.text.titles import LONGEST_TITLE, fallback_title, given_title, thread_title


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("fix the tests", "fix the tests"),
        ("  fix\n the\ttests ", "fix the tests"),
        ("a" * 40, "a" * 40),
        ("a" * 41, "a" * 40 + "..."),
        ("ask <@12> and @(role) now", "ask and now"),
        ("see https://github.com/acme/app/pull/42/files?x=1 please", "see acme/app#42 please"),
        ("https://github.com/acme/app/issues/7#note", "acme/app#7"),
        ("tell @everyone", "tell @\u200beveryone"),
        ("nul\0 and \x1b[0m bell\x07", "nul and [0m bell"),
    ],
)
def test_the_title_is_the_prompts_beginning(prompt: str, title: str) -> None:
    assert thread_title(prompt) == title


@pytest.mark.parametrize("prompt", ["", "  ", "\0", "\u200b\u200d", "<@12>", "@(role)"])
def test_a_prompt_without_words_gets_another_title(prompt: str) -> None:
    assert thread_title(prompt, ["plan.pdf", "b.png"], "Ann") == "plan.pdf, b.png"
    assert thread_title(prompt, [], "Ann") == "Request from Ann"
    assert thread_title(prompt) == "Request"


@given(
    st.text(st.characters(exclude_categories=()), max_size=120)
    | st.lists(st.sampled_from(["<@1", "2>", "@here", "\0", "\ud83d", "😀", " "])).map("".join)
)
def test_every_title_is_one_that_discord_takes(text: str) -> None:
    for title in (thread_title(text), thread_title("", [text]), fallback_title(text)):
        assert 1 <= len(title) <= LONGEST_TITLE
        assert len(title.encode("utf-16-le")) <= 2 * LONGEST_TITLE
        assert live_mentions(title) == []
        assert any(unicodedata.category(char)[0] not in "CZM" for char in title)
        assert "\n" not in title


@given(st.text(st.characters(exclude_categories=()), max_size=160))
def test_a_title_that_was_asked_for_is_whole_up_to_discords_limit(wanted: str) -> None:
    title = given_title(wanted, "Ann")
    assert title.strip()
    assert len(title.encode("utf-16-le")) // 2 <= LONGEST_TITLE
    assert live_mentions(title) == []


def test_a_title_that_was_asked_for_is_cut_only_at_discords_limit() -> None:
    assert given_title("a" * 100) == "a" * 100
    assert given_title("a" * 101) == "a" * 99 + "…"
    assert given_title("\0 <@1>", "Ann") == "Request from Ann"
