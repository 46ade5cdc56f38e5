"""An attempt's numbered events, in memory, kept until the outcome is stored by whoever reads them."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace

from openab.agents.limits import Sizes
from openab.domain.agent_events import (
    AgentEvent,
    Numbered,
    PermissionAsked,
    PlanChanged,
    Position,
    PromptEnded,
    TextDelta,
    Thought,
    ToolChanged,
)
from openab.domain.ids import Incarnation
from openab.ports.agent import PromptLost

#: Pieces that nobody has read yet are joined up to this many characters.
_JOINED = 64 * 1024
#: What an event costs beside its text.
_EVENT = 64


@dataclass(slots=True)
class _Pieces:
    """Deltas of one kind that nobody has read yet: one event in the making."""

    first: TextDelta | Thought
    texts: list[str] = field(default_factory=list)
    size: int = 0

    def takes(self, event: TextDelta | Thought) -> bool:
        if self.size >= _JOINED or type(event) is not type(self.first):
            return False
        return _message_id(event) == _message_id(self.first)

    def whole(self) -> TextDelta | Thought:
        return replace(self.first, text="".join(self.texts))


class Journal:
    """Numbers count on through every step of an attempt; a number that was read never changes."""

    def __init__(self, incarnation: Incarnation, sizes: Sizes, attempt: int = 1) -> None:
        self._incarnation, self._sizes = incarnation, sizes
        self.attempt = attempt
        self._events: dict[int, AgentEvent | _Pieces] = {}
        self._last = 0
        self._read_to = 0
        self._size = 0
        self._tools: dict[str, list[int]] = {}
        self._news = asyncio.Event()
        self._closed = False
        self.ended = True
        #: Nobody is going to read it any more.
        self.is_unwanted = False

    def begin(self) -> None:
        """Another step of the attempt runs: its end will be another end event."""
        self.ended = False

    def add(self, event: AgentEvent) -> bool:
        """Record an event; False when the journal is full (the end event always has room)."""
        if self.ended or self._closed:
            return True
        if isinstance(event, PromptEnded):
            self.ended = True
        elif self._size > self._sizes.journal:
            return False
        self._put(event)
        self._news.set()
        return self._size <= self._sizes.journal

    def close(self) -> None:
        """Nothing more will come, not even an end: readers get PromptLost."""
        self._closed = True
        self._news.set()

    async def read(self, after: int) -> AsyncGenerator[Numbered, None]:
        """Events with n > `after` as they come, up to and including the next end."""
        n = after
        while True:
            self._news.clear()
            while n < self._last:
                n += 1
                event = self._take(n)
                if event is None:
                    continue
                yield Numbered(Position(self._incarnation, n), event)
                if isinstance(event, PromptEnded):
                    return
            if self._closed:
                raise PromptLost("the host was stopped while the turn was running")
            if self.ended:
                return
            await self._news.wait()

    def _take(self, n: int) -> AgentEvent | None:
        self._read_to = max(self._read_to, n)
        event = self._events.get(n)
        if isinstance(event, _Pieces):
            event = self._events[n] = event.whole()
        return event

    def _put(self, event: AgentEvent) -> None:
        size = _size(event)
        self._size += size
        if isinstance(event, TextDelta | Thought):
            self._put_text(event, size)
        elif isinstance(event, ToolChanged):
            self._put_tool(event)
        else:
            self._append(event)

    def _put_text(self, event: TextDelta | Thought, size: int) -> None:
        last = self._events.get(self._last)
        if not isinstance(last, _Pieces) or not last.takes(event):
            last = _Pieces(event)
            self._append(last)
        last.texts.append(event.text)
        last.size += size

    def _put_tool(self, event: ToolChanged) -> None:
        if self._size > self._sizes.collapse:
            event = self._collapsed(event)
        self._append(event)
        self._tools.setdefault(event.tool_id, []).append(self._last)

    def _collapsed(self, event: ToolChanged) -> ToolChanged:
        """Replace what is known of this tool by one event; numbers may be missing then."""
        for n in reversed(self._tools.pop(event.tool_id, [])):
            older = self._events.pop(n)
            assert isinstance(older, ToolChanged)
            self._size -= _size(older)
            event = merged(older, event)
        return event

    def _append(self, event: AgentEvent | _Pieces) -> None:
        self._last += 1
        self._events[self._last] = event


def merged(older: ToolChanged, newer: ToolChanged) -> ToolChanged:
    """What both say together: the newer one's fields, and the older one's where it is silent."""
    return ToolChanged(
        tool_id=newer.tool_id,
        title=newer.title if newer.title is not None else older.title,
        kind=newer.kind if newer.kind is not None else older.kind,
        status=newer.status if newer.status is not None else older.status,
    )


def _message_id(event: TextDelta | Thought) -> str | None:
    return event.message_id if isinstance(event, TextDelta) else None


def _size(event: AgentEvent) -> int:
    if isinstance(event, TextDelta | Thought):
        return _EVENT // 4 + len(event.text)
    if isinstance(event, ToolChanged):
        return _EVENT + len(event.title or "")
    if isinstance(event, PlanChanged):
        return _EVENT + sum(_EVENT + len(entry.content) for entry in event.entries)
    if isinstance(event, PermissionAsked):
        return 4 * _EVENT + len(event.tool.title or "")
    return _EVENT
