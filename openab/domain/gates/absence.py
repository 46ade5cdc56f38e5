"""What was said while we were away: how much of it is still answered."""

from datetime import timedelta

from openab.domain.gates.verdicts import Disposition, Verdict, ignored

#: So many messages of one conversation are answered after an absence, the oldest first.
MOST_CAUGHT_UP = 50
#: The reasons of those that are not answered any more; people are told how many.
SKIPPED = ("too_old", "too_many")
CAUGHT_UP = "caught_up"


def after_absence(verdict: Verdict, *, age: timedelta, longest: timedelta, taken: int) -> Verdict:
    """The verdict on a turn or command that was read from history, of which the gates said `verdict`.

    `taken`: how many of this conversation were taken in from the same absence before it.
    """
    if age > longest:
        return ignored("too_old")
    if verdict.disposition is Disposition.COMMAND or verdict.reason != "accepted":
        return verdict
    return ignored("too_many") if taken >= MOST_CAUGHT_UP else _caught_up(verdict)


def _caught_up(verdict: Verdict) -> Verdict:
    return Verdict(
        verdict.disposition,
        CAUGHT_UP,
        opens_thread=verdict.opens_thread,
        gathers_run=verdict.gathers_run,
    )
