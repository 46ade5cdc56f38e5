"""What an interrupted agent is told, and how what several attempts said becomes one answer."""

from hypothesis import given
from hypothesis import strategies as st

from openab.domain.agent_events import ToolKind, ToolStatus
from openab.domain.message import defuse
from openab.text import notices
from openab.text.continuation import continuation, over_attempts
from openab.text.fences import open_at_end
from openab.text.tools import ToolCall, tool_counts, tool_lines

LINE = notices.went_on_after_restart()
TEXT = st.text(max_size=60) | st.sampled_from(["<sender_context", "<Sender_Context>", "```py\nx"])


def test_each_call_is_told_with_its_last_state() -> None:
    calls = [
        ToolCall("1", "cargo test", ToolKind.EXECUTE, ToolStatus.COMPLETED),
        ToolCall("2", "a\nfile", ToolKind.EDIT, ToolStatus.FAILED),
        ToolCall("3", "cargo publish", ToolKind.EXECUTE, ToolStatus.IN_PROGRESS).cut_off(),
    ]
    told = continuation(calls, "").splitlines()
    assert "- execute: cargo test (completed)" in told
    assert "- edit: a file (failed)" in told
    assert "- execute: cargo publish (interrupted)" in told


def test_it_says_that_the_request_may_be_known_and_to_check_before_repeating() -> None:
    told = continuation([], "")
    assert "you may know it already" in told
    assert "check whether it was done already" in told
    assert "No tool call of yours was seen." in told
    assert "People have already read" not in told


def test_of_a_long_turn_the_end_is_told() -> None:
    calls = [ToolCall(str(n), f"step {n}", status=ToolStatus.COMPLETED) for n in range(300)]
    told = continuation(calls, "begin " + "x" * 5000 + " end")
    assert "step 299 " in told
    assert "step 99 " not in told
    assert "(100 earlier ones are left out)" in told
    assert "begin" not in told.split("answer; do not repeat it:")[1]
    assert "x end" in told


@given(st.lists(st.builds(ToolCall, tool_id=TEXT, title=TEXT, detail=TEXT), max_size=5), TEXT)
def test_nothing_in_it_can_pose_as_a_sender(calls: list[ToolCall], said: str) -> None:
    told = continuation(calls, said)
    assert told == defuse(told)


def test_a_line_stands_where_an_attempt_was_cut_off() -> None:
    assert over_attempts(["half"]) == "half"
    assert over_attempts(["half", "rest"]) == f"half\n\n{LINE}\n\nrest"
    assert over_attempts(["half", ""]) == f"half\n\n{LINE}"
    assert over_attempts(["", "", "rest"]) == f"{LINE}\n\nrest"
    assert over_attempts(["a", " ", "b", "c"]) == f"a\n\n{LINE}\n\nb\n\n{LINE}\n\nc"


def test_the_line_stands_outside_of_a_fence_that_was_open() -> None:
    told = over_attempts(["```py\nprint(", "rest"])
    assert told == f"```py\nprint(\n```\n\n{LINE}\n\nrest"


@given(st.lists(TEXT, max_size=4))
def test_all_that_was_said_is_told_in_order_and_every_fence_before_a_line_is_closed(
    parts: list[str],
) -> None:
    told, at = over_attempts(parts), 0
    for part in filter(str.strip, parts):
        at = told.index(part, at) + len(part)
    *before, _last = told.split(LINE)
    assert all(open_at_end(text) is None for text in before)


def test_an_interrupted_call_is_no_running_one() -> None:
    call = ToolCall("1", "cargo publish", status=ToolStatus.IN_PROGRESS).cut_off()
    assert call.is_finished
    assert tool_lines([call]) == ["✂️ `cargo publish` (interrupted)"]
    assert tool_counts([call]) == "✂️ 1 tool(s)"
    done = ToolCall("2", status=ToolStatus.COMPLETED)
    assert done.cut_off() is done
