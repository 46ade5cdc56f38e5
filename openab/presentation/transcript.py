"""Folds a turn's events into what can be shown of it."""

from dataclasses import dataclass, field

from openab.domain.agent_events import (
    AgentEvent,
    HostNotice,
    PermissionAsked,
    PermissionSettled,
    PlanChanged,
    PlanEntry,
    PromptEnded,
    TextDelta,
    Thought,
    UsageChanged,
)
from openab.text.answer import AnswerFold
from openab.text.fences import Fence, open_at_end
from openab.text.output import HeadFilter
from openab.text.tools import ToolCall, ToolFold

#: More raw text than a message can show, whatever is dropped from it.
_KEPT = 4000


@dataclass(slots=True)
class AnswerTail:
    """The end of the raw answer, with the fence that is open where it begins; costs nothing for long answers."""

    text: str = ""
    fence: Fence | None = None
    #: Whether the answer has more in front.
    is_cut: bool = False

    def append(self, piece: str) -> None:
        """Add raw text; NUL is left out here already, so that it hides no fence line."""
        self.text += piece.replace("\0", "")
        if len(self.text) > 2 * _KEPT:
            cut = self.text.rfind("\n", 0, -_KEPT) + 1 or len(self.text) - _KEPT
            self.fence = open_at_end(self.text[:cut], self.fence)
            self.text, self.is_cut = self.text[cut:], True


@dataclass(slots=True)
class TurnView:
    """A turn as far as its events tell; `apply` is the only thing that changes it."""

    answer: AnswerFold = field(default_factory=AnswerFold)
    #: Keeps directives out of the tail.
    head: HeadFilter = field(default_factory=HeadFilter)
    tail: AnswerTail = field(default_factory=AnswerTail)
    tools: ToolFold = field(default_factory=ToolFold)
    is_thinking: bool = False
    is_writing: bool = False
    plan: tuple[PlanEntry, ...] = ()
    #: Questions that wait for an answer, oldest first.
    permissions: dict[str, PermissionAsked] = field(default_factory=dict)
    usage: UsageChanged | None = None
    notice: HostNotice | None = None
    ended: PromptEnded | None = None

    def apply(self, event: AgentEvent) -> None:
        """Take one event in. Kinds that show nothing change nothing."""
        self._append(self.answer.add(event), event)
        self.tools.add(event)
        self._note_activity(event)
        match event:
            case PlanChanged(entries):
                self.plan = entries
            case PermissionAsked(request_id):
                self.permissions[request_id] = event
            case PermissionSettled(request_id):
                self.permissions.pop(request_id, None)
            case UsageChanged():
                self.usage = event
            case HostNotice():
                self.notice = event
            case PromptEnded():
                self.ended = event
                self.permissions.clear()

    def _append(self, appended: str, event: AgentEvent) -> None:
        if isinstance(event, TextDelta) and appended:
            separator = appended[: len(appended) - len(event.text)]
            self.tail.append(self.head.take(separator, event.text))

    def _note_activity(self, event: AgentEvent) -> None:
        if isinstance(event, TextDelta | Thought) and event.text:
            self.is_writing = isinstance(event, TextDelta)
            self.is_thinking = not self.is_writing


def begun(said: str, tools: tuple[ToolCall, ...]) -> TurnView:
    """The view of a turn of which so much was told already; what comes next is another message."""
    view = TurnView(answer=AnswerFold(said, broken=True), tools=ToolFold(tools))
    view.tail.append(said)
    return view


def answer_text(view: TurnView) -> str:
    """The raw answer so far, by the rule of `openab.text.answer`."""
    return view.answer.text
