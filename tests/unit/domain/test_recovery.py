"""What becomes of a turn whose agent is gone: the whole table, and what holds for every row of it."""

import itertools

import pytest

from openab.domain.agent_events import HARMLESS_KINDS, ToolKind, ToolStatus
from openab.domain.recovery import (
    Decision,
    LostTurn,
    Question,
    Reason,
    RecoveryPolicy,
    SeenCall,
    Verdict,
    decide,
)

CAREFUL, RESUME, ASK, FAIL = RecoveryPolicy
READING = SeenCall(ToolKind.READ, ToolStatus.IN_PROGRESS)
RUN = SeenCall(ToolKind.EXECUTE, ToolStatus.COMPLETED)
RUNNING = SeenCall(ToolKind.EXECUTE, ToolStatus.IN_PROGRESS)


def lost(
    policy: RecoveryPolicy = CAREFUL,
    attempts: int = 1,
    *calls: SeenCall,
    question: Question | None = None,
    is_cancelled: bool = False,
    is_unwritten: bool = False,
    is_request_done: bool = False,
) -> LostTurn:
    """A lost turn that may be tried twice."""
    return LostTurn(
        policy=policy,
        attempts=attempts,
        max_attempts=2,
        calls=calls,
        is_cancelled=is_cancelled,
        is_request_done=is_request_done,
        is_unwritten=is_unwritten,
        question=question,
    )


TABLE = [
    # by the policy alone
    (lost(CAREFUL), Verdict.CONTINUE, Reason.ONLY_READING),
    (lost(CAREFUL, 1, READING, RUN), Verdict.CONTINUE, Reason.ONLY_READING),
    (lost(CAREFUL, 1, READING, RUNNING), Verdict.ASK, Reason.UNFINISHED_CALL),
    (lost(RESUME, 1, RUNNING), Verdict.CONTINUE, Reason.POLICY),
    (lost(ASK), Verdict.ASK, Reason.POLICY),
    (lost(FAIL), Verdict.END, Reason.POLICY),
    # the limit
    (lost(CAREFUL, 2), Verdict.END, Reason.ATTEMPTS_USED_UP),
    (lost(RESUME, 2), Verdict.END, Reason.ATTEMPTS_USED_UP),
    (lost(ASK, 3), Verdict.END, Reason.ATTEMPTS_USED_UP),
    (lost(FAIL, 2), Verdict.END, Reason.POLICY),
    (lost(ASK, 2, question=Question.CONTINUE), Verdict.END, Reason.ATTEMPTS_USED_UP),
    # a question
    (lost(ASK, 1, question=Question.OPEN), Verdict.ASK, Reason.POLICY),
    (lost(CAREFUL, 1, RUNNING, question=Question.OPEN), Verdict.ASK, Reason.UNFINISHED_CALL),
    (lost(RESUME, 1, RUNNING, question=Question.OPEN), Verdict.CONTINUE, Reason.POLICY),
    (lost(FAIL, 1, question=Question.OPEN), Verdict.END, Reason.POLICY),
    (lost(FAIL, 1, question=Question.CONTINUE), Verdict.CONTINUE, Reason.TOLD_TO),
    (lost(CAREFUL, 1, RUNNING, question=Question.CONTINUE), Verdict.CONTINUE, Reason.TOLD_TO),
    (lost(RESUME, 1, question=Question.EXPIRED), Verdict.END, Reason.NOBODY_ANSWERED),
    # what comes before all of it
    (lost(FAIL, 9, RUNNING, is_unwritten=True), Verdict.UNCHANGED, Reason.NEVER_WRITTEN),
    (lost(RESUME, is_request_done=True), Verdict.END, Reason.REQUEST_DONE),
    (lost(ASK, is_request_done=True, is_unwritten=True), Verdict.END, Reason.REQUEST_DONE),
    (lost(RESUME, is_request_done=True, is_cancelled=True), Verdict.END, Reason.CANCELLED),
    (lost(RESUME, is_cancelled=True), Verdict.END, Reason.CANCELLED),
    (lost(RESUME, is_cancelled=True, is_unwritten=True), Verdict.END, Reason.CANCELLED),
    (lost(ASK, question=Question.CONTINUE, is_cancelled=True), Verdict.END, Reason.CANCELLED),
]


@pytest.mark.parametrize(("turn", "verdict", "reason"), TABLE)
def test_each_row_of_the_table(turn: LostTurn, verdict: Verdict, reason: Reason) -> None:
    assert decide(turn) == Decision(verdict, reason)


def every_lost_turn() -> list[LostTurn]:
    """Each combination of what can be known."""
    return [
        lost(policy, attempts, *calls, question=question, is_cancelled=cancel, is_unwritten=bare)
        for policy, attempts, calls, question, cancel, bare in itertools.product(
            RecoveryPolicy,
            (0, 1, 2, 3),
            ((), (READING,), (RUN,), (RUNNING,)),
            (None, *Question),
            (False, True),
            (False, True),
        )
    ]


def test_no_turn_is_prompted_more_often_than_it_may_be() -> None:
    for turn in every_lost_turn():
        if decide(turn).verdict in {Verdict.CONTINUE, Verdict.ASK}:
            assert turn.attempts < turn.max_attempts, turn


def test_whoever_cancelled_it_is_obeyed() -> None:
    ended = Decision(Verdict.END, Reason.CANCELLED)
    assert all(decide(turn) == ended for turn in every_lost_turn() if turn.is_cancelled)


def test_only_a_person_or_the_policy_resume_repeats_what_may_have_had_effects() -> None:
    for turn in every_lost_turn():
        if RUNNING in turn.calls and decide(turn).verdict is Verdict.CONTINUE:
            assert turn.policy is RESUME or turn.question is Question.CONTINUE, turn


@pytest.mark.parametrize("kind", ToolKind)
@pytest.mark.parametrize("status", ToolStatus)
def test_a_call_may_have_effects_unless_it_ended_or_only_reads(
    kind: ToolKind, status: ToolStatus
) -> None:
    ended = status in {ToolStatus.COMPLETED, ToolStatus.FAILED}
    assert SeenCall(kind, status).may_have_effects == (not ended and kind not in HARMLESS_KINDS)
