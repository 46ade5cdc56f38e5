"""Bytes → lines."""

from hypothesis import given
from hypothesis import strategies as st

from openab.agents.acp.lines import LineSplitter

CHUNKS = st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\x00", b"\n")))


@given(CHUNKS)
def test_any_way_of_cutting_gives_the_same_lines(chunks: list[bytes]) -> None:
    splitter = LineSplitter(1_000_000)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
    whole = b"".join(chunks).split(b"\n")
    assert lines == (whole if whole[-1] else whole[:-1])
    assert splitter.dropped == 0


@given(CHUNKS, st.integers(min_value=0, max_value=10))
def test_a_line_over_the_cap_is_dropped_whole_and_the_next_one_is_kept(
    chunks: list[bytes], cap: int
) -> None:
    splitter = LineSplitter(cap)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
    whole = b"".join(chunks).split(b"\n")
    expected = [line for line in whole if len(line) <= cap]
    if len(whole[-1]) <= cap and not whole[-1]:
        expected = expected[:-1]
    assert lines == expected
    assert splitter.dropped == sum(len(line) > cap for line in whole)


def test_an_endless_line_is_not_collected() -> None:
    splitter = LineSplitter(100)
    for _ in range(50):
        splitter.feed(b"x" * 100)
    assert splitter.feed(b"\nnext\n") == [b"next"]
    assert splitter.dropped == 1
