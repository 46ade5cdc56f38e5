"""What may happen to a hand-off; `openab.storage.handoffs.record` is the only writer of its state."""

from dataclasses import dataclass
from enum import StrEnum

from openab.domain.handoff.reasons import NotSent
from openab.domain.machine import Machine


class Direction(StrEnum):
    """Whose end of a hand-off a row tells."""

    OUT = "out"
    IN = "in"


class HandoffState(StrEnum):
    """Where a hand-off is."""

    #: Ours: its message is owed.
    OWED = "owed"
    #: Ours: its message is on the network.
    SENT = "sent"
    #: Ours: it will never be sent; the reason is stored.
    NOT_SENT = "not_sent"
    #: Another bot's: it was accepted, and its row is written in this state.
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class Posted:
    """The message is on the network."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """It cannot be sent."""

    reason: NotSent


HandoffEvent = Posted | Abandoned

LIFECYCLE: Machine[HandoffState] = Machine(
    initial=HandoffState.OWED,
    table={
        HandoffState.OWED: {Posted: HandoffState.SENT, Abandoned: HandoffState.NOT_SENT},
        HandoffState.SENT: {},
        HandoffState.NOT_SENT: {},
        HandoffState.ACCEPTED: {},
    },
)
