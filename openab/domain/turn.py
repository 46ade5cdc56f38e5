"""A turn: one prompt to one outcome, and what may happen to it.

Two rules, as for every lifecycle here: whatever changes a turn's state is an arrow of LIFECYCLE,
and `openab.storage.turns.record` is the only writer of the column.
"""

from dataclasses import dataclass
from enum import StrEnum

from openab.domain.machine import Machine


class TurnState(StrEnum):
    """Where a turn is."""

    #: Accepted and waiting for its place in the conversation; may still take more messages.
    QUEUED = "queued"
    #: Claimed: its content is closed, an agent works on it or is about to.
    RUNNING = "running"
    #: The run is over and its outcome is stored; rows for the outside world are still owed.
    ANSWERED = "answered"
    #: Everything owed is delivered and the agent completed.
    DONE = "done"
    #: The agent failed, or something owed could not be delivered.
    FAILED = "failed"
    #: A person cancelled it.
    CANCELLED = "cancelled"
    #: The broker or the agent was lost in the middle of it.
    INTERRUPTED = "interrupted"


class Outcome(StrEnum):
    """How a run ended; decided once, in the transaction that ends it."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class TurnSource(StrEnum):
    """What made the turn."""

    MESSAGE = "message"
    HANDOFF = "handoff"
    SCHEDULE = "schedule"
    #: A sub-agent's task.
    SPAWN = "spawn"
    #: A sub-agent's result, told to the session that asked for it.
    COMPLETION = "completion"


@dataclass(frozen=True, slots=True)
class Claimed:
    """An owner begins to run it."""


@dataclass(frozen=True, slots=True)
class CancelledQueued:
    """A person cancelled it before it was claimed."""


@dataclass(frozen=True, slots=True)
class AgentLost:
    """The agent is gone and the turn goes on with another attempt."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over, with an outcome."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class SettledDone:
    """All owed rows are settled, the outcome was `completed`."""


@dataclass(frozen=True, slots=True)
class SettledFailed:
    """All owed rows are settled, the outcome was `failed`."""


@dataclass(frozen=True, slots=True)
class SettledCancelled:
    """All owed rows are settled, the outcome was `cancelled`."""


@dataclass(frozen=True, slots=True)
class SettledInterrupted:
    """All owed rows are settled, the outcome was `interrupted`."""


@dataclass(frozen=True, slots=True)
class RowDead:
    """All owed rows are settled, and one of them could not be delivered."""


@dataclass(frozen=True, slots=True)
class OwedAnew:
    """Somebody wants what could not be delivered to be sent again: the turn has something owed."""


TurnEvent = (
    Claimed
    | CancelledQueued
    | AgentLost
    | Ended
    | SettledDone
    | SettledFailed
    | SettledCancelled
    | SettledInterrupted
    | RowDead
    | OwedAnew
)

LIFECYCLE: Machine[TurnState] = Machine(
    initial=TurnState.QUEUED,
    table={
        TurnState.QUEUED: {Claimed: TurnState.RUNNING, CancelledQueued: TurnState.CANCELLED},
        TurnState.RUNNING: {AgentLost: TurnState.RUNNING, Ended: TurnState.ANSWERED},
        TurnState.ANSWERED: {
            SettledDone: TurnState.DONE,
            SettledFailed: TurnState.FAILED,
            SettledCancelled: TurnState.CANCELLED,
            SettledInterrupted: TurnState.INTERRUPTED,
            RowDead: TurnState.FAILED,
        },
        TurnState.DONE: {},
        TurnState.FAILED: {},
        TurnState.CANCELLED: {},
        TurnState.INTERRUPTED: {},
    },
    reopened={TurnState.FAILED: {OwedAnew: TurnState.ANSWERED}},
)

_SETTLED: dict[Outcome, TurnEvent] = {
    Outcome.COMPLETED: SettledDone(),
    Outcome.FAILED: SettledFailed(),
    Outcome.CANCELLED: SettledCancelled(),
    Outcome.INTERRUPTED: SettledInterrupted(),
}


def settled(outcome: Outcome, *, any_dead: bool) -> TurnEvent:
    """The event for an answered turn whose owed rows are all settled."""
    return RowDead() if any_dead else _SETTLED[outcome]
