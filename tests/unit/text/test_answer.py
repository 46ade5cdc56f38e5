"""The answer is the deltas byte for byte, with a paragraph where another message begins."""

from hypothesis import given
from hypothesis import strategies as st

from openab.domain.agent_events import (
    AgentEvent,
    PermissionAsked,
    TextDelta,
    Thought,
    ToolChanged,
    ToolStatus,
)
from openab.text.answer import AnswerFold


def _answer(*events: AgentEvent) -> str:
    fold = AnswerFold()
    for event in events:
        fold.add(event)
    return fold.text


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_deltas_of_one_message_are_joined_byte_for_byte(deltas: list[str]) -> None:
    assert _answer(*(TextDelta(delta, "m") for delta in deltas)) == "".join(deltas)


@given(
    st.lists(
        st.builds(TextDelta, st.text("ab\n", max_size=3), st.sampled_from([None, "1", "2"]))
        | st.builds(ToolChanged, st.sampled_from("xyz"))
    )
)
def test_the_appended_pieces_make_up_the_answer_and_lose_nothing(events: list[AgentEvent]) -> None:
    fold = AnswerFold()
    pieces = [fold.add(event) for event in events]
    assert "".join(pieces) == fold.text
    raw = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert fold.text.replace("\n", "") == raw.replace("\n", "")


def test_another_message_or_a_new_tool_call_begins_a_paragraph() -> None:
    assert _answer(TextDelta("a", "1"), TextDelta("b", "2")) == "a\n\nb"
    assert _answer(TextDelta("a"), ToolChanged("t"), TextDelta("b")) == "a\n\nb"
    asked = PermissionAsked("p", ToolChanged("t"), ())
    assert _answer(TextDelta("a"), asked, TextDelta("b")) == "a\n\nb"


def test_only_the_missing_line_feeds_are_put() -> None:
    assert _answer(TextDelta("a\n"), ToolChanged("t"), TextDelta("b")) == "a\n\nb"
    assert _answer(TextDelta("a\n"), ToolChanged("t"), TextDelta("\nb")) == "a\n\nb"
    assert _answer(TextDelta("a\n\n"), ToolChanged("t"), TextDelta("\nb")) == "a\n\n\nb"


def test_neither_a_thought_nor_an_update_of_a_known_call_breaks_a_sentence() -> None:
    update = ToolChanged("t", status=ToolStatus.COMPLETED)
    events = (ToolChanged("t"), TextDelta("a "), update, Thought("hm"), TextDelta("b"))
    assert _answer(*events) == "a b"


def test_a_fold_goes_on_from_what_is_stored() -> None:
    fold = AnswerFold("stored", broken=True)
    assert fold.add(TextDelta("more")) == "\n\nmore"
    assert fold.text == "stored\n\nmore"
    assert AnswerFold("stored").add(TextDelta("!")) == "!"
