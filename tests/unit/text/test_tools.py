"""Tool calls are matched by id and shown as OpenAB shows them."""

import pytest

from openab.domain.agent_events import PermissionAsked, TextDelta, ToolChanged, ToolKind, ToolStatus
from openab.text.tools import ToolCall, ToolDisplay, ToolFold, final_text, tool_line, tool_lines

DONE = ToolStatus.COMPLETED
CALLS = (
    ToolCall("1", "ls", status=DONE),
    ToolCall("2", "cargo test", status=ToolStatus.FAILED),
    ToolCall("3", "sleep", status=ToolStatus.IN_PROGRESS),
)


def test_changes_are_folded_by_id_and_keep_the_order() -> None:
    fold = ToolFold()
    fold.add(ToolChanged("a", "read", ToolKind.READ))
    fold.add(PermissionAsked("p", ToolChanged("b", "rm -r"), ()))
    fold.add(ToolChanged("a", title="read x.py", status=DONE))
    fold.add(TextDelta("no tool"))
    assert [(call.title, call.status) for call in fold.calls] == [
        ("read x.py", DONE),
        ("rm -r", ToolStatus.PENDING),
    ]
    assert fold.calls[0].kind is ToolKind.READ
    assert fold.running is fold.calls[1]
    fold.add(ToolChanged("b", status=DONE))
    assert fold.running is None


def test_the_final_lists_every_call_before_the_answer() -> None:
    assert final_text("It works.\n", CALLS) == (
        "✅ `ls`\n❌ `cargo test`\n🔧 `sleep`...\n\nIt works."
    )


def test_compact_counts_and_none_is_silent() -> None:
    assert final_text("x", CALLS, ToolDisplay.COMPACT) == "✅ 1 · ❌ 1 · 🔧 1 tool(s)\n\nx"
    assert final_text("x", CALLS, ToolDisplay.NONE) == "x"
    assert final_text("x", (), ToolDisplay.COMPACT) == "x"


def test_nothing_said_and_nothing_done_is_an_empty_text() -> None:
    assert final_text(" \n") == ""
    assert final_text("", CALLS[:1]) == "✅ `ls`"


@pytest.mark.parametrize(
    ("title", "label"),
    [
        ("a\nb", "a ; b"),
        ("say `hi`", "say 'hi'"),
        ("  ", "other"),
        ("x" * 200, "x" * 119 + "…"),
    ],
)
def test_a_title_stays_on_its_line(title: str, label: str) -> None:
    assert tool_line(ToolCall("1", title, status=DONE)) == f"✅ `{label}`"


def test_equal_lines_in_a_row_are_counted() -> None:
    again = [ToolCall(str(n), "ls", status=DONE) for n in range(3)]
    assert tool_lines([*again, CALLS[1]]) == ["✅ `ls` (\u00d73)", "❌ `cargo test`"]
