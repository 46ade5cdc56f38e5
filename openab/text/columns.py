"""How many columns of a fixed-width font a text takes, and padding to that."""

import unicodedata

_JOINER = "\u200d"
_EMOJI_STYLE = "\ufe0f"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_WITHOUT_WIDTH = frozenset({"Mn", "Me", "Cf", "Cc"})


def columns(text: str) -> int:
    """Display width: East Asian wide characters and emoji take two, what is joined on takes none."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(_width(text, index) for index in range(len(text)))


def padded(text: str, width: int, align: str = "left") -> str:
    """The text filled up with spaces to `width` columns; `align` is left, right or center."""
    missing = max(0, width - columns(text))
    before = {"right": missing, "center": missing // 2}.get(align, 0)
    return " " * before + text + " " * (missing - before)


def _width(text: str, index: int) -> int:
    char, before = text[index], text[index - 1 : index] if index else ""
    if char == _EMOJI_STYLE:
        # It turns the narrow sign before it into a wide picture.
        return 1 if before and _alone(before) == 1 and not before.isascii() else 0
    if before == _JOINER or (ord(char) in _SKIN_TONES and before and _alone(before)):
        return 0
    return _alone(char)


def _alone(char: str) -> int:
    if unicodedata.category(char) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
