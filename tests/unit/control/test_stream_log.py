"""What a crash leaves of a stream reads the same as what the running process knew."""

from hypothesis import given
from hypothesis import strategies as st

from openab.control.left_behind import LeftBehind
from openab.control.stream_log import StreamRecord
from openab.domain.agent_events import (
    AgentEvent,
    Numbered,
    Position,
    TextDelta,
    Thought,
    ToolChanged,
    ToolStatus,
)
from openab.domain.ids import ConversationId, Incarnation, TurnId
from openab.storage.conversations import Ownership
from openab.storage.streams import Segment

_TEXT = st.text(st.sampled_from(list("ab \n\0\ud800<@1>")), max_size=6)
_EVENTS = st.one_of(
    st.builds(TextDelta, _TEXT, st.sampled_from([None, "m1", "m2"])),
    st.builds(Thought, _TEXT),
    st.builds(
        ToolChanged, st.sampled_from(["t1", "t2"]), _TEXT, status=st.sampled_from(ToolStatus)
    ),
)
#: An event, or a commit that works or fails.
_STEPS = st.lists(st.one_of(_EVENTS, st.sampled_from(["commit", "fail"])), max_size=30)


def a_record() -> StreamRecord:
    return StreamRecord(TurnId("t"), Ownership(ConversationId("c"), 1), lambda: None)


@given(_STEPS)
def test_the_segments_make_up_text_and_answer_however_they_were_committed(
    steps: list[AgentEvent | str],
) -> None:
    record, stored = a_record(), dict[int, Segment]()
    taken = 0
    for step in [*steps, "commit"]:
        if isinstance(step, str):
            pending = record.take_pending()
            if step == "fail":
                record.give_back(pending)
                assert record.is_dirty
            else:
                stored |= {segment.n: segment for segment in pending.segments}
                assert not record.is_dirty
        else:
            taken += 1
            record.take(Numbered(Position(Incarnation("i"), taken), step))
    segments = [stored[n] for n in sorted(stored)]
    assert sorted(stored) == list(range(1, len(stored) + 1))
    assert "".join(segment.text for segment in segments) == record.raw
    assert LeftBehind(tuple(segments)).parts(1) == [record.answer.text]


def test_a_commit_in_doubt_repeats_the_same_numbers() -> None:
    record = a_record()
    record.take(Numbered(Position(Incarnation("i"), 1), TextDelta("a")))
    first = record.take_pending()
    record.give_back(first)
    record.take(Numbered(Position(Incarnation("i"), 2), TextDelta("b")))
    assert [(one.n, one.text) for one in record.take_pending().segments] == [(1, "ab")]


def test_another_attempt_is_put_behind_the_earlier_one_as_another_message() -> None:
    earlier = LeftBehind((Segment(1, "half"), Segment(2, " of it")))
    ownership = Ownership(ConversationId("c"), 1)
    record = StreamRecord(TurnId("t"), ownership, lambda: None, 2, earlier)
    for n, text in enumerate(("the ", "rest"), 1):
        record.take(Numbered(Position(Incarnation("i"), n), TextDelta(text)))
    pending = record.take_pending()
    assert (pending.segments, pending.position) == ((Segment(3, "the rest", True, 2),), 2)
    assert (record.raw, record.answer.text) == ("half of itthe rest", "the rest")
    everything = LeftBehind((*earlier.segments, *pending.segments))
    assert everything.parts(2) == ["half of it", "the rest"]
    assert everything.raw == record.raw
