"""No way of cutting a mention makes it live again."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.text.neutralize import live_mentions, neutralize, wire_text

MENTIONS = ("<@123456789012345678>", "<@!42>", "<@&7>", "@everyone", "@here")
nasty = st.text(alphabet=st.sampled_from(list("<@!&>123everyonh \0\n`\u200b\ud83d\ude00é😀")))
anything = st.text(st.characters(exclude_categories=()), max_size=300)


@pytest.mark.parametrize("mention", MENTIONS)
def test_every_form_of_mention_is_made_inert(mention: str) -> None:
    assert live_mentions(mention) == [mention]
    assert live_mentions(neutralize(f"a {mention} b")) == []


@pytest.mark.parametrize("text", ["<\0@1>", "@\0everyone", "@he\0re", "<@everyone", "<<@1>@1>"])
def test_what_the_wire_drops_cannot_hide_a_mention(text: str) -> None:
    assert live_mentions(neutralize(text)) == []


def test_only_the_zero_width_space_is_added() -> None:
    text = "mail me@example.org, <#12>, <:smile:3>, <t:1:R>, @everybody, a < @b"
    assert neutralize(text) == text
    assert neutralize("<@1> @here").replace("\u200b", "") == "<@1> @here"


@given(nasty | anything)
def test_neutralising_twice_is_the_same_as_once(text: str) -> None:
    once = neutralize(text)
    assert neutralize(once) == once
    assert live_mentions(once) == []


@given(nasty | anything)
def test_wire_text_is_always_encodable_and_free_of_nul(text: str) -> None:
    clean = wire_text(text)
    assert "\0" not in clean
    assert clean.encode().decode() == clean
    assert wire_text(clean) == clean


def test_halves_of_a_pair_from_two_deltas_are_joined_and_a_lone_half_is_replaced() -> None:
    assert wire_text("a\ud83d" + "\ude00b") == "a😀b"
    assert wire_text("a\ud83db\ude00") == "a\ufffdb\ufffd"


def _cuts(text: str) -> list[tuple[str, ...]]:
    """Every way of cutting a short text into three deltas."""
    places = itertools.combinations_with_replacement(range(len(text) + 1), 2)
    return [(text[:a], text[a:b], text[b:]) for a, b in places]


@pytest.mark.parametrize("mention", MENTIONS)
def test_no_prefix_or_slice_of_what_is_shown_is_live_whatever_the_deltas(mention: str) -> None:
    text = f"x{mention}y"
    for deltas in _cuts(text):
        for shown in itertools.accumulate(deltas):
            assert live_mentions(neutralize(shown)) == []
    whole = neutralize(text)
    for start, end in itertools.combinations(range(len(whole) + 1), 2):
        assert live_mentions(whole[start:end]) == []


def test_thousands_of_random_deltas_and_truncations_stay_inert() -> None:
    choose = random.Random(7)
    for _ in range(5000):
        text = "".join(choose.choice([*MENTIONS, "<", "@", "\0", "a "]) for _ in range(6))
        raw = text[: choose.randrange(len(text) + 1)]
        shown = neutralize(raw)
        truncated = shown[choose.randrange(len(shown) + 1) :]
        assert live_mentions(neutralize("…" + truncated)) == []


@pytest.mark.parametrize("mention", MENTIONS)
def test_negative_control_neutralising_each_delta_lets_a_mention_through(mention: str) -> None:
    joined = ["".join(neutralize(delta) for delta in deltas) for deltas in _cuts(mention)]
    assert any(live_mentions(text) for text in joined)
