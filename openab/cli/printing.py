"""How rows and other people's text reach an operator's terminal: tables or JSON lines, nothing that acts."""

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import typer

#: Controls, invisible formatting, separators of lines and paragraphs: a terminal might obey them.
_ACTING = frozenset({"Cc", "Cf", "Zl", "Zp"})
#: Wide enough that nothing is folded where no terminal is.
_NO_TERMINAL_WIDTH = 4000


def safe(text: str) -> str:
    """The text for a terminal: what might act is written as `\\xNN`, lone surrogates are U+FFFD."""
    return "".join(_escaped(character) for character in _sound(text))


def as_json(value: Any) -> str:
    """One line of ASCII JSON: moments in ISO 8601, lone surrogates as U+FFFD."""
    return json.dumps(_plain(value), ensure_ascii=True)


def moment(at: datetime | None) -> str:
    """A moment for a table, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if at else ""


def print_lines(lines: Iterable[Any]) -> None:
    """Each value as one line of JSON."""
    for line in lines:
        typer.echo(as_json(line))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table as wide as its terminal; nothing is cut off, cells go on below."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    # Highlighting and mark-up would read other people's text as ours.
    width = None if sys.stdout.isatty() else _NO_TERMINAL_WIDTH
    Console(width=width, highlight=False, markup=False).print(table)


def _sound(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _ACTING:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {_sound(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Enum):
        return _plain(value.value)
    return _sound(value) if isinstance(value, str) else value
