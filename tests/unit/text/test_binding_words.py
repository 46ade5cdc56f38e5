"""What people read when a conversation is bound, and when it is not any more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from openab.domain.binding import (
    BindingStatus,
    EndReason,
    Limits,
    SessionBinding,
    TargetKind,
)
from openab.domain.ids import (
    AccountId,
    BindingId,
    ChannelName,
    ConversationRef,
    PlatformId,
    SessionKey,
)
from openab.text import binding_words
from openab.text.neutralize import live_mentions

_REF = ConversationRef(ChannelName("discord"), AccountId("900"), PlatformId("500"))
BOUND = SessionBinding(
    binding_id=BindingId("b1"),
    target_session_key=_REF.session_key("fable"),
    target_kind=TargetKind.SUBAGENT,
    conversation=_REF,
    status=BindingStatus.ACTIVE,
    bound_at=datetime(2026, 7, 1, tzinfo=UTC),
    bound_by="31",
    last_activity_at=datetime(2026, 7, 1, tzinfo=UTC),
    metadata={"by": "Ann"},
)
A_DAY = Limits(idle=timedelta(hours=24), max_age=timedelta(days=7))


def test_the_intro_names_the_agent_who_asked_how_long_and_how_it_ends() -> None:
    told = binding_words.begun(replace(BOUND, limits=A_DAY))
    assert "the sub-agent **fable**" in told
    assert "as Ann asked" in told
    assert "nothing has happened here for 1d, or until it is 7d old" in told
    assert "/unfocus" in told


def test_another_session_is_named_by_its_place_and_without_one_by_its_key() -> None:
    other = replace(BOUND, target_kind=TargetKind.SESSION, metadata={})
    told = binding_words.begun(other)
    assert "the session of <#500>" in told
    assert "discord:900" not in told
    assert "asked" not in told
    assert "until it is ended" in told
    told = binding_words.begun(replace(other, target_session_key=SessionKey("matrix:900:!a")))
    assert "the session `matrix:900:!a`" in told
    assert "`/focus session:matrix:900:!a`" in binding_words.ended(
        replace(other, target_session_key=SessionKey("matrix:900:!a"))
    )


def test_a_farewell_gives_the_way_back() -> None:
    ended = replace(BOUND, end_reason=EndReason.UNFOCUSED)
    assert "`/focus session:fable` brings it back." in binding_words.ended(ended)
    elsewhere = replace(ended, conversation=replace(_REF, conversation_id=PlatformId("501")))
    assert "`/focus session:500` brings it back." in binding_words.ended(elsewhere)
    replaced = binding_words.ended(replace(ended, end_reason=EndReason.REPLACED))
    assert "brings it back" not in replaced


def test_a_farewell_tells_that_the_session_still_works() -> None:
    ended = replace(BOUND, end_reason=EndReason.UNFOCUSED)
    assert "at work" not in binding_words.ended(ended)
    told = binding_words.ended(replace(ended, is_busy=True))
    assert "It is still at work: what it finds is shown where it was asked for." in told


def test_a_time_to_live_is_told() -> None:
    ends = datetime(2026, 7, 2, tzinfo=UTC)
    told = binding_words.begun(replace(BOUND, expires_at=ends))
    assert f"<t:{int(ends.timestamp())}:f>" in told


@pytest.mark.parametrize("reason", list(EndReason))
def test_every_reason_has_a_farewell(reason: EndReason) -> None:
    ended = replace(BOUND, limits=A_DAY, end_reason=reason, status=BindingStatus.ENDING)
    assert "fable" in binding_words.ended(ended)


def test_the_reasons_are_told_apart() -> None:
    told = {
        reason: binding_words.ended(replace(BOUND, limits=A_DAY, end_reason=reason))
        for reason in (
            EndReason.IDLE,
            EndReason.MAX_AGE,
            EndReason.EXPIRED,
            EndReason.UNFOCUSED,
            EndReason.REPLACED,
        )
    }
    assert len(set(told.values())) == len(told)
    assert "for 1d" in told[EndReason.IDLE]
    assert "after 7d" in told[EndReason.MAX_AGE]
    assert "bound to something else" in told[EndReason.REPLACED]


@pytest.mark.parametrize("limits", [Limits(), A_DAY])
def test_a_name_from_outside_stays_on_its_line_and_pings_nobody(limits: Limits) -> None:
    named = {"by": "<@31>\n@everyone `x`" + "y" * 200}
    told = binding_words.begun(replace(BOUND, metadata=named, limits=limits))
    assert not live_mentions(told)
    assert "\n" not in told
    assert len(told) < 600
