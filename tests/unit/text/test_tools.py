"""Tool calls are matched by id and shown as OpenAB shows them."""

import pytest

from openab.domain.agent_events import PermissionAsked, TextDelta, ToolChanged, ToolKind, ToolStatus
from openab.text.tools import (
    ToolCall,
    ToolDisplay,
    ToolFold,
    asked_title,
    final_text,
    tool_line,
    tool_lines,
)

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


@pytest.mark.parametrize(
    ("titles", "shown"),
    [
        (["Terminal", "cargo test"], "cargo test"),
        (["Read x.py", "Read"], "Read x.py"),
        (["Read", "Read x.py", "Read x.py"], "Read x.py"),
        (["ls", None], "ls"),
        ([None, "ls"], "ls"),
    ],
)
def test_a_bare_title_never_replaces_a_fuller_one(titles: list[str | None], shown: str) -> None:
    fold = ToolFold()
    for title in titles:
        fold.add(ToolChanged("a", title))
    assert [call.label for call in fold.calls] == [shown]


@pytest.mark.parametrize(
    ("title", "detail", "label"),
    [
        ("run_shell_command", "ls -la", "run_shell_command: ls -la"),
        ("Web search", "cats", "Web search: cats"),
        ("cargo", "cargo test", "cargo test"),
        ("Edit /a/b.py", "/a/b.py", "Edit /a/b.py"),
        ("List the files here", "ls", "List the files here"),
        ("", "ls", "ls"),
        ("bash", "make `x`\nmake y", "bash: make 'x' ; make y"),
    ],
)
def test_a_tools_bare_name_is_told_with_what_it_works_on(
    title: str, detail: str, label: str
) -> None:
    call = ToolCall("a", title, detail=detail)
    assert call.label == label
    assert call.changed(ToolChanged("a", title.split(" ")[0] or None, status=DONE)).label == label


def test_a_permission_is_asked_for_with_what_it_is_for() -> None:
    asked = PermissionAsked("p", ToolChanged("b", "bash", detail="rm -r x"), ())
    assert asked_title(asked) == "bash: rm -r x"


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
