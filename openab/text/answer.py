"""Folds a turn's events into the agent's answer, which both planes read the same way."""

from openab.domain.agent_events import AgentEvent, PermissionAsked, TextDelta, ToolChanged

_PARAGRAPH = "\n\n"


class AnswerFold:
    """The raw answer so far.

    Rule: deltas are joined byte for byte. A message id other than the last one, or a tool call seen
    for the first time, ends a message: before the next non-empty delta as many line feeds are put
    as are missing to make two, counted over the end of the answer and the beginning of the delta.
    """

    def __init__(
        self, text: str = "", *, broken: bool = False, after_tool: int | None = None
    ) -> None:
        """Begin with what is stored already; `broken`: what comes next is another message.

        `after_tool` is what the property said then; None: nothing is known of earlier tool calls.
        """
        self._pieces = [text] if text else []
        self._length, self._end = len(text), text[-2:]
        self._broken = broken
        self._after_tool = 0 if after_tool is None else min(after_tool, len(text))
        self._has_cut = False
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

    @property
    def after_tool(self) -> int:
        """The index in `text` of what came after the last tool call; 0 where there was none."""
        return self._length if self._has_cut else self._after_tool

    @property
    def last_message(self) -> str:
        """Exactly the deltas since a tool call was last seen for the first time; no separator in front.

        A later update of a known call cuts nothing. Empty if the turn ended with a tool call.
        """
        return self.text[self.after_tool :]

    def _tool(self, tool_id: str) -> None:
        is_new = tool_id not in self._tools
        self._broken, self._has_cut = self._broken or is_new, self._has_cut or is_new
        self._tools.add(tool_id)

    def _append(self, delta: TextDelta) -> str:
        if not delta.text:
            return ""
        if delta.message_id is not None:
            self._broken = self._broken or self._message not in (None, delta.message_id)
            self._message = delta.message_id
        separator = self._separator(delta.text)
        if self._has_cut:
            self._after_tool = self._length + len(separator)
        piece = separator + delta.text
        self._broken = self._has_cut = False
        self._pieces.append(piece)
        self._length += len(piece)
        self._end = (self._end + piece)[-2:]
        return piece

    def _separator(self, text: str) -> str:
        if not self._broken or not self._end:
            return ""
        present = _line_feeds(self._end[::-1]) + _line_feeds(text)
        return _PARAGRAPH[: max(0, 2 - present)]


def _line_feeds(text: str) -> int:
    return len(text) - len(text.lstrip("\n"))
