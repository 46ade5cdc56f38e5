"""Why no sub-agent is started: each reason alone, the first of several, and every limit at its edge."""

from dataclasses import replace
from itertools import product

import pytest

from openab.domain.errors import IllegalTransition
from openab.domain.spawn import (
    LIFECYCLE,
    Finished,
    Held,
    Opened,
    Refused,
    SpawnLimits,
    SpawnRefusal,
    SpawnState,
    Standing,
    refusal,
)

ON = SpawnLimits(is_on=True, depth=2, at_once=3, in_a_row=4)
FINE = Standing(depth=1, at_work=0, in_a_row=1)


def judged(
    limits: SpawnLimits = ON,
    standing: Standing = FINE,
    *,
    is_known: bool = True,
    has_task: bool = True,
    has_threads: bool = True,
) -> SpawnRefusal | None:
    return refusal(limits, standing, is_known=is_known, has_task=has_task, has_threads=has_threads)


def test_what_is_in_order_is_started() -> None:
    assert judged() is None


def test_it_is_off_unless_somebody_switched_it_on() -> None:
    assert judged(SpawnLimits()) is SpawnRefusal.SWITCHED_OFF


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("is_known", SpawnRefusal.UNKNOWN_AGENT),
        ("has_task", SpawnRefusal.NO_TASK),
        ("has_threads", SpawnRefusal.NO_THREADS_HERE),
    ],
)
def test_what_is_missing_is_named(named: str, reason: SpawnRefusal) -> None:
    assert judged(**{named: False}) is reason  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("named", "most", "reason"),
    [
        ("depth", 2, SpawnRefusal.TOO_DEEP),
        # Those that are at work already: the third is the last.
        ("at_work", 2, SpawnRefusal.TOO_MANY),
        ("in_a_row", 4, SpawnRefusal.TOO_MANY_IN_A_ROW),
    ],
)
def test_each_limit_at_its_edge(named: str, most: int, reason: SpawnRefusal) -> None:
    assert judged(standing=replace(FINE, **{named: most})) is None
    assert judged(standing=replace(FINE, **{named: most + 1})) is reason


def test_the_first_of_several_is_told() -> None:
    order = [
        SpawnRefusal.SWITCHED_OFF,
        SpawnRefusal.UNKNOWN_AGENT,
        SpawnRefusal.NO_TASK,
        SpawnRefusal.NO_THREADS_HERE,
        SpawnRefusal.TOO_DEEP,
        SpawnRefusal.TOO_MANY,
        SpawnRefusal.TOO_MANY_IN_A_ROW,
    ]
    for wrong in product((False, True), repeat=len(order)):
        off, unknown, no_task, nowhere, deep, many, in_a_row = wrong
        found = judged(
            replace(ON, is_on=not off),
            Standing(9 if deep else 1, 9 if many else 0, 9 if in_a_row else 1),
            is_known=not unknown,
            has_task=not no_task,
            has_threads=not nowhere,
        )
        assert found == next((why for why, holds in zip(order, wrong, strict=True) if holds), None)


def test_every_reason_but_one_is_known_before_the_starter() -> None:
    """That one is what becomes of the starter itself."""
    told = {judged(SpawnLimits())}
    told |= {judged(**{named: False}) for named in ("is_known", "has_task", "has_threads")}  # type: ignore[arg-type]
    told |= {
        judged(standing=replace(FINE, **{named: 9})) for named in ("depth", "at_work", "in_a_row")
    }
    assert set(SpawnRefusal) - told == {SpawnRefusal.NO_STARTER}


def test_lifecycle() -> None:
    assert LIFECYCLE.initial is SpawnState.OWED
    assert LIFECYCLE.next(SpawnState.OWED, Opened()) is SpawnState.OPENED
    assert LIFECYCLE.next(SpawnState.OPENED, Finished()) is SpawnState.FINISHED
    assert LIFECYCLE.next(SpawnState.OPENED, Held()) is SpawnState.HELD
    assert LIFECYCLE.next(SpawnState.HELD, Finished()) is SpawnState.FINISHED
    assert LIFECYCLE.terminal == {SpawnState.FINISHED, SpawnState.REFUSED}


@pytest.mark.parametrize("state", [one for one in SpawnState if one is not SpawnState.OWED])
def test_what_has_begun_is_neither_refused_nor_opened_again(state: SpawnState) -> None:
    for event in (Refused(SpawnRefusal.NO_STARTER), Opened()):
        with pytest.raises(IllegalTransition):
            LIFECYCLE.next(state, event)
