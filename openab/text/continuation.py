"""What an agent is told when its turn goes on after the agent was lost; what others wrote in it is defused."""

from collections.abc import Sequence

from openab.domain.agent_events import ToolStatus
from openab.domain.message import defuse
from openab.text import notices
from openab.text.fences import closing, open_at_end
from openab.text.measure import shorten
from openab.text.tools import ToolCall

#: With this an interrupted agent is addressed.
OPENING = "You were interrupted in the middle of this request"
_LONGEST_TITLE = 500
#: The last calls matter most; a turn may have thousands.
_MOST_CALLS = 200
_LONGEST_SAID = 4000
_STATES = {ToolStatus.COMPLETED: "completed", ToolStatus.FAILED: "failed"}


def over_attempts(parts: Sequence[str]) -> str:
    """What several attempts of a turn said, one behind the other, with a line where each was cut off.

    A fence that is open there is closed, so that the line stays outside of it.
    """
    line = notices.went_on_after_restart()
    told: list[str] = []
    for number, part in enumerate(parts):
        if number and told[-1:] != [line]:
            told.append(line)
        if part.strip():
            is_last = number == len(parts) - 1
            told.append(part if is_last else part + closing(open_at_end(part), part))
    return "\n\n".join(told)


def continuation(calls: Sequence[ToolCall], said: str) -> str:
    """Stands before the original request; `calls` and `said`: what was seen of the lost attempts."""
    told = [
        f"{OPENING}: your process was ended and has been started anew. The request "
        "follows below once more, in full; you may know it already.",
        _calls(calls),
        _said(said),
        "Go on from where you were. Before you repeat anything that has effects (commands, edits, "
        "messages), check whether it was done already, wholly or in part.",
    ]
    return "\n\n".join(part for part in told if part)


def _calls(calls: Sequence[ToolCall]) -> str:
    if not calls:
        return "No tool call of yours was seen."
    shown = calls[-_MOST_CALLS:]
    left_out = len(calls) - len(shown)
    head = "Your tool calls that were seen, with their last known state:"
    more = [f"- ({left_out} earlier ones are left out)"] if left_out else []
    return "\n".join([head, *more, *map(_call, shown)])


def _call(call: ToolCall) -> str:
    title = shorten(" ".join(call.full_title.split()), _LONGEST_TITLE) or "without a title"
    return f"- {call.kind.value}: {defuse(title)} ({_STATES.get(call.status, 'interrupted')})"


def _said(said: str) -> str:
    if not said.strip():
        return ""
    tail = said[-_LONGEST_SAID:]
    dots = "[…]" if len(tail) < len(said) else ""
    return (
        "People have already read what you said before the interruption, and it stays in your "
        f"answer; do not repeat it:\n\n{dots}{defuse(tail)}\n\nEnd of what you said."
    )
