"""When the next edit may go out: the turn's interval, the heartbeat, the account's budget. Pure: time is passed in."""

from dataclasses import dataclass, replace

from openab.ports.writer import EditOutcome

#: Requests a second that an account's edits may use; Discord's 50 less 10 for sends and look-ups.
ACCOUNT_RATE = 40.0
_LONGEST_BACK_OFF = 30.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a turn may and must be seen to move, in seconds."""

    edit_interval: float
    heartbeat: float


@dataclass(frozen=True, slots=True)
class Marks:
    """What a turn's pace remembers: monotonic seconds."""

    #: When something last went out, or the placeholder appeared.
    sent_at: float
    #: When people last saw something move.
    shown_at: float
    not_before: float = 0.0
    failures: int = 0


def next_edit(
    pace: Pace, marks: Marks, *, is_changed: bool, share: float = 0.0, window_free: float = 0.0
) -> float:
    """When the next edit is due: for a change after the interval, else as a heartbeat.

    `share` is the interval that the account's budget leaves to this turn, `window_free` when the
    conversation can take another write.
    """
    interval = max(pace.edit_interval, share)
    due = marks.sent_at + interval
    if not is_changed:
        due = max(due, marks.shown_at + pace.heartbeat)
    return max(due, marks.not_before, window_free)


def after_edit(pace: Pace, marks: Marks, outcome: EditOutcome, sent: float, now: float) -> Marks:
    """The marks after an edit that went out at `sent` and was settled at `now`; failures back off doubling."""
    if outcome is EditOutcome.SHOWN:
        return Marks(sent_at=sent, shown_at=now)
    if outcome is EditOutcome.REPLACED:
        return replace(marks, sent_at=now)
    wait = min(_LONGEST_BACK_OFF, pace.edit_interval * 2 ** min(marks.failures + 1, 10))
    return replace(marks, sent_at=sent, not_before=now + wait, failures=marks.failures + 1)


class Budget:
    """An account's edits: slots in the order they are asked for, at `rate` a second, with a small burst."""

    def __init__(self, rate: float = ACCOUNT_RATE, burst: int = 4) -> None:
        self.rate = rate
        self._burst = burst
        self._next = float("-inf")

    def share(self, running: int) -> float:
        """The fair interval when so many turns are shown."""
        return running / self.rate

    def spare(self, now: float) -> bool:
        """Take a slot if one is free at this moment; False: nobody may have it yet, and none was taken."""
        is_free = self._next <= now
        if is_free:
            self.reserve(now)
        return is_free

    def reserve(self, now: float) -> float:
        """Take the next slot; the answer is when it is, `now` at the earliest."""
        slot = max(self._next, now - (self._burst - 1) / self.rate)
        self._next = slot + 1 / self.rate
        return max(now, slot)
