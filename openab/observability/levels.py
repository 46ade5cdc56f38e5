"""Which logger tells how much, read from `OPENAB_LOG` or a `RUST_LOG` in OpenAB's form (pure)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

#: The logger above all of ours.
OURS = "openab"

_WORDS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "off": logging.CRITICAL + 10,
}


@dataclass(frozen=True)
class Levels:
    """The level of everybody else's loggers, of those named, and the words nobody understood."""

    others: int = logging.WARNING
    named: Mapping[str, int] = field(default_factory=lambda: {OURS: logging.INFO})
    unknown: tuple[str, ...] = ()


def read(environ: Mapping[str, str]) -> Levels:
    """`OPENAB_LOG`, else `RUST_LOG`, else `openab=info`.

    A bare level is ours alone: with everybody's, `debug` would print every chat message that the
    Discord library receives. `discord=debug` asks for that by name.
    """
    named, unknown = {OURS: logging.INFO}, []
    for part in _parts(environ.get("OPENAB_LOG") or environ.get("RUST_LOG") or ""):
        name, _, word = part.rpartition("=")
        level = _WORDS.get(word.strip().lower())
        if level is None:
            unknown.append(part)
        else:
            named[_logger_name(name)] = level
    return Levels(named=named, unknown=tuple(unknown))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _logger_name(target: str) -> str:
    return target.strip().replace("::", ".") or OURS
