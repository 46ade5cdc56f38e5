"""A binding's end to the instant, by whichever limit is first; its lifecycle; whom it belongs to."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.binding import (
    LIFECYCLE,
    BindingStatus,
    Cleared,
    EndReason,
    Limits,
    Reattached,
    SessionBinding,
    TargetKind,
    Unbound,
    may_reattach,
)
from openab.domain.errors import IllegalTransition
from openab.domain.ids import BindingId, SessionKey
from tests.builders import a_ref

START = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
HOUR = timedelta(hours=1)


def a_binding(**changes: object) -> SessionBinding:
    made = SessionBinding(
        binding_id=BindingId("b"),
        target_session_key=SessionKey("net:1:2:luna"),
        target_kind=TargetKind.SUBAGENT,
        conversation=a_ref(),
        status=BindingStatus.ACTIVE,
        bound_at=START,
        bound_by="31",
        last_activity_at=START,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("binding", "lasts", "reason"),
    [
        (a_binding(limits=Limits(idle=HOUR)), HOUR, EndReason.IDLE),
        (
            a_binding(limits=Limits(idle=HOUR), last_activity_at=START + HOUR / 2),
            HOUR * 1.5,
            EndReason.IDLE,
        ),
        (a_binding(limits=Limits(max_age=HOUR)), HOUR, EndReason.MAX_AGE),
        # Use does not make it younger.
        (
            a_binding(limits=Limits(max_age=HOUR), last_activity_at=START + HOUR / 2),
            HOUR,
            EndReason.MAX_AGE,
        ),
        (a_binding(expires_at=START + HOUR), HOUR, EndReason.EXPIRED),
        # The first of them.
        (
            a_binding(limits=Limits(idle=HOUR, max_age=2 * HOUR), expires_at=START + 3 * HOUR),
            HOUR,
            EndReason.IDLE,
        ),
        (
            a_binding(limits=Limits(idle=3 * HOUR, max_age=HOUR), expires_at=START + 2 * HOUR),
            HOUR,
            EndReason.MAX_AGE,
        ),
        (
            a_binding(limits=Limits(idle=3 * HOUR, max_age=2 * HOUR), expires_at=START + HOUR),
            HOUR,
            EndReason.EXPIRED,
        ),
        # At work it is not idle, and grows old all the same.
        (
            a_binding(limits=Limits(idle=HOUR, max_age=2 * HOUR), is_busy=True),
            2 * HOUR,
            EndReason.MAX_AGE,
        ),
        (
            a_binding(limits=Limits(idle=HOUR), expires_at=START + 2 * HOUR, is_busy=True),
            2 * HOUR,
            EndReason.EXPIRED,
        ),
    ],
)
def test_it_ends_to_the_instant(
    binding: SessionBinding, lasts: timedelta, reason: EndReason
) -> None:
    end = START + lasts
    assert binding.ends_at() == (end, reason)
    assert binding.expired_by(end - INSTANT) is None
    assert binding.expired_by(end) is reason
    assert binding.expired_by(end + timedelta(days=1000)) is reason


@pytest.mark.parametrize(
    "binding", [a_binding(), a_binding(limits=Limits(idle=HOUR), is_busy=True)]
)
def test_without_a_limit_that_counts_it_never_ends(binding: SessionBinding) -> None:
    assert binding.ends_at() is None
    assert binding.expired_by(START + timedelta(days=10_000)) is None


spans = st.none() | st.timedeltas(timedelta(0), timedelta(days=400))
moments = st.timedeltas(timedelta(0), timedelta(days=800)).map(lambda later: START + later)
bindings = st.builds(
    lambda idle, max_age, ttl, used, busy: a_binding(
        limits=Limits(idle, max_age),
        expires_at=None if ttl is None else START + ttl,
        last_activity_at=used,
        is_busy=busy,
    ),
    spans,
    spans,
    spans,
    moments,
    st.booleans(),
)


@given(bindings, moments, moments)
def test_what_is_over_stays_over(binding: SessionBinding, one: datetime, other: datetime) -> None:
    earlier, later = sorted((one, other))
    if binding.expired_by(earlier):
        assert binding.expired_by(later)


@given(bindings, st.timedeltas(timedelta(0), timedelta(days=400)))
def test_use_never_shortens_it(binding: SessionBinding, later: timedelta) -> None:
    used = replace(binding, last_activity_at=binding.last_activity_at + later)
    before, after = binding.ends_at(), used.ends_at()
    assert (before is None) == (after is None)
    if before and after:
        assert after[0] >= before[0]


@given(bindings, moments)
def test_it_is_over_by_the_first_of_its_limits(binding: SessionBinding, now: datetime) -> None:
    idle, max_age = binding.limits.idle, binding.limits.max_age
    over = {
        EndReason.IDLE: idle is not None
        and not binding.is_busy
        and now - binding.last_activity_at >= idle,
        EndReason.MAX_AGE: max_age is not None and now - binding.bound_at >= max_age,
        EndReason.EXPIRED: binding.expires_at is not None and now >= binding.expires_at,
    }
    reason = binding.expired_by(now)
    assert bool(reason) == any(over.values())
    assert reason is None or over[reason]


def test_lifecycle() -> None:
    active, ending, ended = BindingStatus
    assert LIFECYCLE.next(active, Unbound(EndReason.IDLE)) is ending
    assert LIFECYCLE.next(ending, Cleared()) is ended
    assert LIFECYCLE.next(ended, Reattached()) is active
    assert LIFECYCLE.terminal == {ended}


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (BindingStatus.ACTIVE, Cleared()),
        (BindingStatus.ACTIVE, Reattached()),
        (BindingStatus.ENDING, Unbound(EndReason.IDLE)),
        (BindingStatus.ENDING, Reattached()),
        (BindingStatus.ENDED, Unbound(EndReason.IDLE)),
        (BindingStatus.ENDED, Cleared()),
    ],
)
def test_nothing_else_moves_it(state: BindingStatus, event: object) -> None:
    with pytest.raises(IllegalTransition):
        LIFECYCLE.next(state, event)


class TestReattaching:
    ARCHIVED = a_binding(
        status=BindingStatus.ENDED, end_reason=EndReason.ARCHIVED, limits=Limits(idle=HOUR)
    )

    def test_an_archived_one_goes_on_while_its_time_is_not_over(self) -> None:
        assert may_reattach(self.ARCHIVED, START + HOUR - INSTANT)
        assert not may_reattach(self.ARCHIVED, START + HOUR)

    @pytest.mark.parametrize("reason", [one for one in EndReason if one is not EndReason.ARCHIVED])
    def test_one_that_ended_otherwise_does_not(self, reason: EndReason) -> None:
        assert not may_reattach(replace(self.ARCHIVED, end_reason=reason), START)

    @pytest.mark.parametrize("status", [BindingStatus.ACTIVE, BindingStatus.ENDING])
    def test_one_that_is_not_ended_does_not(self, status: BindingStatus) -> None:
        assert not may_reattach(replace(self.ARCHIVED, status=status), START)


def test_it_belongs_to_who_bound_it_and_openabs_own_to_nobody() -> None:
    assert a_binding().is_owned_by("31")
    assert not a_binding().is_owned_by("32")
    assert not a_binding(bound_by="").is_owned_by("")
