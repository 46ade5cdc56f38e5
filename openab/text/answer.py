"""Folds a turn's events into the agent's answer, which both planes read the same way."""

from openab.domain.agent_events import AgentEvent, PermissionAsked, TextDelta, ToolChanged

_PARAGRAPH = "\n\n"


class AnswerFold:
    """The raw answer so far.

    Rule: deltas are joined byte for byte. A message id other than the last one, or a tool call seen
    for the first time, ends a message: before the next non-empty delta as many line feeds are put
    as are missing to make two, counted over the end of the answer and the beginning of the delta.
    """

    def __init__(self, text: str = "", *, broken: bool = False) -> None:
        """Begin with what is stored already; `broken`: what comes next is another message."""
        self._pieces = [text] if text else []
        self._end = text[-2:]
        self._broken = broken
        self._message: str | None = None
        self._tools: set[str] = set()

    def add(self, event: AgentEvent) -> str:
        """Take one event; returns exactly what it appended, so that the pieces make up the answer."""
        if isinstance(event, TextDelta):
            return self._append(event)
        if isinstance(event, ToolChanged):
            self._tool(event.tool_id)
        elif isinstance(event, PermissionAsked):
            self._tool(event.tool.tool_id)
        return ""

    @property
    def text(self) -> str:
        """The raw answer: may hold NUL, lone surrogates and live mentions."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def _tool(self, tool_id: str) -> None:
        self._broken = self._broken or tool_id not in self._tools
        self._tools.add(tool_id)

    def _append(self, delta: TextDelta) -> str:
        if not delta.text:
            return ""
        if delta.message_id is not None:
            self._broken = self._broken or self._message not in (None, delta.message_id)
            self._message = delta.message_id
        piece = self._separator(delta.text) + delta.text
        self._broken = False
        self._pieces.append(piece)
        self._end = (self._end + piece)[-2:]
        return piece

    def _separator(self, text: str) -> str:
        if not self._broken or not self._end:
            return ""
        present = _line_feeds(self._end[::-1]) + _line_feeds(text)
        return _PARAGRAPH[: max(0, 2 - present)]


def _line_feeds(text: str) -> int:
    return len(text) - len(text.lstrip("\n"))
