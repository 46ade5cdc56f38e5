"""How long a text is for Discord, and where it may be cut."""

import unicodedata

_ZERO_WIDTH_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
#: So many code points are looked back over for the start of a character; longer ones are cut.
_LOOK_BACK = 32


def units(text: str) -> int:
    """Length in UTF-16 units, which is never less than the length in code points."""
    if text.isascii():
        return len(text)
    # A lone surrogate is a unit like any other.
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fit(text: str, start: int, end: int, room: int) -> int:
    """The greatest index up to `end` such that `text[start:index]` has at most `room` units."""
    stop = max(start, min(end, start + room))
    over = units(text[start:stop]) - room
    while over > 0:
        # Each code point gives back one unit or two, so half the excess can always go.
        stop -= max(1, over // 2)
        over = units(text[start:stop]) - room
    return stop


def fit_back(text: str, room: int) -> int:
    """The least index such that `text[index:]` has at most `room` units."""
    start = max(0, len(text) - max(0, room))
    while units(text[start:]) > room:
        start += max(1, (units(text[start:]) - room) // 2)
    return start


def splits_character(text: str, index: int) -> bool:
    """Whether a cut at `index` separates what people see as one character, or a CRLF."""
    if not 0 < index < len(text):
        return False
    before, after = text[index - 1], text[index]
    if before == "\r":
        return after == "\n"
    if after.isascii():
        return False
    return (
        _ZERO_WIDTH_JOINER in (before, after)
        or unicodedata.category(after).startswith("M")
        or ord(after) in _SKIN_TONES
        or (ord(after) in _FLAG_LETTERS and _inside_flag(text, index))
    )


def _inside_flag(text: str, index: int) -> bool:
    run = index
    while run > 0 and index - run < _LOOK_BACK and ord(text[run - 1]) in _FLAG_LETTERS:
        run -= 1
    return (index - run) % 2 == 1


def whole_characters(text: str, start: int, index: int) -> int:
    """The nearest index at or before `index`, but after `start`, where no character is split."""
    lowest = max(start + 1, index - _LOOK_BACK)
    for cut in range(index, lowest - 1, -1):
        if not splits_character(text, cut):
            return cut
    # A pile of combining marks: cut it, but a CRLF costs one step only.
    return index - 1 if text[index - 1 : index + 1] == "\r\n" and index - 1 > start else index


def shorten(text: str, room: int, mark: str = "…") -> str:
    """The beginning of the text in at most `room` units, with `mark` where something was cut."""
    if units(text) <= room:
        return text
    stop = fit(text, 0, len(text), max(0, room - units(mark)))
    return text[: whole_characters(text, 0, stop) if stop else 0].rstrip() + mark
