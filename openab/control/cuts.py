"""Cuts a final's text into messages, of which there is a most; what is left out is said, never lost."""

from collections.abc import Mapping
from dataclasses import dataclass

from openab.text import notices
from openab.text.neutralize import neutralize
from openab.text.split import MESSAGE_LIMIT, Part, split_parts

#: So many messages take Discord over half a minute; more than that nobody reads.
MOST_PARTS = 40
#: No part holds more, so a longer text never fits.
_MOST_CHARACTERS = MOST_PARTS * MESSAGE_LIMIT
_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Cut:
    """A text that was cut beforehand: its messages by the room that the first one has."""

    text: str
    after: str
    by_room: Mapping[int, tuple[str, ...]]

    def fits(self, text: str, after: str, room: int) -> bool:
        """Whether this is that text's, cut for that room."""
        return room in self.by_room and text == self.text and after == self.after


def cut(text: str, after: str, rooms: set[int]) -> Cut:
    """Cut for each of these rooms; takes a while for a long text, so not inside a transaction."""
    return Cut(text, after, {room: pieces(text, after, room) for room in rooms})


def pieces(text: str, after: str, room: int) -> tuple[str, ...]:
    """The messages that carry `text` and, at the very end, `after`; at most `MOST_PARTS`.

    Of a longer text only the beginning is looked at, so that no text takes long.
    """
    if is_blank(text) and not after:
        text = notices.no_response()
    whole = "\n\n".join(one for one in (text, after) if one)
    parts = split_parts(neutralize(whole[: _MOST_CHARACTERS + 1]), first_room=room)
    if len(whole) <= _MOST_CHARACTERS and len(parts) <= MOST_PARTS:
        return tuple(part.content for part in parts)
    # The last one ends where our look ended.
    kept = parts[: min(MOST_PARTS, len(parts)) - 1]
    left = max(1, len(text) - sum(map(_length, kept)))
    told = notices.left_out(left, len(text))
    last = "\n\n".join(one for one in (told, neutralize(after)) if one)
    return (*(part.content for part in kept), last)


def is_blank(text: str) -> bool:
    """Whether nothing of it can be seen, so that the network would refuse it."""
    starts = range(0, len(text), _CHUNK)
    return not any(_shows(neutralize(text[start : start + _CHUNK])) for start in starts)


def _shows(text: str) -> bool:
    return any(char.isprintable() and not char.isspace() for char in text)


def _length(part: Part) -> int:
    return len(part.lead) + len(part.text) + len(part.trail)
