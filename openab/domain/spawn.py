"""A spawn: one task given to a sub-agent, from its starter message to the parent that learns the result."""

from dataclasses import dataclass
from enum import StrEnum

from openab.domain.machine import Machine


class SpawnState(StrEnum):
    """Where a spawn is."""

    #: The message that its thread will hang on is owed; there is nothing else yet.
    OWED = "owed"
    #: Thread, binding, session and turn are rows.
    OPENED = "opened"
    #: The task is over; its completion waits for a conversation that is bound to the session.
    HELD = "held"
    #: The completion went where it belongs, and the parent was told.
    FINISHED = "finished"
    #: It never began; the reason is stored, and was told where it was asked for.
    REFUSED = "refused"


class SpawnRefusal(StrEnum):
    """Why no sub-agent was started: stable words, they stand in logs and the metrics."""

    #: `spawn_subagent_sessions` is off.
    SWITCHED_OFF = "switched_off"
    #: There is no `[agents.NAME]`.
    UNKNOWN_AGENT = "unknown_agent"
    NO_TASK = "no_task"
    #: Threads can be opened in channels of a server only, and only in those where people are heard.
    NO_THREADS_HERE = "no_threads_here"
    #: A sub-agent may not start sub-agents that deep.
    TOO_DEEP = "too_deep"
    #: So many of this session's sub-agents are at work already.
    TOO_MANY = "too_many"
    #: So many in a row without a person's word between.
    TOO_MANY_IN_A_ROW = "too_many_in_a_row"
    #: The starter message was refused, or nobody knows whether it is there, or somebody deleted it.
    NO_STARTER = "no_starter"


@dataclass(frozen=True, slots=True)
class SpawnLimits:
    """How far sub-agents may go."""

    is_on: bool = False
    #: A sub-agent of a sub-agent has depth 2.
    depth: int = 1
    #: At work at once for one session.
    at_once: int = 5
    #: Completions that lead to spawns that lead to completions, without a person between.
    in_a_row: int = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of who asks."""

    #: 1 for what an ordinary session starts.
    depth: int
    at_work: int
    in_a_row: int


def refusal(
    limits: SpawnLimits, standing: Standing, *, is_known: bool, has_task: bool, has_threads: bool
) -> SpawnRefusal | None:
    """Why this is not started; the first that holds. `is_known`: the agent is configured."""
    checks = (
        (not limits.is_on, SpawnRefusal.SWITCHED_OFF),
        (not is_known, SpawnRefusal.UNKNOWN_AGENT),
        (not has_task, SpawnRefusal.NO_TASK),
        (not has_threads, SpawnRefusal.NO_THREADS_HERE),
        (standing.depth > limits.depth, SpawnRefusal.TOO_DEEP),
        (standing.at_work >= limits.at_once, SpawnRefusal.TOO_MANY),
        (standing.in_a_row > limits.in_a_row, SpawnRefusal.TOO_MANY_IN_A_ROW),
    )
    return next((word for holds, word in checks if holds), None)


@dataclass(frozen=True, slots=True)
class Opened:
    """The starter is on the network, so the thread's id is known."""


@dataclass(frozen=True, slots=True)
class Held:
    """The task is over, and nothing is bound that its completion could go to."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The completion went where it belongs, or that was given up openly."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It never begins."""

    reason: SpawnRefusal


SpawnEvent = Opened | Held | Finished | Refused

LIFECYCLE: Machine[SpawnState] = Machine(
    initial=SpawnState.OWED,
    table={
        SpawnState.OWED: {Opened: SpawnState.OPENED, Refused: SpawnState.REFUSED},
        SpawnState.OPENED: {Held: SpawnState.HELD, Finished: SpawnState.FINISHED},
        SpawnState.HELD: {Finished: SpawnState.FINISHED},
        SpawnState.FINISHED: {},
        SpawnState.REFUSED: {},
    },
)
