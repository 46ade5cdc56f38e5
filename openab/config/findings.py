"""What the check of a configuration found: mistakes, which stop it, and cautions, which do not."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from openab.domain.errors import Rejected

#: Where something stands in the file: keys, and positions in arrays.
Path = tuple[str | int, ...]

Kind = TypeVar("Kind", bound="Finding")

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def spell_path(path: Path) -> str:
    """A path as TOML would write it: `cron.jobs[0].schedule`."""
    spelled = ""
    for part in path:
        if isinstance(part, int):
            spelled += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) else f'"{part}"'
            spelled += f".{key}" if spelled else key
    return spelled


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to tell the author: where it stands, what it is, and what to write instead."""

    path: str
    line: int | None
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        place = ", ".join(
            filter(None, [self.path, f"line {self.line}" if self.line is not None else ""])
        )
        said = f"{place}: {self.message}" if place else self.message
        return f"{said} ({self.remedy})" if self.remedy else said


class Mistake(Finding):
    """A finding with which the file cannot be used."""


class Caution(Finding):
    """A finding with which the file can be used, though perhaps not as its author thinks."""


class ConfigInvalid(Rejected):
    """The configuration cannot be used; `mistakes` holds every reason, in the file's order."""

    def __init__(self, mistakes: Iterable[Mistake], cautions: Iterable[Caution] = ()) -> None:
        self.mistakes = tuple(mistakes)
        self.cautions = tuple(cautions)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


def in_file_order(findings: Iterable[Kind]) -> list[Kind]:
    """Findings by line; those without a line come first."""
    return sorted(findings, key=lambda finding: (finding.line or 0, finding.path))
