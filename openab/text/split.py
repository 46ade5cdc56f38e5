"""Cuts an answer into messages: nothing lost, no fence left open, no mention made by a cut."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from openab.text.fences import Fence, after_line, closing, open_at_end
from openab.text.measure import fit, units, whole_characters
from openab.text.neutralize import neutralize

#: Discord's limit; kept both in code points and in UTF-16 units.
MESSAGE_LIMIT = 2000
#: Below this there may be no room for two fence lines and a word.
SMALLEST_LIMIT = 200
#: A part is filled to at least this share before a nicer place to cut is preferred.
_FILL_NUMERATOR, _FILL_DENOMINATOR = 4, 5
#: So far back a cut in the middle of a line looks for a harmless place.
_LOOK_BACK = 80
_FENCE_LIKE = re.compile(r" {0,3}(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Part:
    """One message. `lead`, `text` and `trail` are the input's own; `prefix` and `suffix` are fence lines of ours.

    `lead` and `trail` are white space, which is not sent, since Discord trims a message's ends.
    """

    text: str
    prefix: str = ""
    suffix: str = ""
    lead: str = ""
    trail: str = ""

    @property
    def content(self) -> str:
        """What is sent: never blank, within the limit, without a live mention."""
        return neutralize(self.prefix + self.text + self.suffix)


def split(text: str, limit: int = MESSAGE_LIMIT, first_room: int | None = None) -> list[str]:
    """The messages that carry `text`, each of at most `limit` units; blank text needs none.

    `first_room`, where given, is the limit of the first message: less, if something is put before it.
    """
    return [part.content for part in split_parts(text, limit, first_room)]


def split_parts(text: str, limit: int = MESSAGE_LIMIT, first_room: int | None = None) -> list[Part]:
    """As `split`, with what was added and left out told apart, so that `join` gives the text back."""
    rooms = (limit if first_room is None else first_room, limit)
    if min(rooms) < SMALLEST_LIMIT:
        raise ValueError(f"a message needs room for {SMALLEST_LIMIT} units")
    return _all_parts(neutralize(text), rooms)


def join(parts: Sequence[Part]) -> str:
    """The neutralised text that was split."""
    return "".join(part.lead + part.text + part.trail for part in parts)


def _all_parts(text: str, rooms: tuple[int, int]) -> list[Part]:
    parts: list[Part] = []
    end, at, fence = len(text.rstrip()), 0, None
    while at < end:
        part, at, fence = _next_part(text, at, end, fence, rooms[bool(parts)])
        parts.append(part)
    if parts:
        parts[-1] = replace(parts[-1], trail=parts[-1].trail + text[at:])
    return parts


def _next_part(
    text: str, at: int, end: int, fence: Fence | None, limit: int
) -> tuple[Part, int, Fence | None]:
    prefix = f"{fence.opener}\n" if fence else ""
    start = at if fence else _skip_blank(text, at)
    room = limit - units(prefix)
    while True:
        cut = _cut(text, start, end, room, fence)
        cut, after = _with_closing_line(text, start, cut, fence, limit - units(prefix))
        part = _part(text[at:start], prefix, text[start:cut], after)
        excess = units(part.prefix + part.text + part.suffix) - limit
        if excess <= 0:
            return part, cut, _continued(text, start, cut, fence, after)
        room -= excess


def _part(lead: str, prefix: str, body: str, after: Fence | None) -> Part:
    if after:
        return Part(body, prefix, closing(after, body), lead)
    shown = body.rstrip()
    return Part(shown, prefix, "", lead, body[len(shown) :])


def _skip_blank(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at


def _with_closing_line(
    text: str, start: int, cut: int, fence: Fence | None, room: int
) -> tuple[int, Fence | None]:
    """Take the fence's own closing line along rather than close it by ours and reopen it for nothing."""
    after = open_at_end(text[start:cut], fence)
    if after and text[cut - 1] == "\n":
        line_end = text.find("\n", cut, cut + room) + 1 or min(len(text), cut + room)
        line = text[cut:line_end]
        if after.is_closed_by(line) and units(text[start:line_end].rstrip()) <= room:
            return line_end, None
    return cut, after


def _continued(
    text: str, start: int, cut: int, fence: Fence | None, after: Fence | None
) -> Fence | None:
    """What is open for the next part: a line cut in two opens a block only if the whole of it does."""
    if after is None or cut >= len(text) or text[cut - 1] == "\n":
        return after
    line_start = text.rfind("\n", start, cut) + 1 or start
    line_end = text.find("\n", cut)
    before = open_at_end(text[start:line_start], fence)
    whole = text[line_start : line_end if line_end >= 0 else len(text)]
    return after_line(before, whole) if before is None else after


def _cut(text: str, start: int, end: int, room: int, fence: Fence | None) -> int:
    """Where the next part ends: all of it, else a line end, else a space, else between characters."""
    furthest = fit(text, start, end, room)
    if furthest == end:
        return end
    floor = fit(text, start, end, room * _FILL_NUMERATOR // _FILL_DENOMINATOR)
    return (
        _best_line_end(text, start, floor, furthest, fence)
        or _last_space(text, floor, furthest)
        or _between_characters(text, start, furthest)
    )


def _best_line_end(text: str, start: int, floor: int, stop: int, fence: Fence | None) -> int | None:
    """The last line end from `floor` on; outside code before inside, right behind an opener last."""
    ranked = [
        (rank, line_end)
        for line_end, rank in _line_ends(text, start, stop, fence)
        if line_end >= floor
    ]
    return max(ranked)[1] if ranked else None


def _line_ends(text: str, start: int, stop: int, fence: Fence | None) -> Iterator[tuple[int, int]]:
    line_end = text.find("\n", start, stop) + 1
    while line_end:
        before, fence = fence, after_line(fence, text[start : line_end - 1])
        yield line_end, 2 if fence is None else (1 if before else 0)
        start, line_end = line_end, text.find("\n", line_end, stop) + 1


def _last_space(text: str, floor: int, stop: int) -> int | None:
    space = text.rfind(" ", floor, stop)
    while space >= 0:
        if not _FENCE_LIKE.match(text, space + 1):
            return space + 1
        space = text.rfind(" ", floor, space)
    return None


def _between_characters(text: str, start: int, stop: int) -> int:
    """A place in the middle of a line; not where the rest of it would look like a fence."""
    for cut in range(stop, max(start, stop - _LOOK_BACK), -1):
        inside_run = text[cut - 1] == text[cut] and text[cut] in "`~"
        if not inside_run and not _FENCE_LIKE.match(text, cut):
            return whole_characters(text, start, cut)
    return whole_characters(text, start, stop)
