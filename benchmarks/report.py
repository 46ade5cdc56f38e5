"""Targets, what was measured, and the one table that shows both."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A number that openab promises on two shared cores: what, and the most it may be."""

    what: str
    limit: float
    unit: str


@dataclass(frozen=True, slots=True)
class Row:
    """A target with what was measured; `note` says how much was measured, and its spread."""

    target: Target
    measured: float
    note: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the promise was kept (never, for what could not be measured: NaN)."""
        return self.measured <= self.target.limit


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed (nearest rank); NaN without values."""
    ranked = sorted(values)
    if not ranked:
        return math.nan
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


def spread(values: Sequence[float]) -> str:
    """How many values, and their percentiles."""
    told = " ".join(f"p{percent} {percentile(values, percent):.3g}" for percent in (50, 90, 99))
    return f"n {len(values)}: {told} max {max(values, default=math.nan):.3g}"


def table(rows: Sequence[Row]) -> str:
    """One line a row: what, measured, target, how much of the target is used, note."""
    lines = [("what", "measured", "target", "used", "", "note")]
    lines += [_cells(row) for row in rows]
    widths = [max(len(line[n]) for line in lines) for n in range(5)]
    return "\n".join(_line(line, widths) for line in lines)


def _cells(row: Row) -> tuple[str, str, str, str, str, str]:
    target = row.target
    # Of nothing, nothing can be used up.
    used = f"{100 * row.measured / target.limit:.0f} %" if target.limit else ""
    verdict = "met" if row.is_met else "MISSED"
    measured, limit = f"{row.measured:.3g} {target.unit}", f"≤ {target.limit:g} {target.unit}"
    return target.what, measured, limit, used, verdict, row.note


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    what, verdict, note = cells[0].ljust(widths[0]), cells[4].ljust(widths[4]), cells[5]
    numbers = [cells[n].rjust(widths[n]) for n in (1, 2, 3)]
    return "  ".join([what, *numbers, verdict, note]).rstrip()
