"""A turn's events become what can be shown of it."""

from hypothesis import given
from hypothesis import strategies as st

from openab.domain.agent_events import (
    EndKind,
    HostNotice,
    PermissionAsked,
    PermissionSettled,
    PlanChanged,
    PlanEntry,
    PromptEnded,
    SessionChanged,
    TextDelta,
    Thought,
    ToolChanged,
    UsageChanged,
)
from openab.presentation.transcript import AnswerTail, TurnView, answer_text
from openab.text.fences import Fence, open_at_end


def test_every_kind_of_event_is_taken_in() -> None:
    view = TurnView()
    view.apply(Thought("hm"))
    assert (view.is_thinking, view.is_writing) == (True, False)
    asked = PermissionAsked("p1", ToolChanged("t", "rm"), ())
    for event in (
        TextDelta("a"),
        asked,
        PlanChanged((PlanEntry("one", "completed"),)),
        UsageChanged(1, 2),
        HostNotice("hard_timeout_near", 5),
        SessionChanged("mode"),
        TextDelta("b"),
    ):
        view.apply(event)
    assert (view.is_thinking, view.is_writing) == (False, True)
    assert view.permissions == {"p1": asked}
    assert view.plan[0].content == "one"
    assert view.usage == UsageChanged(1, 2)
    assert view.notice == HostNotice("hard_timeout_near", 5)
    assert answer_text(view) == "a\n\nb"
    assert [call.title for call in view.tools.calls] == ["rm"]
    view.apply(PermissionSettled("p1", "yes"))
    assert view.permissions == {}


def test_the_end_settles_what_was_asked() -> None:
    view = TurnView()
    view.apply(PermissionAsked("p1", ToolChanged("t"), ()))
    view.apply(PromptEnded(EndKind.CANCELLED))
    assert view.ended == PromptEnded(EndKind.CANCELLED)
    assert view.permissions == {}


def test_a_nul_hides_no_fence_line() -> None:
    tail = AnswerTail()
    tail.append("`\0``py\n")
    tail.append("code\n" * 2000)
    assert tail.is_cut
    assert tail.fence == Fence("```", "py")


_lines = st.sampled_from(["text\n", "```py\n", "```\n", "x" * 5000, "long line " * 90 + "\n", "\n"])


@given(st.lists(_lines, max_size=60))
def test_the_tail_is_the_end_of_the_answer_and_knows_its_fence(pieces: list[str]) -> None:
    tail, whole = AnswerTail(), ""
    for piece in pieces:
        tail.append(piece)
        whole += piece
        assert whole.endswith(tail.text)
        assert len(tail.text) >= min(len(whole), 4000)
        assert tail.is_cut == (tail.text != whole)
    if all(piece.endswith("\n") for piece in pieces):
        assert tail.fence == open_at_end(whole[: len(whole) - len(tail.text)])
