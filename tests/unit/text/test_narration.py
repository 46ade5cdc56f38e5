"""A final leaves narration out only where nobody watched it, and is never empty for that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.control.cuts import is_blank
from openab.domain.agent_events import AgentEvent, TextDelta, ToolChanged
from openab.text.answer import AnswerFold
from openab.text.narration import Narration, delivered, delivered_of

STREAMED = Narration(is_streamed=True)
WANTED = Narration(is_streamed=False, is_wanted=True)
anything = st.text(st.characters(exclude_categories=())) | st.text(" \n\0\u200b\u2800<@")
SEND_ONCE = Narration(is_streamed=False)


def _fold(*events: AgentEvent) -> AnswerFold:
    fold = AnswerFold()
    for event in events:
        fold.add(event)
    return fold


def test_a_send_once_turn_delivers_what_follows_the_last_tool_call() -> None:
    fold = _fold(
        TextDelta("I look."), ToolChanged("a"), TextDelta("And there."), ToolChanged("b"), TextDelta("Done.\n")
    )  # fmt: skip
    assert delivered_of(fold, SEND_ONCE) == "Done.\n"
    for narration in (STREAMED, WANTED):
        assert delivered_of(fold, narration) == "I look.\n\nAnd there.\n\nDone.\n"


@pytest.mark.parametrize("end", [(), (TextDelta(" \n\0\u200b"),)])
def test_a_turn_that_ends_with_a_tool_call_delivers_everything(end: tuple[TextDelta, ...]) -> None:
    fold = _fold(TextDelta("All is well."), ToolChanged("a"), *end)
    assert delivered_of(fold, SEND_ONCE) == fold.text
    assert "All is well." in fold.text


def test_a_turn_without_tools_has_no_narration() -> None:
    fold = _fold(TextDelta("one", "1"), TextDelta("two", "2"))
    assert delivered_of(fold, SEND_ONCE) == "one\n\ntwo"


@given(anything, anything, st.builds(Narration, st.booleans(), st.booleans()))
def test_it_is_one_of_the_two_and_never_blank_for_the_rule(
    before: str, last: str, narration: Narration
) -> None:
    answer = before + last
    shown = delivered(answer, last, narration)
    assert shown == (answer if narration.stays or is_blank(last) else last)
    assert is_blank(shown) == is_blank(answer)
