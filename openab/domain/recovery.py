"""What becomes of a running turn whose agent is gone: one decision, from what is known of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from openab.domain.agent_events import HARMLESS_KINDS, ToolKind, ToolStatus

_FINISHED = frozenset({ToolStatus.COMPLETED, ToolStatus.FAILED})


class RecoveryPolicy(StrEnum):
    """`[recovery] policy`: whether a turn goes on by itself."""

    #: By itself if nothing but reading was under way, else somebody is asked.
    CAREFUL = "careful"
    RESUME = "resume"
    ASK = "ask"
    FAIL = "fail"


class Verdict(StrEnum):
    """What happens to the turn."""

    #: Another attempt: the agent is told what happened, and the request once more.
    CONTINUE = "continue"
    #: Another attempt with the very same prompt: the agent never got it.
    UNCHANGED = "unchanged"
    #: People are asked; until somebody answers nothing runs.
    ASK = "ask"
    #: It ends here, with what came so far.
    END = "end"


class Reason(StrEnum):
    """Why, in one word."""

    CANCELLED = "cancelled"
    #: The request was answered; only a shorter hand-off was still asked for.
    REQUEST_DONE = "request_done"
    NEVER_WRITTEN = "never_written"
    #: Somebody said that it goes on.
    TOLD_TO = "told_to"
    NOBODY_ANSWERED = "nobody_answered"
    ATTEMPTS_USED_UP = "attempts_used_up"
    #: The policy alone decides.
    POLICY = "policy"
    ONLY_READING = "only_reading"
    #: A call that may have changed something was under way.
    UNFINISHED_CALL = "unfinished_call"


class Question(StrEnum):
    """How far the question to people is."""

    OPEN = "open"
    CONTINUE = "continue"
    #: Nobody answered in time.
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A tool call of the lost attempt, with its last known state."""

    kind: ToolKind
    status: ToolStatus

    @property
    def may_have_effects(self) -> bool:
        """Not known to be finished, and of a kind that may change something."""
        return self.status not in _FINISHED and self.kind not in HARMLESS_KINDS


@dataclass(frozen=True, slots=True)
class LostTurn:
    """What is known of the turn when its agent is gone."""

    policy: RecoveryPolicy
    #: Attempts that count, the lost one included, and how many there may be in all.
    attempts: int
    max_attempts: int
    calls: Sequence[SeenCall] = ()
    is_cancelled: bool = False
    #: The agent had come to the end of the request itself.
    is_request_done: bool = False
    #: The agent's host knows that no byte of the prompt reached the agent.
    is_unwritten: bool = False
    #: What people were asked about this attempt; None: nothing.
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and why."""

    verdict: Verdict
    reason: Reason


def decide(lost: LostTurn) -> Decision:
    """A wish to cancel comes first, then facts, then a person's answer, then the limit, then the policy.

    So a turn is tried at most `max_attempts` times, whoever wants it to go on.
    """
    if lost.is_cancelled:
        return Decision(Verdict.END, Reason.CANCELLED)
    if lost.is_request_done:
        return Decision(Verdict.END, Reason.REQUEST_DONE)
    if lost.is_unwritten:
        return Decision(Verdict.UNCHANGED, Reason.NEVER_WRITTEN)
    if lost.policy is RecoveryPolicy.FAIL and lost.question is None:
        return Decision(Verdict.END, Reason.POLICY)
    if lost.attempts >= lost.max_attempts:
        return Decision(Verdict.END, Reason.ATTEMPTS_USED_UP)
    return _answered(lost) or _by_policy(lost)


def _answered(lost: LostTurn) -> Decision | None:
    if lost.question is Question.CONTINUE:
        return Decision(Verdict.CONTINUE, Reason.TOLD_TO)
    if lost.question is Question.EXPIRED:
        return Decision(Verdict.END, Reason.NOBODY_ANSWERED)
    return None


def _by_policy(lost: LostTurn) -> Decision:
    match lost.policy:
        case RecoveryPolicy.RESUME:
            return Decision(Verdict.CONTINUE, Reason.POLICY)
        case RecoveryPolicy.FAIL:
            return Decision(Verdict.END, Reason.POLICY)
        case RecoveryPolicy.ASK:
            return Decision(Verdict.ASK, Reason.POLICY)
        case RecoveryPolicy.CAREFUL:
            if any(call.may_have_effects for call in lost.calls):
                return Decision(Verdict.ASK, Reason.UNFINISHED_CALL)
            return Decision(Verdict.CONTINUE, Reason.ONLY_READING)
