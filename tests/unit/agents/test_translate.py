"""ACP updates of every shape → events."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.agents.acp.translate import choose, event_of, options_of, output_tokens, tool_of
from openab.domain.agent_events import (
    AgentEvent,
    OptionKind,
    PermissionOption,
    PlanChanged,
    PlanEntry,
    SessionChanged,
    TextDelta,
    Thought,
    ToolChanged,
    ToolKind,
    ToolStatus,
    UsageChanged,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
COST = {"amount": 0.25, "currency": "USD"}
FIELDS = (
    "content", "toolCallId", "title", "kind", "status", "entries", "used", "size",
    "currentModeId", "messageId", "name", "rawInput", "locations",
)  # fmt: skip
KINDS = (
    "agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "notice",
    "tool_call_update", "plan", "usage_update", "current_mode_update", "session_info_update",
)  # fmt: skip
UPDATES = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(KINDS) | JSON}, optional=dict.fromkeys(FIELDS, JSON)
)


def chunk(kind: str, text: str, **more: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}


@pytest.mark.parametrize(
    ("update", "event"),
    [
        (chunk("agent_message_chunk", "hi"), TextDelta("hi")),
        (chunk("agent_message_chunk", "\x00\ud83d", messageId="m"), TextDelta("\x00\ud83d", "m")),
        (chunk("agent_thought_chunk", "hm"), Thought("hm")),
        (chunk("agent_message_chunk", ""), None),
        (chunk("user_message_chunk", "mine"), None),
        (chunk("notice", "what"), None),
        (
            {"sessionUpdate": "tool_call", "toolCallId": "a", "title": "make", "kind": "execute"},
            ToolChanged("a", "make", ToolKind.EXECUTE),
        ),
        (
            {"sessionUpdate": "tool_call_update", "toolCallId": 7, "status": "completed"},
            ToolChanged("7", status=ToolStatus.COMPLETED),
        ),
        (
            {"sessionUpdate": "tool_call", "toolCallId": "a", "kind": "teleport", "status": "odd"},
            ToolChanged("a", kind=ToolKind.OTHER),
        ),
        ({"sessionUpdate": "tool_call", "title": "no id"}, None),
        (
            {"sessionUpdate": "plan", "entries": [{"content": "a", "status": "completed"}, 3]},
            PlanChanged((PlanEntry("a", "completed"),)),
        ),
        ({"sessionUpdate": "usage_update", "used": 1, "size": 2}, UsageChanged(1, 2)),
        ({"sessionUpdate": "usage_update", "used": True, "size": 2}, None),
        (
            {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": COST},
            UsageChanged(1, 2, 0.25, "USD"),
        ),
        (
            {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 10**400}},
            UsageChanged(1, 2),
        ),
        (
            {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
            SessionChanged("current_mode_update", "plan"),
        ),
        ({"sessionUpdate": ["odd"]}, None),
        ("text", None),
    ],
)
def test_each_kind_of_update(update: object, event: AgentEvent | None) -> None:
    assert event_of(update) == event


@given(UPDATES | JSON)
def test_no_update_is_too_odd(update: object) -> None:
    event = event_of(update)
    if isinstance(event, TextDelta | Thought):
        assert event.text
    if isinstance(event, ToolChanged):
        assert isinstance(event.tool_id, str)
        assert event.title is None or isinstance(event.title, str)
        assert event.kind is None or isinstance(event.kind, ToolKind)
    if isinstance(event, PlanChanged):
        assert all(isinstance(entry.content, str) for entry in event.entries)


@pytest.mark.parametrize(
    ("told", "detail"),
    [
        ({"rawInput": {"command": "ls -la"}}, "ls -la"),
        ({"rawInput": {"command": ["bash", "-lc", "make test"]}}, "make test"),
        ({"rawInput": {"command": ["git", "status"]}}, "git status"),
        ({"rawInput": {"description": "x", "file_path": "/a/b.py"}}, "/a/b.py"),
        ({"rawInput": {"query": "cats"}, "locations": [{"path": "/a"}]}, "cats"),
        ({"locations": [{"path": "/a", "line": 3}]}, "/a"),
        ({"rawInput": {"command": "x" * 900}}, "x" * 400),
        ({"rawInput": {}, "locations": []}, None),
        ({"rawInput": {"command": {"a": 1}, "path": 3}}, None),
        ({"rawInput": "ls", "locations": "/a"}, None),
    ],
)
def test_what_a_call_works_on_is_read_where_it_is_told(
    told: dict[str, Any], detail: str | None
) -> None:
    tool = tool_of({"toolCallId": "a", "title": "run_shell_command", **told})
    assert tool == ToolChanged("a", "run_shell_command", detail=detail)


def option(kind: OptionKind | None, name: str = "x") -> PermissionOption:
    return PermissionOption(name, name, kind)


ONCE, ALWAYS = option(OptionKind.ALLOW_ONCE), option(OptionKind.ALLOW_ALWAYS)
NEVER, NOT_NOW = option(OptionKind.REJECT_ALWAYS), option(OptionKind.REJECT_ONCE)
ODD = option(None)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([NOT_NOW, ONCE, ALWAYS], ALWAYS),
        ([NOT_NOW, ONCE], ONCE),
        ([NOT_NOW, ODD], ODD),
        (
            [option(OptionKind.ALLOW_ALWAYS, "first"), ALWAYS],
            option(OptionKind.ALLOW_ALWAYS, "first"),
        ),
        ([NEVER, NOT_NOW], None),
        ([], None),
    ],
)
def test_the_kindest_option_is_chosen_and_never_a_refusal(
    offered: list[PermissionOption], chosen: PermissionOption | None
) -> None:
    assert choose(offered) == chosen


@given(JSON)
def test_options_and_tools_of_any_shape(value: object) -> None:
    chosen = choose(options_of(value))
    assert chosen is None or chosen.kind not in {OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS}
    tool = tool_of(value)
    assert tool is None or isinstance(tool.tool_id, str)


@pytest.mark.parametrize(
    ("result", "count"),
    [
        ({"usage": {"outputTokens": 5}}, 5),
        ({"usage": {"output": 6}}, 6),
        ({"usage": {"output": -1}}, None),
        ({"usage": "lots"}, None),
        ({}, None),
    ],
)
def test_output_tokens_are_read_where_they_are_told(
    result: dict[str, Any], count: int | None
) -> None:
    assert output_tokens(result) == count
