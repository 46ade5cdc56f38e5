"""The live text is safe, balanced and within the limit at every moment, whatever the agent sends."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openab.domain.agent_events import (
    AgentEvent,
    HostNotice,
    PermissionAsked,
    PlanChanged,
    PlanEntry,
    TextDelta,
    Thought,
    ToolChanged,
    ToolStatus,
)
from openab.ports.feed import Phase
from openab.presentation.render import live_text
from openab.presentation.status import Moment, duration, status_line
from openab.presentation.transcript import TurnView
from openab.text.fences import open_at_end
from openab.text.neutralize import live_mentions
from openab.text.tools import ToolDisplay

MENTIONS = ("<@123456789012345678>", "<@!42>", "<@&7>", "@everyone", "@here")
WORKING = Moment(Phase.WORKING, agent_name="Sol", elapsed_seconds=130)


def _view(*events: AgentEvent) -> TurnView:
    view = TurnView()
    for event in events:
        view.apply(event)
    return view


def _tools(count: int, status: ToolStatus, start: int = 0) -> list[ToolChanged]:
    return [ToolChanged(str(n), f"tool {n}", status=status) for n in range(start, start + count)]


_text = st.sampled_from(
    [
        *MENTIONS, "<", "@", "@every", "one", "<@1", "2>", "\0", "```py\n", "```\n", "```", "~~~\n", "\n",
        "line of text\n", "x" * 700, "😀" * 300, "\ud83d", "\ude00", "`", "```" + "i" * 2500 + "\n", "  ",
    ]
)  # fmt: skip
_events = st.one_of(
    _text.map(TextDelta),
    _text.map(Thought),
    st.builds(
        ToolChanged,
        st.sampled_from("abcdefgh"),
        st.none() | _text,
        st.none(),
        st.none() | st.sampled_from(ToolStatus),
    ),
    st.builds(PermissionAsked, _text, st.builds(ToolChanged, st.just("a"), _text), st.just(())),
)
_moments = st.builds(
    Moment, st.sampled_from(Phase), _text, _text, st.floats(0, 1e6), st.floats(0, 1e4)
)


@settings(max_examples=400)
@given(st.lists(_events, max_size=40), _moments, st.sampled_from(ToolDisplay), st.booleans())
def test_every_live_text_is_a_presentation_message_that_harms_nobody(
    events: list[AgentEvent],
    moment: Moment,
    display: ToolDisplay,
    with_answer: bool,
) -> None:
    text = live_text(_view(*events), moment, display, with_answer=with_answer)
    assert text.startswith("-# ")
    assert len(text.encode("utf-16-le")) // 2 <= 2000
    assert live_mentions(text) == []
    assert open_at_end(text) is None
    assert "\0" not in text


@pytest.mark.parametrize("mention", MENTIONS)
def test_no_way_of_cutting_a_mention_into_deltas_shows_it_live(mention: str) -> None:
    for first, second in itertools.combinations_with_replacement(range(len(mention) + 1), 2):
        view = TurnView()
        for delta in ("a ", mention[:first], mention[first:second], mention[second:], " b"):
            view.apply(TextDelta(delta))
            assert live_mentions(live_text(view, WORKING)) == []


def test_thousands_of_deltas_and_overflows_show_no_mention_and_stay_balanced() -> None:
    choose = random.Random(11)
    for _ in range(60):
        view = TurnView()
        for _ in range(60):
            view.apply(
                TextDelta(choose.choice([*MENTIONS, "<", "@", "```\n", "w " * 90, "x" * 300]))
            )
            text = live_text(view, WORKING)
            assert live_mentions(text) == []
            assert open_at_end(text) is None
            assert len(text) <= 2000


def test_negative_control_neutralised_deltas_would_show_one() -> None:
    shown = "".join(live_text(_view(TextDelta(delta)), WORKING)[-1:] for delta in "<@1>")
    assert live_mentions(shown) == ["<@1>"]


def test_status_tools_and_answer_stand_in_this_order() -> None:
    view = _view(
        ToolChanged("1", "ls", status=ToolStatus.COMPLETED),
        ToolChanged("2", "cargo test", status=ToolStatus.IN_PROGRESS),
        TextDelta("Found it."),
    )
    assert live_text(view, WORKING) == (
        "-# ⏳ 2m 10s · running cargo test · Sol working\n✅ `ls`\n🔧 `cargo test`...\n\nFound it."
    )
    assert live_text(view, WORKING, ToolDisplay.COMPACT) == (
        "-# ⏳ 2m 10s · running cargo test · Sol working\n✅ 1 · 🔧 1 tool(s)\n\nFound it."
    )
    assert live_text(view, WORKING, ToolDisplay.NONE, with_answer=False) == (
        "-# ⏳ 2m 10s · running cargo test · Sol working"
    )


def test_many_tools_collapse() -> None:
    done, failed = _tools(3, ToolStatus.COMPLETED), _tools(1, ToolStatus.FAILED, 3)
    running = _tools(5, ToolStatus.IN_PROGRESS, 10)
    lines = live_text(_view(*done, *failed, *running), WORKING).split("\n")
    assert lines[1:] == [
        "✅ 3 · ❌ 1 tool(s) completed",
        "🔧 2 more running",
        "🔧 `tool 12`...",
        "🔧 `tool 13`...",
        "🔧 `tool 14`...",
    ]


def test_overflow_is_cut_visibly_at_the_top_and_shows_the_newest() -> None:
    lines = "".join(f"line {n}\n" for n in range(2000))
    text = live_text(_view(TextDelta(lines)), WORKING)
    assert "\n\n…\nline " in text
    assert text.endswith("line 1999")
    assert len(text) > 1900


def test_a_cut_in_a_line_keeps_characters_whole() -> None:
    family = "👩\u200d👩\u200d👧"
    for shift in range(8):
        text = live_text(_view(TextDelta(family * 400 + "x" * shift)), WORKING)
        shown = text.split("\n\n…\n")[1].rstrip("x")
        assert shown
        assert shown.replace(family, "") == ""


def test_a_head_that_takes_all_the_room_leaves_a_mark_for_the_answer() -> None:
    view = _view(TextDelta("answer " * 300))
    head = live_text(view, WORKING, with_answer=False)
    assert live_text(view, WORKING, limit=len(head) + 3) == f"{head}\n\n…"


def test_a_cut_inside_code_opens_the_block_again() -> None:
    text = live_text(_view(TextDelta("```python\n" + "print()\n" * 1000)), WORKING)
    assert "\n\n…\n```python\nprint()\n" in text
    assert text.endswith("print()\n```")


@pytest.mark.parametrize(
    ("moment", "line"),
    [
        (Moment(Phase.QUEUED, "2", "Sol"), "-# 📥 0s · queued behind 2 · Sol waiting"),
        (Moment(Phase.STARTING, "", "Sol"), "-# ⏳ 0s · starting · Sol"),
        (Moment(Phase.WORKING, "", "Sol"), "-# ⏳ 0s · Sol working"),
        (
            Moment(Phase.WORKING, "", "Sol", 300, 90),
            "-# ⏳ 5m 00s · quiet for 1m 30s · Sol working",
        ),
        (
            Moment(Phase.WORKING, "", "Sol", 60, 0, ("helper", "`tester`")),
            "-# ⏳ 1m 00s · 🧵 helper, 'tester' at work · Sol working",
        ),
        (
            Moment(Phase.WAITING_PERMISSION, "rm -r", "Sol"),
            "-# 🔐 0s · waiting for permission: rm -r · Sol waiting",
        ),
        (Moment(Phase.CANCELLING, "Ann", "Sol"), "-# 🛑 0s · cancelling for Ann · Sol stopping"),
        (Moment(Phase.RECOVERING), "-# 🔄 0s · recovering"),
        (
            Moment(Phase.SHORTENING, "", "Sol"),
            "-# ✂️ 0s · answered; shortening its hand-off · Sol working",
        ),
        (
            Moment(Phase.WAITING_DISCORD, "until <t:1:T>"),
            "-# ⏳ 0s · waiting for Discord until <t:1:T>",
        ),
        (Moment(Phase.UNREACHABLE, "box"), "-# 📡 0s · machine box out of reach"),
    ],
)
def test_the_status_line_tells_the_phase(moment: Moment, line: str) -> None:
    assert status_line(TurnView(), moment) == line


def test_the_status_line_tells_what_the_agent_does() -> None:
    assert "· thinking ·" in status_line(_view(Thought("hm")), WORKING)
    assert "· writing ·" in status_line(_view(TextDelta("a")), WORKING)
    plan = PlanChanged((PlanEntry("a", "completed"), PlanEntry("b")))
    assert "· plan 1/2 ·" in status_line(_view(plan), WORKING)
    assert "hard time-out near" in status_line(_view(HostNotice("hard_timeout_near", 5)), WORKING)
    asked = PermissionAsked("p", ToolChanged("t", "rm -r\n`x`"), ())
    assert "waiting for permission: rm -r 'x' · Sol waiting" in status_line(_view(asked), WORKING)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (130, "2m 10s"), (3909, "1h 05m 09s"), (-1, "0s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
