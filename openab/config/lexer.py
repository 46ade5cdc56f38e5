"""Cuts TOML text into comments, strings and the plain rest, without understanding it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

#: `${NAME}` and `${NAME:-default}`.
REFERENCE = re.compile(r"\$\{(?P<name>\w+)(?P<fallback>:-(?P<default>[^}\n]*))?\}")

_COMMENT = re.compile(r"#[^\n]*")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\[^\n])*(?P<end>")?')
_LITERAL = re.compile(r"'[^'\n]*(?P<end>')?")
# A closing delimiter may be preceded by one or two quotes that belong to the text.
_BASIC_LINES = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*(?P<end>""""{0,2})?', re.DOTALL)
_LITERAL_LINES = re.compile(r"'''(?:[^']|'(?!''))*(?P<end>''''{0,2})?", re.DOTALL)
# A default may hold quotes and `#`; inside a reference they begin nothing.
_PLAIN = re.compile(r"""(?:\$\{\w+:-[^}\n]*\}|[^#"'])+""")


class Kind(Enum):
    """What a token is; it decides how a value is written into it."""

    COMMENT = "comment"
    BASIC = "basic"
    LITERAL = "literal"
    BASIC_LINES = "basic, many lines"
    LITERAL_LINES = "literal, many lines"
    PLAIN = "plain"


_PATTERNS = (
    (Kind.COMMENT, _COMMENT),
    (Kind.BASIC_LINES, _BASIC_LINES),
    (Kind.LITERAL_LINES, _LITERAL_LINES),
    (Kind.BASIC, _BASIC),
    (Kind.LITERAL, _LITERAL),
    (Kind.PLAIN, _PLAIN),
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; `closed` is false for a string whose end is missing."""

    kind: Kind
    text: str
    line: int
    closed: bool


def tokens(text: str) -> Iterator[Token]:
    """The text in pieces; joined, they are the text again, whether it is valid TOML or not."""
    position, line = 0, 1
    while position < len(text):
        token = _token_at(text, position, line)
        yield token
        position += len(token.text)
        line += token.text.count("\n")


def _token_at(text: str, position: int, line: int) -> Token:
    for kind, pattern in _PATTERNS:
        if found := pattern.match(text, position):
            closed = "end" not in pattern.groupindex or found["end"] is not None
            return Token(kind, found[0], line, closed)
    raise AssertionError("every character begins some token")
