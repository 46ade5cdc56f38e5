"""How long and how much an agent host allows; tests shorten them."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. Nothing here ends a turn because it is silent."""

    initialize: float = 30.0
    #: session/new, session/load, session/resume, and one config option.
    open_session: float = 90.0
    close_session: float = 5.0
    #: From session/cancel to the end of a deaf agent.
    cancel: float = 15.0
    #: How long text is still taken after the prompt's response.
    late_text: float = 0.3
    #: How long one message may wait for an agent that does not read its stdin.
    write: float = 30.0
    #: How long before the hard time-out people are told.
    hard_notice: float = 300.0
    #: A replay that follows its response has drained when it is silent for so long.
    replay_quiet: float = 0.3
    #: How long the first replayed update may come after the response.
    replay_start: float = 1.0
    #: From closing stdin to SIGTERM.
    leave: float = 2.0
    #: From SIGTERM to SIGKILL.
    terminate: float = 1.5
    #: How long one end of a dying agent (pipe, process) waits for the other.
    settle: float = 1.0

    def hurried(self, seconds: float) -> "Timeouts":
        """The same, but an agent that is ended is gone within `seconds`, whatever it does."""
        return replace(
            self,
            close_session=min(self.close_session, 0.4 * seconds),
            leave=min(self.leave, 0.25 * seconds),
            terminate=min(self.terminate, 0.2 * seconds),
        )


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a line; characters of a turn's journal."""

    line: int = 64 * 1024 * 1024
    #: From here on tool updates collapse to the last per id; text never does.
    collapse: int = 64 * 1024 * 1024
    #: From here on the turn fails.
    journal: int = 256 * 1024 * 1024
