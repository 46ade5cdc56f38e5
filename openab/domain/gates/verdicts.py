"""The decision on an event: what becomes of it, and why."""

from dataclasses import dataclass
from enum import StrEnum

from openab.domain.commands import TextCommand
from openab.domain.message import CommandKind


class Disposition(StrEnum):
    """What becomes of an event."""

    TURN = "turn"
    COMMAND = "command"
    #: A valid hand-off: a turn of its own.
    HANDOFF = "handoff"
    IGNORED = "ignored"
    #: Somebody addressed the bot who may not, or a hand-off is not accepted: told by a reaction.
    REFUSED = "refused"
    ECHO = "echo"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision, and why; `reason` is a constant word that `openab why` explains."""

    disposition: Disposition
    reason: str
    command: CommandKind | None = None
    #: What stands behind the command's word.
    argument: str = ""
    #: The turn's conversation is a thread that has yet to be opened on the message.
    opens_thread: bool = False
    #: It is a part of a run of one bot's messages, which is one input: the turn waits for the rest.
    gathers_run: bool = False


def command_verdict(command: TextCommand) -> Verdict:
    """It is for the broker itself."""
    return Verdict(
        Disposition.COMMAND, "text_command", command=command.kind, argument=command.argument
    )


def ignored(reason: str) -> Verdict:
    """Nothing becomes of it."""
    return Verdict(Disposition.IGNORED, reason)
