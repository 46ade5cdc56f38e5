"""The text twins of commands: a message that, without our mention, is exactly one of them."""

from dataclasses import dataclass

from openab.domain.message import CommandKind

_TWINS = {
    "!cancel": CommandKind.CANCEL,
    "!cancel-all": CommandKind.CANCEL_ALL,
    "!continue": CommandKind.CONTINUE,
    "!reset": CommandKind.RESET,
    "!models": CommandKind.MODELS,
    "!agents": CommandKind.AGENTS,
    "!usage": CommandKind.USAGE,
    "!sessions": CommandKind.SESSIONS,
    "!focus": CommandKind.FOCUS,
    "!unfocus": CommandKind.UNFOCUS,
    "!session": CommandKind.SESSION,
}
#: These take a name behind them, which is then chosen. What takes prose or several values has a
#: slash command alone: a task for a sub-agent that is typed is for the agent, which can give it on.
_NAMING = frozenset({CommandKind.MODELS, CommandKind.AGENTS, CommandKind.FOCUS})


@dataclass(frozen=True, slots=True)
class TextCommand:
    """A command that was typed; `argument` is the name that is to be chosen, or empty."""

    kind: CommandKind
    argument: str = ""


def text_command(text: str) -> TextCommand | None:
    """The command that a message is; None for everything that is for the agent (`/x`, too)."""
    lines = text.strip().splitlines()
    if len(lines) != 1:
        return None
    word, _, rest = lines[0].partition(" ")
    kind = _TWINS.get(word)
    if kind is None or (rest and kind not in _NAMING):
        return None
    return TextCommand(kind, rest.strip())
