"""Code fences: which line opens one, which closes it, and what is open at the end of a text."""

import re
from dataclasses import dataclass

from openab.text.measure import units

# A run of more than 32 is no fence for us: closing it would eat the room of a message.
_OPENER = re.compile(r" {0,3}(`{3,32}(?!`)|~{3,32}(?!~))(.*)", re.DOTALL)
_CLOSER = re.compile(r" {0,3}(`{3,}|~{3,})\s*")
_LONGEST_INFO = 40


@dataclass(frozen=True, slots=True)
class Fence:
    """An open code block: its mark as it was written, and the info string behind it."""

    mark: str
    info: str = ""

    @property
    def opener(self) -> str:
        """The line that opens it anew; a long info string is left out."""
        return self.mark + (self.info if units(self.info) <= _LONGEST_INFO else "")

    def is_closed_by(self, line: str) -> bool:
        """Whether this line ends the block: the same mark, at least as long, and nothing behind it."""
        match = _CLOSER.fullmatch(line)
        if not match or match[1][0] != self.mark[0]:
            return False
        return len(match[1]) >= len(self.mark)


def opened_by(line: str) -> Fence | None:
    """The block that this line opens, when none is open."""
    match = _OPENER.fullmatch(line)
    if not match:
        return None
    mark, info = match[1], match[2].rstrip()
    # A backtick behind backticks is inline code.
    return None if mark[0] == "`" and "`" in info else Fence(mark, info)


def after_line(fence: Fence | None, line: str) -> Fence | None:
    """What is open after one more line (given without its line end)."""
    if fence is None:
        return opened_by(line)
    return None if fence.is_closed_by(line) else fence


def open_at_end(text: str, fence: Fence | None = None) -> Fence | None:
    """What is open at the end of a text before which `fence` was open."""
    for line in text.split("\n"):
        fence = after_line(fence, line)
    return fence


def closing(fence: Fence | None, text: str) -> str:
    """What has to be added to a text, at whose end `fence` is open, to close it."""
    if fence is None:
        return ""
    return fence.mark if text.endswith("\n") else "\n" + fence.mark
