"""However long an answer is, it is a bounded number of messages, and what is left out is said."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.control.cuts import MOST_PARTS, pieces
from openab.text.measure import units
from openab.text.neutralize import neutralize

_LINE = "a line of text that an agent wrote, with a number in it: {}\n"
_LONG = "".join(_LINE.format(n) for n in range(5_000))
_PIECES = st.sampled_from(
    ["word ", "```" + "x" * 90 + "\n", "```\n", "~~~~py\n", "😀" * 300, "\n", "<@31>", "\0" * 500]
)


def test_a_short_one_is_whole_with_its_last_word_at_the_end() -> None:
    assert pieces("hello", "", 2000) == ("hello",)
    assert pieces("hello", "Cancelled.", 2000) == ("hello\n\nCancelled.",)
    assert pieces("", "Cancelled.", 2000) == ("Cancelled.",)


def test_a_long_one_says_how_much_is_left_out_and_keeps_its_last_word() -> None:
    made = pieces(_LONG, "🛑 Cancelled by Ann.", 1980)
    assert len(made) == MOST_PARTS
    assert made[-1].endswith("\n\n🛑 Cancelled by Ann.")
    told = re.match(r"✂️ .* about ([\d,]+) of its ([\d,]+) characters are left out", made[-1])
    assert told
    left, total = (int(number.replace(",", "")) for number in told.groups())
    assert total == len(_LONG)
    # White space between messages is neither shown nor left out.
    assert _LONG[: total - left].split() == "\n".join(made[:-1]).split()


def test_one_that_just_fits_is_whole() -> None:
    text = "\n".join(["x" * 2000] * MOST_PARTS)
    made = pieces(text[:80_000], "", 2000)
    assert len(made) == MOST_PARTS
    assert not made[-1].startswith("✂️")
    assert pieces(text + "x", "", 2000)[-1].startswith("✂️")


@given(text=st.lists(_PIECES, min_size=20, max_size=60).map("".join), times=st.integers(1, 20))
def test_any_text_is_bounded_inert_and_ends_with_its_last_word(text: str, times: int) -> None:
    made = pieces(text * times, "the end", 1980)
    assert 0 < len(made) <= MOST_PARTS
    assert all(0 < units(one) <= 2000 for one in made)
    assert all(neutralize(one) == one for one in made)
    assert made[-1].rstrip("`~\n").endswith("the end")


@pytest.mark.parametrize("text", [_LONG * 70, "```py\n" + "x" * 20_000_000, "\0" * 20_000_000])
def test_twenty_megabytes_take_no_longer_than_the_part_that_is_shown(text: str) -> None:
    # Compared with what one twentieth takes, on the same machine at the same time.
    def seconds(length: int) -> float:
        part, begun = text[:length], time.process_time()
        assert len(pieces(part, "", 2000)) <= MOST_PARTS
        return time.process_time() - begun

    seconds(1_000_000)
    assert seconds(20_000_000) < 10 * seconds(1_000_000) + 0.5
