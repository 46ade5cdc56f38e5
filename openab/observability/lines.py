"""One event as one line: text for a terminal, JSON for everything else (pure)."""

import json
import re
from collections.abc import Mapping
from datetime import datetime

_BARE = re.compile(r"[^\s=\"'\\\[\]{}]+")
_LONGEST = 16_000
_FIRST = ("timestamp", "level", "event")
_BLOCKS = ("exception", "stack")
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}


def as_json(fields: Mapping[str, object]) -> str:
    """A JSON object in ASCII, so that no value can end the line or reach a terminal's controls."""
    ordered = {name: fields[name] for name in _FIRST if name in fields}
    ordered |= {name: value for name, value in fields.items() if name not in ordered}
    return json.dumps({name: _plain(value) for name, value in ordered.items()})


def as_text(fields: Mapping[str, object], *, colour: bool = False) -> str:
    """`HH:MM:SS level event name=value …`; tracebacks below, each of their lines behind a bar.

    What is not printable is escaped, so a value can neither begin a line nor pose as a field.
    """
    rest = {n: v for n, v in fields.items() if n not in _FIRST and n not in _BLOCKS}
    level, event = str(fields.get("level", "")), _shown(str(fields.get("event", "")))
    word = f"\x1b[{_COLOURS.get(level, '0')}m{level:<8}\x1b[0m" if colour else f"{level:<8}"
    words = [_local_time(str(fields.get("timestamp", ""))), word, event]
    words += [f"{_shown(name)}={_value(value)}" for name, value in rest.items()]
    blocks = [_behind_bars(str(fields[name])) for name in _BLOCKS if fields.get(name)]
    return "\n".join([" ".join(words), *blocks])


def _value(value: object) -> str:
    said = _plain(value)
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    bare = _BARE.fullmatch(text) or not isinstance(said, str)
    return _shown(text if bare else json.dumps(text, ensure_ascii=False))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _behind_bars(text: str) -> str:
    return "\n".join(f"  | {_shown(line)}" for line in _cut(text).split("\n"))


def _local_time(moment: str) -> str:
    try:
        return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return "--:--:--"
