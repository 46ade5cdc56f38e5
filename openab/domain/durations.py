"""Durations as people type and read them: `90m`, `24h`, `2d`, `1d12h`."""

import re
from datetime import timedelta

#: What a binding's limit may be; beyond that people mean *never*.
SHORTEST, LONGEST = timedelta(minutes=1), timedelta(days=3650)
#: The unit of each part, the greatest first.
_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_WRITTEN = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,7}}){unit}\s*)?" for unit in _UNITS))


def duration(text: str) -> timedelta | None:
    """What a text says: at least one part, the greater units first; None if it says nothing."""
    found = _WRITTEN.fullmatch(text.strip().lower())
    parts = {unit: count for unit, count in found.groupdict().items() if count} if found else {}
    if not parts:
        return None
    return sum((int(count) * _UNITS[unit] for unit, count in parts.items()), timedelta(0))


def spelled(span: timedelta) -> str:
    """The same in its shortest form, in whole seconds: `duration(spelled(x))` is `x` again."""
    left, parts = timedelta(seconds=int(span.total_seconds())), []
    for unit, size in _UNITS.items():
        count, left = divmod(left, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"
