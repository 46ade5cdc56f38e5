"""Markdown tables for a chat that shows none: as a block of code, or as bullets.

Convert first, then neutralise the whole, then split. Every line that is not a table's stays byte for
byte. Tables in code, and those whose lines open code themselves, stay as they are. A table in a list
becomes a block at the left edge; in a quote it becomes bullets, since no cut of a message keeps a
quoted block whole. A form that would be far longer than the table gives way to the next plainer one.
Any beginning of a text is a text, so a table that is cut off is converted as far as it is there.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from markdown_it import MarkdownIt

from openab.text.columns import columns, padded
from openab.text.fences import Fence, open_at_end
from openab.text.measure import units

#: Above this, some thirty messages, tables stay as they are: parsing them would hold everybody up.
LONGEST_TEXT = 60_000
#: What a line of code may be long, so that a message holds it together with its fence.
_LONGEST_ROW = 1900
_ALWAYS_SHORT = 2000
_MOST_GROWTH = 4
_NARROWEST = 3
_PIPE = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_QUOTE = re.compile(r"[ \t]*>[ \t]?")
_ITEM = re.compile(r"[ \t]*(?:[-+*]|[0-9]{1,9}[.)])")
_BLANKS = re.compile(r"[ \t]*")
_OF_A_DELIMITER_ROW = " \t\r|:->+*.)0123456789"


class TableStyle(StrEnum):
    """How tables are shown: `[markdown] tables`."""

    CODE = "code"
    BULLETS = "bullets"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class _Place:
    """A table's lines, and the quotes and list items it stands in: for an item, the line it begins at."""

    start: int
    end: int
    #: None is a quote.
    inside: tuple[int | None, ...]

    @property
    def is_quoted(self) -> bool:
        return None in self.inside


@dataclass(frozen=True, slots=True)
class _Table:
    header: Sequence[str]
    aligns: Sequence[str]
    rows: Sequence[Sequence[str]]


def convert(text: str, style: TableStyle | str) -> str:
    """The text with its tables in that style; `off` changes nothing."""
    wanted, lines = TableStyle(style), text.split("\n")
    if wanted is TableStyle.OFF or len(text) > LONGEST_TEXT or not any(map(_may_delimit, lines)):
        return text
    # One line here is one line there: what else the parser takes for a line end becomes a blank.
    seen = [line.replace("\0", "").replace("\r", " ") for line in lines]
    return "\n".join(_converted(lines, seen, wanted))


def _converted(lines: list[str], seen: list[str], style: TableStyle) -> Iterator[str]:
    at, fence = 0, None
    for place in _places("\n".join(seen)):
        between = lines[at : place.start]
        fence = _after(between, fence)
        yield from between
        end = _end(seen, place)
        raw, at = lines[place.start : end], end
        yield from raw if fence or _after(raw, None) else _shown(raw, seen, place, end, style)
        fence = _after(raw, fence)
    yield from lines[at:]


def _after(lines: Sequence[str], fence: Fence | None) -> Fence | None:
    return open_at_end("\n".join(lines), fence) if lines else fence


def _may_delimit(line: str) -> bool:
    return "-" in line and "|" in line and not line.strip(_OF_A_DELIMITER_ROW)


def _places(text: str) -> Iterator[_Place]:
    parser = MarkdownIt("commonmark").enable("table").disable(["reference", "inline"])
    inside: list[int | None] = []
    for token in parser.parse(text):
        if token.type in ("blockquote_open", "list_item_open"):
            begins = token.map[0] if token.map else 0
            inside.append(None if token.type == "blockquote_open" else begins)
        elif token.type in ("blockquote_close", "list_item_close"):
            inside.pop()
        elif token.type == "table_open" and token.map:
            yield _Place(token.map[0], token.map[1], tuple(inside))


def _end(seen: Sequence[str], place: _Place) -> int:
    """A line without any pipe belongs to the table by the letter only: people mean it as text."""
    for number in range(place.start + 2, place.end):
        if not _PIPE.search(seen[number]):
            return number
    return place.end


def _shown(
    raw: list[str], seen: list[str], place: _Place, end: int, style: TableStyle
) -> list[str]:
    """The first form that is not too long: the one wished for, bullets, the table as it was."""
    found = _table(seen, place, end)
    marker, rest = _prefixes(seen, place)
    if style is TableStyle.CODE and not place.is_quoted:
        block = _code(found)
        if max(map(units, block)) <= _LONGEST_ROW and _is_in_proportion(block, raw):
            return [marker.rstrip(), *block] if marker.strip() else block
    bullets = [(rest + line).rstrip() for line in _bullets(found)]
    bullets[0] = marker + bullets[0][len(rest) :]
    return bullets if _is_in_proportion(bullets, raw) else raw


def _is_in_proportion(lines: Sequence[str], raw: Sequence[str]) -> bool:
    length = sum(map(len, lines)) + len(lines)
    return length <= max(_ALWAYS_SHORT, _MOST_GROWTH * sum(map(len, raw)))


def _prefixes(seen: Sequence[str], place: _Place) -> tuple[str, str]:
    """What stands before the table in its first line, and in a line below it."""
    first = seen[place.start][: _depth(seen, place, place.start)]
    return first, re.sub(r"[^\s>]", " ", first)


def _depth(seen: Sequence[str], place: _Place, number: int) -> int:
    """Where the table's own text begins in a line."""
    line, at = seen[number], 0
    for begins in place.inside:
        if begins is None or begins == number:
            marker = (_QUOTE if begins is None else _ITEM).match(line, at)
            at = marker.end() if marker else at
    blanks = _BLANKS.match(line, at)
    return blanks.end() if blanks else at


def _table(seen: Sequence[str], place: _Place, end: int) -> _Table:
    header, marks, *rows = (
        _cells(seen[number][_depth(seen, place, number) :]) for number in range(place.start, end)
    )
    return _Table(header, [_align(mark) for mark in marks], rows)


def _cells(row: str) -> list[str]:
    cells = _PIPE.split(row.strip(" \t"))
    if cells[0] == "":
        del cells[0]
    if cells and cells[-1] == "":
        del cells[-1]
    return [_BREAK.sub(" ", cell.replace("\\|", "|").expandtabs(1)).strip() for cell in cells]


def _align(mark: str) -> str:
    if mark.endswith(":"):
        return "center" if mark.startswith(":") else "right"
    return "left"


def _code(table: _Table) -> list[str]:
    rows = [[cell.replace("`", "") for cell in row] for row in (table.header, *table.rows)]
    count = max(map(len, rows))
    filled = [row + [""] * (count - len(row)) for row in rows]
    widths = [max(_NARROWEST, *map(columns, column)) for column in zip(*filled, strict=True)]
    aligns = [*table.aligns, *["left"] * count][:count]
    header, *body = (_row(row, widths, aligns) for row in filled)
    rule = _row(["-" * width for width in widths], widths, aligns)
    return ["```", header, rule, *body, "```"]


def _row(cells: Sequence[str], widths: Sequence[int], aligns: Sequence[str]) -> str:
    each = map(padded, cells, widths, aligns)
    return f"| {' | '.join(each)} |"


def _bullets(table: _Table) -> list[str]:
    """A line per cell that has something in it, an empty line between rows."""
    blocks = [list(_bullet_row(table.header, row)) for row in table.rows]
    shown = [block for block in blocks if block] or [[f"• {cell}" for cell in table.header]]
    return [line for block in shown for line in ("", *block)][1:]


def _bullet_row(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    for index, cell in enumerate(row):
        name = header[index] if index < len(header) else ""
        if cell:
            yield f"• {name}: {cell}" if name else f"• {cell}"
