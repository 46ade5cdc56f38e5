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


_events = st.lists(
    st.builds(TextDelta, st.text("ab\n", max_size=3), st.sampled_from([None, "1", "2"]))
    | st.builds(ToolChanged, st.sampled_from("xyz"))
    | st.builds(lambda tool: PermissionAsked("p", ToolChanged(tool), ()), st.sampled_from("xyz"))
)


def _new_tool(event: AgentEvent, seen: set[str]) -> bool:
    change = event.tool if isinstance(event, PermissionAsked) else event
    if not isinstance(change, ToolChanged) or change.tool_id in seen:
        return False
    seen.add(change.tool_id)
    return True


@given(_events)
def test_the_last_message_is_what_came_after_the_last_new_tool_call(
    events: list[AgentEvent],
) -> None:
    fold, seen, since = AnswerFold(), set[str](), 0
    for number, event in enumerate(events, start=1):
        fold.add(event)
        since = number if _new_tool(event, seen) else since
        assert fold.text[fold.after_tool :] == fold.last_message
        said = [event.text for event in events[since:number] if isinstance(event, TextDelta)]
        assert fold.last_message.startswith(next(filter(None, said), ""))
        assert fold.last_message.replace("\n", "") == "".join(said).replace("\n", "")


@given(_events, st.lists(st.text("ab\n", max_size=3)))
def test_a_fold_that_goes_on_keeps_what_it_knows_of_tool_calls(
    before: list[AgentEvent], after: list[str]
) -> None:
    whole = AnswerFold()
    for event in before:
        whole.add(event)
    second = AnswerFold(whole.text, after_tool=whole.after_tool)
    assert second.last_message == whole.last_message
    second.add(ToolChanged("other"))
    for text in after:
        second.add(TextDelta(text))
    assert second.last_message == "".join(after)


def test_an_update_of_a_known_call_cuts_nothing_off() -> None:
    fold = AnswerFold()
    for event in (ToolChanged("t"), TextDelta("a "), ToolChanged("t"), TextDelta("b")):
        fold.add(event)
    assert fold.last_message == "a b"


def test_stored_text_counts_as_one_message_where_nothing_else_is_known() -> None:
    fold = AnswerFold("stored", broken=True)
    fold.add(TextDelta("more"))
    assert fold.last_message == "stored\n\nmore"
    assert AnswerFold("one\n\ntwo", after_tool=5).last_message == "two"
    assert AnswerFold("one", after_tool=99).last_message == ""
