"""Finds the line of every key in TOML text, which the standard parser does not tell."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openab.config.findings import Path
from openab.config.lexer import Kind, tokens


@dataclass(frozen=True, slots=True)
class Positions:
    """Lines by path; something inside a value is found at the value's key."""

    lines: Mapping[Path, int]

    def line(self, path: Path) -> int | None:
        """The line of the path, or of the nearest thing around it that has one."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def positions(text: str) -> Positions:
    """Where the keys and sections of valid TOML stand. Never raises; what is odd is left out."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    section: Path = ()
    for statement in _statements(text):
        key = _key(statement.key)
        if statement.is_section:
            section = _enter(key, counts, is_array=statement.is_array)
        path = section if statement.is_section else section + key
        for length in range(1, len(path) + 1):
            found.setdefault(path[:length], statement.line)
    return Positions(found)


def _enter(key: Path, counts: dict[Path, int], *, is_array: bool) -> Path:
    """The section's path, with the positions of the arrays that it lies in."""
    path: Path = ()
    for part in key[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path] - 1)
    path += key[-1:]
    if is_array:
        counts[path] = counts.get(path, 0) + 1
    return (*path, counts[path] - 1) if path in counts else path


def _key(text: str) -> Path:
    try:
        table: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    path: Path = ()
    while isinstance(table, dict) and table:
        part, table = next(iter(table.items()))
        path = (*path, part)
    return path


@dataclass(slots=True)
class _Statement:
    """One `key = value` or `[section]`, as far as it has been read."""

    line: int = 0
    text: str = ""
    depth: int = 0
    has_value: bool = field(default=False)

    @property
    def is_section(self) -> bool:
        return not self.has_value and self.text.lstrip().startswith("[")

    @property
    def is_array(self) -> bool:
        return self.text.lstrip().startswith("[[")

    @property
    def key(self) -> str:
        return self.text.strip().strip("[]") if self.is_section else self.text.strip()

    def take(self, text: str, line: int) -> None:
        if not self.text.strip():
            self.line = line
        if not self.has_value:
            self.text += text

    def take_character(self, character: str, line: int) -> None:
        if self.has_value:
            self.depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(character, 0)
        elif character == "=":
            self.has_value = True
        else:
            self.take(character, line)

    @property
    def ends_with_line(self) -> bool:
        return not self.has_value or self.depth <= 0


def _statements(text: str) -> Iterator[_Statement]:
    statement = _Statement()
    for token in tokens(text + "\n"):
        if token.kind is Kind.COMMENT:
            continue
        if token.kind is not Kind.PLAIN:
            statement.take(token.text, token.line)
            continue
        line = token.line
        for character in token.text:
            if character == "\n" and statement.ends_with_line:
                if statement.text.strip():
                    yield statement
                statement = _Statement()
            else:
                statement.take_character(character, line)
            line += character == "\n"
