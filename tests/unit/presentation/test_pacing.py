"""Edits come as often as they may, and move as often as they must."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.window import Window
from openab.ports.writer import EditOutcome
from openab.presentation.pacing import Budget, Marks, Pace, after_edit, next_edit

PACE = Pace(edit_interval=1.5, heartbeat=20)


@pytest.mark.parametrize(
    ("marks", "is_changed", "share", "window_free", "due"),
    [
        (Marks(10, 10), True, 0, 0, 11.5),
        (Marks(10, 10), False, 0, 0, 30),
        (Marks(10, 10), True, 7.5, 0, 17.5),
        (Marks(10, 10), False, 25, 0, 35),
        (Marks(10, 10), True, 0, 14, 14),
        (Marks(10, 10, not_before=19), True, 0, 0, 19),
        (Marks(28, 5), False, 0, 0, 29.5),
    ],
)
def test_the_next_edit(
    marks: Marks,
    is_changed: bool,
    share: float,
    window_free: float,
    due: float,
) -> None:
    found = next_edit(PACE, marks, is_changed=is_changed, share=share, window_free=window_free)
    assert found == due


def test_failures_back_off_doubling_and_success_forgets_them() -> None:
    marks = Marks(0, 0)
    waits = []
    for _ in range(8):
        marks = after_edit(PACE, marks, EditOutcome.LATER, 100, 100)
        waits.append(marks.not_before - 100)
    assert waits == [3, 6, 12, 24, 30, 30, 30, 30]
    assert after_edit(PACE, marks, EditOutcome.SHOWN, 200, 201) == Marks(200, 201)


def test_a_replaced_edit_is_no_failure_and_nothing_shown() -> None:
    assert after_edit(PACE, Marks(1, 1), EditOutcome.REPLACED, 5, 6) == Marks(6, 1)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=300))
def test_the_budget_never_gives_more_slots_than_its_rate_and_burst(gaps: list[float]) -> None:
    budget, now, slots = Budget(rate=10, burst=4), 0.0, []
    for gap in gaps:
        now += gap / 10
        slots.append(budget.reserve(now))
        assert slots[-1] >= now
    for first in range(len(slots)):
        inside = sum(slots[first] <= slot < slots[first] + 1 for slot in slots[first:])
        assert inside <= 10 + 4


def test_the_share_grows_with_the_turns() -> None:
    assert Budget(rate=40).share(300) == 7.5


@given(st.lists(st.floats(0, 4), max_size=80))
def test_the_window_lets_five_writes_through_in_five_seconds(gaps: list[float]) -> None:
    window, now, times = Window(), 0.0, list[float]()
    for gap in gaps:
        now = max(now + gap, window.free_at())
        window.note(now)
        times.append(now)
    assert all(later - first > 5 - 1e-9 for first, later in zip(times, times[5:], strict=False))


def test_a_spare_slot_is_one_that_nobody_waits_for() -> None:
    budget = Budget(rate=10, burst=1)
    assert budget.spare(0.0)
    assert not budget.spare(0.05)
    # What was refused took nothing; what was taken counts.
    assert budget.reserve(0.05) == pytest.approx(0.1)
    assert not budget.spare(0.15)
    assert budget.spare(0.25)
