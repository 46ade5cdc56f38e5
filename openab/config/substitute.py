"""Writes the environment's values into TOML text: `${NAME}` and `${NAME:-default}`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from openab.config.findings import Mistake
from openab.config.lexer import REFERENCE, Kind, Token, tokens

_SECRET_REFERENCE = re.compile(r"\$\{secrets\.[\w.-]+\}")
_NEEDS_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')
_UNFIT_FOR_LITERAL = re.compile(r"['\x00-\x1f\x7f]")
_DELIMITERS = {Kind.LITERAL: ("'", '"'), Kind.LITERAL_LINES: ("'''", '"""')}


@dataclass(frozen=True, slots=True)
class Substituted:
    """The text with values in place of names, line for line, and every name that has none."""

    text: str
    mistakes: tuple[Mistake, ...]


def substitute(text: str, environ: Mapping[str, str]) -> Substituted:
    """Replace references outside comments. A value inside quotes is escaped, so that it is read
    back as it is; outside quotes it stands as TOML. An undefined name is a mistake, and the text
    goes on with nothing in its place so that the remaining mistakes are found too.
    """
    writer = _Writer(environ)
    written = "".join(writer.write(token) for token in tokens(text))
    return Substituted(written, tuple(writer.mistakes))


def escape(value: str) -> str:
    """The value as it is written between the quotes of a basic string."""
    return _NEEDS_ESCAPE.sub(_escape_character, value)


def _escape_character(found: re.Match[str]) -> str:
    character = found[0]
    return f"\\{character}" if character in '\\"' else f"\\u{ord(character):04X}"


@dataclass(frozen=True, slots=True)
class _Place:
    """How values and the file's own text are written in one kind of token."""

    put: Callable[[str], str]
    keep: Callable[[str], str] = str
    absent: str = ""
    single_line: bool = False


_QUOTED = _Place(escape)
_LITERAL = _Place(str)
_BARE = _Place(str, absent='""', single_line=True)


class _Writer:
    """Rewrites tokens one by one and remembers what was missing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.mistakes: list[Mistake] = []

    def write(self, token: Token) -> str:
        if token.kind is Kind.COMMENT or "${" not in token.text:
            return token.text
        self._refuse_secret_references(token)
        if token.kind is Kind.PLAIN:
            return self._replace(token, token.text, _BARE)
        if token.kind in _DELIMITERS:
            return self._in_literal(token)
        return self._replace(token, token.text, _QUOTED)

    def _refuse_secret_references(self, token: Token) -> None:
        for found in _SECRET_REFERENCE.finditer(token.text):
            line = _line_of(token, token.text, found)
            self._miss(line, f"{found[0]}: [secrets] is not served", "write ${NAME} instead")

    def _miss(self, line: int, message: str, remedy: str) -> None:
        self.mistakes.append(Mistake("", line, message, remedy))

    def _replace(self, token: Token, text: str, place: _Place) -> str:
        pieces, position = [], 0
        for found in REFERENCE.finditer(text):
            if _is_escaped(text, found.start(), token.kind):
                continue
            pieces.append(place.keep(text[position : found.start()]))
            pieces.append(self._value(found, _line_of(token, text, found), place))
            position = found.end()
        return "".join([*pieces, place.keep(text[position:])])

    def _value(self, found: re.Match[str], line: int, place: _Place) -> str:
        value = self._environ.get(found["name"])
        if found["fallback"] is not None and not value:
            # The default already stands in the file, written for the place where it is.
            return place.keep(found["default"])
        if value is None:
            self._miss(line, f"${{{found['name']}}} is not defined", _define(found["name"]))
            return place.absent
        if place.single_line and ("\n" in value or "\r" in value):
            self._miss(line, f"${{{found['name']}}} has several lines", "put quotes around it")
            return place.absent
        return place.put(value)

    def _in_literal(self, token: Token) -> str:
        """A literal string cannot hold every value; a basic one that says the same can."""
        if not token.closed:
            return token.text
        mark, basic_mark = _DELIMITERS[token.kind]
        inner = token.text[len(mark) : -len(mark)]
        if self._fits_literally(inner):
            return mark + self._replace(token, inner, _LITERAL) + mark
        written = self._replace(token, inner, _Place(escape, _escape_lines))
        return basic_mark + written + basic_mark

    def _fits_literally(self, inner: str) -> bool:
        values = (self._environ.get(found["name"], "") for found in REFERENCE.finditer(inner))
        return not any(_UNFIT_FOR_LITERAL.search(value) for value in values)


def _line_of(token: Token, text: str, found: re.Match[str]) -> int:
    return token.line + text.count("\n", 0, found.start())


def _escape_lines(text: str) -> str:
    return "\n".join(escape(line) for line in text.split("\n"))


def _is_escaped(text: str, position: int, kind: Kind) -> bool:
    """Whether a backslash before the reference already makes it an error of its own."""
    if kind in _DELIMITERS or kind is Kind.PLAIN:
        return False
    before = text[:position]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _define(name: str) -> str:
    return f"set {name} in the environment, or write ${{{name}:-a default}}"
