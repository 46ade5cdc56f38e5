"""Tool calls as people see them: folded by id, a line each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from openab.domain.agent_events import (
    AgentEvent,
    PermissionAsked,
    ToolChanged,
    ToolKind,
    ToolStatus,
)
from openab.text.measure import shorten

_LONGEST_TITLE = 120
_WORDS_OF_A_NAME = 2
_MARKS = {ToolStatus.COMPLETED: "✅", ToolStatus.FAILED: "❌"}
_RUNNING, _INTERRUPTED = "🔧", "✂️"


class ToolDisplay(StrEnum):
    """How much of the tool calls is shown: `[reactions] tool_display`."""

    FULL = "full"
    COMPACT = "compact"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as far as it is known."""

    tool_id: str
    title: str = ""
    kind: ToolKind = ToolKind.OTHER
    status: ToolStatus = ToolStatus.PENDING
    detail: str = ""
    #: Its agent was lost before it told the end of it.
    is_interrupted: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether nothing more comes of it: it has completed or failed, or its agent was lost."""
        return self.is_interrupted or self.status in _MARKS

    def cut_off(self) -> "ToolCall":
        """The same when its agent is lost: what had not ended is interrupted."""
        return self if self.is_finished else replace(self, is_interrupted=True)

    @property
    def label(self) -> str:
        """The title on one line, without backticks, cut; the kind where there is no title."""
        line = " ; ".join(self.full_title.splitlines()).replace("`", "'").strip()
        return shorten(line, _LONGEST_TITLE) or self.kind.value

    @property
    def full_title(self) -> str:
        """The title, with what the call works on where the title is only a name of a tool."""
        title, detail = self.title.strip(), self.detail.strip()
        if not title or detail.startswith(title):
            return detail or title
        is_name = len(title.split()) <= _WORDS_OF_A_NAME
        return f"{title}: {detail}" if is_name and detail and detail not in title else title

    def changed(self, change: ToolChanged) -> "ToolCall":
        """With everything that the change names."""
        return replace(
            self,
            title=_refined(self.title, change.title),
            kind=self.kind if change.kind is None else change.kind,
            status=self.status if change.status is None else change.status,
            detail=self.detail if change.detail is None else change.detail,
        )


def _refined(known: str, told: str | None) -> str:
    """Agents repeat the bare name in later updates: it never replaces a title that begins with it."""
    return known if told is None or known.startswith(told) else told


def asked_title(asked: PermissionAsked) -> str:
    """What a permission is asked for, told as fully as the agent tells it."""
    return ToolCall(asked.tool.tool_id).changed(asked.tool).full_title


class ToolFold:
    """A turn's tool calls, in the order in which they appeared."""

    def __init__(self, earlier: Sequence[ToolCall] = ()) -> None:
        """`earlier`: the calls of agents that were lost; nothing changes them any more."""
        self._earlier = tuple(earlier)
        self._calls: dict[str, ToolCall] = {}

    def add(self, event: AgentEvent) -> None:
        """Take one event; those that are about no tool change nothing."""
        change = event.tool if isinstance(event, PermissionAsked) else event
        if isinstance(change, ToolChanged):
            known = self._calls.get(change.tool_id) or ToolCall(change.tool_id)
            self._calls[change.tool_id] = known.changed(change)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Every call so far."""
        return (*self._earlier, *self._calls.values())

    @property
    def running(self) -> ToolCall | None:
        """The call that began last of those which have not finished."""
        return next((call for call in reversed(self._calls.values()) if not call.is_finished), None)


def tool_line(call: ToolCall) -> str:
    """One call: ✅, ❌, ✂️ or 🔧 and its title."""
    if call.is_interrupted:
        return f"{_INTERRUPTED} `{call.label}` (interrupted)"
    dots = "" if call.is_finished else "..."
    return f"{_MARKS.get(call.status, _RUNNING)} `{call.label}`{dots}"


def tool_lines(calls: Iterable[ToolCall]) -> list[str]:
    """A line per call; equal ones in a row become one with their number."""
    lines = []
    for line, group in groupby(map(tool_line, calls)):
        count = len(list(group))
        lines.append(f"{line} (\u00d7{count})" if count > 1 else line)
    return lines


def tool_counts(calls: Sequence[ToolCall]) -> str:
    """All calls in one line: how many completed, failed, were interrupted and still run."""
    interrupted = sum(call.is_interrupted for call in calls)
    completed = sum(call.status is ToolStatus.COMPLETED for call in calls)
    failed = sum(call.status is ToolStatus.FAILED for call in calls)
    running = len(calls) - completed - failed - interrupted
    each = (completed, failed, interrupted, running)
    counts = [
        f"{mark} {count}"
        for mark, count in zip(("✅", "❌", _INTERRUPTED, _RUNNING), each, strict=True)
        if count
    ]
    return f"{' · '.join(counts)} tool(s)" if counts else ""


def tool_summary(calls: Sequence[ToolCall], display: ToolDisplay = ToolDisplay.FULL) -> str:
    """What a final answer says of its tool calls; empty where there is nothing to say."""
    if display is ToolDisplay.FULL:
        return "\n".join(tool_lines(calls))
    return tool_counts(calls) if display is ToolDisplay.COMPACT else ""


def final_text(
    answer: str, calls: Sequence[ToolCall] = (), display: ToolDisplay = ToolDisplay.FULL
) -> str:
    """The summary, an empty line, the answer without its trailing white space; not neutralised."""
    parts = (tool_summary(calls, display), answer.rstrip())
    return "\n\n".join(part for part in parts if part.strip())
