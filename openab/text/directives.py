"""Reads the `[[key:value]]` lines at the head of an agent's complete output or of a person's first message.

The header is the run of lines at the very start that each begin with a directive; what stands behind
the brackets of a line is the first of the content and ends it. From there on nothing is read: a body
holds whatever it likes. A key is made of ASCII letters, digits, `-` and `_`, exactly as it is known.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

_LINE = re.compile(
    r"[ \t]*\[\[[ \t]*([A-Za-z0-9_-]+)[ \t]*:((?:[^\]\r\n]|\](?!\]))*)\]\][ \t]*(\r?(?:\n|\Z))?"
)
#: What may become such a line, or its end.
_UNFINISHED = re.compile(
    r"[ \t]*(?:\[(?:\[[ \t]*(?:[A-Za-z0-9_-]+[ \t]*(?::(?:[^\]\r\n]|\](?!\]))*)?)?)?)?"
)
_BOT_ID = re.compile(r"[0-9]{1,20}")
_MESSAGE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_AGENT = re.compile(r"[A-Za-z0-9_-]{1,32}")
_ALIAS = re.compile(r"@\S{1,64}")
_LARGEST_ID = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Directive:
    """One header line: the key, and the value with its ends trimmed."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Header:
    """What a head said, and the text below it, byte for byte."""

    #: The known keys whose last value is valid.
    directives: Mapping[str, str]
    body: str
    #: The known keys whose last value is not: they count for nothing and are told.
    invalid: tuple[Directive, ...] = ()
    #: Keys that nobody knows; they were stripped too.
    unknown: tuple[Directive, ...] = ()
    #: Every line in its order, the overruled ones too.
    lines: tuple[Directive, ...] = field(default=(), repr=False)


def output_header(text: str) -> Header:
    """The head of an agent's *complete* output: `handoff`, `reply_to`, `spawn`; lines with other keys are stripped."""
    lines, end = _read(text, _is_anybodys)
    return _header(lines, text[end:], _OF_OUTPUT)


def is_head_open(text: str) -> bool:
    """Whether the head of an output that begins so may still grow, so that nothing of it is shown yet."""
    end, has_ended = 0, False
    for found in _matches(text):
        end, has_ended = found.end(), found[3] is None
    return not has_ended and _UNFINISHED.fullmatch(text, end) is not None


def message_header(text: str) -> Header:
    """The head of a person's first message: `ws`, `title`; a line with another key is theirs, so content."""
    lines, end = _read(text, _OF_MESSAGE.__contains__)
    return _header(lines, text[end:], _OF_MESSAGE)


def _is_anybodys(key: str) -> bool:
    return bool(key)


def _is_bot_id(value: str) -> bool:
    return bool(_BOT_ID.fullmatch(value)) and int(value) <= _LARGEST_ID


_Check = Callable[[str], object]
_OF_OUTPUT: Mapping[str, _Check] = {
    "handoff": _is_bot_id,
    "reply_to": _MESSAGE_ID.fullmatch,
    "spawn": _AGENT.fullmatch,
}
_OF_MESSAGE: Mapping[str, _Check] = {"ws": _ALIAS.fullmatch, "title": str.strip}


def _read(text: str, takes: Callable[[str], bool]) -> tuple[tuple[Directive, ...], int]:
    lines, at = [], 0
    for found in _matches(text):
        if not takes(found[1]):
            break
        lines.append(Directive(found[1], found[2].strip()))
        at = found.end()
    return tuple(lines), at


def _matches(text: str) -> Iterator[re.Match[str]]:
    """The lines of the head; the last one may have content behind its brackets."""
    found = _LINE.match(text)
    while found:
        yield found
        has_ended = found[3] is None
        found = None if has_ended else _LINE.match(text, found.end())


def _header(lines: tuple[Directive, ...], body: str, known: Mapping[str, _Check]) -> Header:
    last = {line.key: line for line in lines if line.key in known}
    return Header(
        directives={key: line.value for key, line in last.items() if known[key](line.value)},
        body=body,
        invalid=tuple(line for key, line in last.items() if not known[key](line.value)),
        unknown=tuple(line for line in lines if line.key not in known),
        lines=lines,
    )
