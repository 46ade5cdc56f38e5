"""What a check found, as one line with its remedy."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    #: As it should be, or worth knowing.
    WELL = "well"
    #: It works, though perhaps not as its operator thinks.
    WARNING = "warning"
    #: It does not work.
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Found:
    """One line of a report."""

    level: Level
    part: str
    told: str
    #: What to do about it; empty where nothing has to be done.
    remedy: str = ""


def well(part: str, told: str) -> Found:
    """A part that is in order."""
    return Found(Level.WELL, part, told)


def warning(part: str, told: str, remedy: str) -> Found:
    """A part that works, with something to think about."""
    return Found(Level.WARNING, part, told, remedy)


def failure(part: str, told: str, remedy: str) -> Found:
    """A part that does not work."""
    return Found(Level.FAILURE, part, told, remedy)
