"""Answers about bindings: short, inert, and true to what is bound."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from openab.domain.binding import BindingCode, BindingStatus, Limits, SessionBinding, TargetKind
from openab.domain.ids import BindingId, SessionKey
from openab.text import binding_replies
from openab.text.measure import units
from tests.builders import ASKER, a_ref

NOW = datetime(2026, 7, 1, tzinfo=UTC)
texts = st.text(st.characters(exclude_categories=()), max_size=300) | st.sampled_from(
    ["<@900>", "@everyone", "x" * 6000, "`", "", "\ud83d", "😀" * 90]
)


def a_binding(limits: Limits, key: str = "discord:900:100") -> SessionBinding:
    return SessionBinding(
        binding_id=BindingId("b"),
        target_session_key=SessionKey(key),
        target_kind=TargetKind.SESSION,
        conversation=a_ref("200"),
        status=BindingStatus.ACTIVE,
        bound_at=NOW,
        bound_by=ASKER,
        last_activity_at=NOW,
        limits=limits,
    )


@given(texts, st.lists(st.integers(1, 2**64), min_size=2, max_size=50))
def test_whatever_was_typed_pings_nobody_and_fits(typed: str, places: list[int]) -> None:
    keys = [SessionKey(f"discord:900:{place}:{'n' * 32}") for place in places]
    said = [
        binding_replies.unknown_session(typed),
        binding_replies.several_sessions(typed, keys),
        binding_replies.no_duration(typed),
        binding_replies.focus_refused(BindingCode.CREATE_FAILED, typed),
        binding_replies.agent_not_configured(typed),
    ]
    for text in said:
        assert units(text) <= 1950
        assert "<@" not in text
        assert "@everyone" not in text


def test_what_is_bound_is_told_with_its_limits_and_its_end() -> None:
    told = binding_replies.bound(a_binding(Limits(timedelta(hours=24), timedelta(days=2))))

    assert "the session of <#100>" in told
    assert "Silence: `1d`, age: `2d`" in told
    assert f"<t:{int((NOW + timedelta(days=1)).timestamp())}:R> if nothing happens here" in told


def test_what_never_ends_is_told_as_such() -> None:
    told = binding_replies.limits_changed(a_binding(Limits()))

    assert "Silence: off, age: off. It does not end by itself" in told


def test_silence_does_not_count_while_the_session_works() -> None:
    idle = Limits(timedelta(minutes=1))
    busy = replace(a_binding(idle), is_busy=True)
    told = binding_replies.limits_changed(busy)
    assert "It does not end while it works, then after `1m` of silence" in told
    aged = replace(busy, limits=replace(idle, max_age=timedelta(days=2)))
    told = binding_replies.limits_changed(aged)
    assert f"<t:{int((NOW + timedelta(days=2)).timestamp())}:R> because of its age, or" in told
    assert "after `1m` of silence, but not while it works" in told


def test_a_named_agents_session_is_told_with_its_name() -> None:
    told = binding_replies.focused(a_binding(Limits(), "discord:900:110:luna"))

    assert "the sub-agent `luna` of <#110>" in told
