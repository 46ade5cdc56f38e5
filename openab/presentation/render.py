"""The live text of a running turn: status line, tool lines, the answer so far; safe at every moment."""

from openab.presentation.status import Moment, status_line
from openab.presentation.transcript import AnswerTail, TurnView
from openab.text.fences import closing, open_at_end
from openab.text.measure import fit_back, splits_character, units
from openab.text.neutralize import neutralize
from openab.text.split import MESSAGE_LIMIT
from openab.text.tools import ToolCall, ToolDisplay, tool_counts, tool_line, tool_lines

#: Stands where the beginning of the answer was cut off.
CUT_MARK = "…\n"
#: More finished or running calls than this are put together.
_LISTED = 3
#: A line may begin this far behind the cut that room allows.
_LINE_SEARCH = 300


def live_text(
    view: TurnView,
    moment: Moment,
    display: ToolDisplay = ToolDisplay.FULL,
    *,
    with_answer: bool = True,
    limit: int = MESSAGE_LIMIT,
) -> str:
    """What the placeholder shows now: inert, within the limit, fences balanced, begins with `-# `.

    Without the answer it is a heartbeat. Not the complete answer, ever: its beginning may be cut.
    """
    head = neutralize(
        "\n".join([status_line(view, moment), *live_tools(view.tools.calls, display)])
    )
    answer = _answer(view.tail, limit - units(head) - 2) if with_answer else ""
    return neutralize(f"{head}\n\n{answer}" if answer else head)


def live_tools(calls: tuple[ToolCall, ...], display: ToolDisplay) -> list[str]:
    """The tool lines while a turn runs; many finished or running calls collapse."""
    if display is ToolDisplay.NONE or not calls:
        return []
    if display is ToolDisplay.COMPACT:
        return [tool_counts(calls)]
    finished = [call for call in calls if call.is_finished]
    running = [call for call in calls if not call.is_finished]
    return _finished_lines(finished) + _running_lines(running)


def _finished_lines(calls: list[ToolCall]) -> list[str]:
    return [f"{tool_counts(calls)} completed"] if len(calls) > _LISTED else tool_lines(calls)


def _running_lines(calls: list[ToolCall]) -> list[str]:
    hidden = len(calls) - _LISTED
    more = [f"🔧 {hidden} more running"] if hidden > 0 else []
    return more + [tool_line(call) for call in calls[-_LISTED:]]


def _answer(tail: AnswerTail, room: int) -> str:
    text = neutralize(tail.text).rstrip()
    if not tail.is_cut:
        text = text.lstrip("\n")
        whole = text + closing(open_at_end(text), text)
        if units(whole) <= room:
            return whole
    return _end_of(text, tail, room) if text else ""


def _end_of(text: str, tail: AnswerTail, room: int) -> str:
    """As much of the end as there is room for, below a mark that something is missing."""
    wanted = room - units(CUT_MARK)
    while wanted > 0:
        start = _good_start(text, fit_back(text, wanted))
        shown = text[start:]
        before = open_at_end(text[:start], tail.fence)
        opener = f"{before.opener}\n" if before else ""
        result = CUT_MARK + opener + shown + closing(open_at_end(shown, before), shown)
        if units(result) <= room:
            return result
        wanted -= units(result) - room
    return CUT_MARK.rstrip()


def _good_start(text: str, start: int) -> int:
    """The next line's beginning where it is near, else the next whole character."""
    if start == 0 or text[start - 1] == "\n":
        return start
    line = text.find("\n", start, start + _LINE_SEARCH) + 1
    if line:
        return line
    while splits_character(text, start):
        start += 1
    return start
