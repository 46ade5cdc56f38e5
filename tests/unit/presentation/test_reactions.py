"""Status emoji follow the turn, debounced, and there is always one."""

import pytest

from openab.domain.agent_events import EndKind, PromptEnded, TextDelta, ToolChanged, ToolStatus
from openab.domain.emojis import Emojis
from openab.ports.feed import Phase
from openab.presentation.reactions import (
    Mood,
    ReactionStep,
    ReactionTiming,
    ReactionWatch,
    classify,
    hold_seconds,
    mood,
    stalled,
    steps,
)
from openab.presentation.transcript import TurnView

TIMING = ReactionTiming()


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Web_Search: cats", Mood.WEB),
        ("browser open", Mood.WEB),
        ("Read x.py", Mood.CODING),
        ("bash ls", Mood.CODING),
        ("ask a friend", Mood.TOOL),
    ],
)
def test_tools_are_classified_by_title(title: str, expected: Mood) -> None:
    assert classify(title) is expected


def test_the_mood_follows_the_turn() -> None:
    view = TurnView()
    assert mood(view, Phase.QUEUED) is Mood.QUEUED
    assert mood(view, Phase.WORKING) is Mood.THINKING
    view.apply(ToolChanged("1", "bash ls"))
    assert mood(view, Phase.WORKING) is Mood.CODING
    view.apply(ToolChanged("1", status=ToolStatus.COMPLETED))
    assert mood(view, Phase.WORKING) is Mood.THINKING


@pytest.mark.parametrize(
    ("kind", "expected", "hold"),
    [
        (EndKind.COMPLETED, Mood.DONE, 1.5),
        (EndKind.CANCELLED, Mood.DONE, 1.5),
        (EndKind.FAILED, Mood.ERROR, 2.5),
    ],
)
def test_the_end_decides_the_last_emoji_and_its_hold(
    kind: EndKind, expected: Mood, hold: float
) -> None:
    view = TurnView()
    view.apply(PromptEnded(kind))
    assert mood(view, Phase.WORKING) is expected
    assert hold_seconds(expected, TIMING) == hold


def test_silence_shows_unless_the_turn_waits_or_ended() -> None:
    assert stalled(Mood.TOOL, 9, TIMING) is Mood.TOOL
    assert stalled(Mood.TOOL, 10, TIMING) is Mood.STALLED
    assert stalled(Mood.TOOL, 30, TIMING) is Mood.SILENT
    assert stalled(Mood.QUEUED, 99, TIMING) is Mood.QUEUED


def test_a_wish_is_given_once_it_stood_still() -> None:
    watch, view = ReactionWatch(Emojis(), TIMING), TurnView()
    assert watch.look(view, Phase.WORKING, 0, 0) == "🤔"
    view.apply(ToolChanged("1", "bash"))
    assert watch.look(view, Phase.WORKING, 1, 1) is None
    assert watch.next_look(view, 1, 1) == 1.7
    view.apply(ToolChanged("2", "web_search"))
    assert watch.look(view, Phase.WORKING, 1.5, 1.5) is None
    assert watch.look(view, Phase.WORKING, 1.5, 1.7) is None
    assert watch.look(view, Phase.WORKING, 1.5, 2.2) == "⚡"
    assert watch.look(view, Phase.WORKING, 1.5, 3) is None
    assert watch.next_look(view, 1.5, 3) == 11.5


def test_nothing_is_given_after_the_end_or_without_emojis() -> None:
    view = TurnView()
    silent = ReactionWatch(None, TIMING)
    assert silent.look(view, Phase.WORKING, 0, 0) is None
    assert silent.next_look(view, 0, 0) is None
    view.apply(TextDelta("x"))
    view.apply(PromptEnded(EndKind.COMPLETED))
    assert ReactionWatch(Emojis(), TIMING).look(view, Phase.WORKING, 0, 0) is None


def test_steps_add_before_they_remove() -> None:
    add, remove = ReactionStep("b", is_add=True), ReactionStep("a", is_add=False)
    assert steps(["a"], "b") == [add, remove]
    assert steps(["a", "b"], "b") == [remove]
    assert steps(["a"], None) == [remove]
    assert steps(["b"], "b") == []


def test_a_limit_of_zero_is_none() -> None:
    never = ReactionTiming(stall_soft=0, stall_hard=0)
    assert stalled(Mood.TOOL, 999, never) is Mood.TOOL
    assert stalled(Mood.TOOL, 999, ReactionTiming(stall_hard=0)) is Mood.STALLED
    assert stalled(Mood.TOOL, 999, ReactionTiming(stall_soft=0)) is Mood.SILENT
    watch = ReactionWatch(Emojis(), never)
    assert not watch.is_stalled(0, 999)
    assert watch.look(TurnView(), Phase.WORKING, 0, 999) == "🤔"
    assert watch.next_look(TurnView(), 0, 999) is None


def test_silence_shows_in_two_steps_and_ends_with_the_next_sign() -> None:
    watch, view = ReactionWatch(Emojis(), ReactionTiming(debounce=0)), TurnView()
    seen = [watch.look(view, Phase.WORKING, 0, now) for now in (0, 9, 10, 29, 30)]
    assert seen == ["🤔", None, "🥱", None, "😨"]
    assert watch.is_stalled(0, 30)
    assert watch.look(view, Phase.WORKING, 31, 31) == "🤔"


@pytest.mark.parametrize("phase", [Phase.WAITING_PERMISSION, Phase.WAITING_DISCORD])
def test_an_agent_that_waits_is_not_silent(phase: Phase) -> None:
    watch = ReactionWatch(Emojis(), TIMING)
    assert watch.look(TurnView(), phase, 0, 60) == "🤔"


def test_an_empty_emoji_takes_the_former_one_away() -> None:
    watch, view = ReactionWatch(Emojis(thinking=""), TIMING), TurnView()
    assert watch.look(view, Phase.WORKING, 0, 0) == ""
    assert watch.look(view, Phase.WORKING, 1, 1) is None
