"""How long people looked at an unchanged placeholder, from the edits that the loopback Discord saw."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from openab.simulator.discord.journal import Request


@dataclass(frozen=True, slots=True)
class Waits:
    """`finished` by an edit, and `open_` when the measurement ended, in seconds."""

    finished: Sequence[float]
    open_: Sequence[float]

    @property
    def longest(self) -> float:
        """The longest wait; one that had not ended yet counts too. NaN without any."""
        return max([*self.finished, *self.open_], default=math.nan)

    @property
    def mean(self) -> float:
        """Of the finished ones, which unfinished ones would pull down."""
        return fmean(self.finished) if self.finished else math.nan


def waits_of(edits: Mapping[str, Sequence[Request]], until: float) -> Waits:
    """The waits between the edits of each message. What was before its first one is not known."""
    moments = [[one.at for one in of_message if one.at <= until] for of_message in edits.values()]
    finished = [later - sooner for of_one in moments for sooner, later in pairwise(of_one)]
    return Waits(finished, [until - of_one[-1] for of_one in moments if of_one])
