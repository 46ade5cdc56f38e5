"""The agent port: what an agent host promises to whoever runs turns.

Semantics are final; the embedded host (in this process) and the daemon's client both keep them:

- Every mutating call carries an `AgentSession`, whose (database id, key, generation) name the
  session at the host and whose `epoch` must not be older than any the host has seen for it:
  an older one raises `StaleEpoch` and does nothing.
- `prompt` is idempotent by (turn, attempt, step): a repeated call starts nothing new.
- Events are numbered per attempt of a turn from 1 within one life of the host (its incarnation),
  the end event included, and kept until the outcome is acknowledged or another attempt begins.
- Silence never ends a turn; the end event is the only end.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from openab.domain.agent_events import AgentFailure, Numbered, Position
from openab.domain.errors import OpenabError, Rejected, Transient
from openab.domain.ids import AcpSessionId, Incarnation, SessionKey, TurnId
from openab.domain.options import Option


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A session's name at the host, and the right to command it."""

    database_id: str
    key: SessionKey
    generation: int
    epoch: int


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """How to start an agent. `env` is the complete environment apart from the host's own marker."""

    name: str
    command: str
    args: tuple[str, ...]
    working_dir: str
    env: Mapping[str, str] = field(repr=False)
    hard_timeout_seconds: float = 7200.0
    #: `auto`: the host answers permission questions by kind; `ask`: it waits for `answer`.
    permission_mode: str = "auto"
    #: Options set after each session/new; an unknown value is logged, never fatal.
    default_config_options: Mapping[str, str] = field(default_factory=dict)


class OpenedBy(StrEnum):
    """How a session came to be usable."""

    #: It was live in this host already.
    LIVE = "live"
    #: session/resume or session/load brought it back with its memory.
    RESUMED = "resumed"
    #: session/new: the agent remembers nothing.
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Opened:
    """A usable session. `context_lost`: an ACP session id was given and could definitely not be restored."""

    acp_session_id: AcpSessionId
    by: OpenedBy
    context_lost: bool = False
    #: Replayed updates that were counted and thrown away.
    replayed: int = 0
    agent_name: str = ""
    agent_version: str = ""
    #: What can be chosen in the session, where the agent has said it (some say it once only).
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Plain text of a prompt. Further kinds of block (image, resource) join it as their issues come."""

    text: str


ContentBlock = TextBlock


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt. (turn, attempt, step) makes it single; step 1 is the request itself."""

    turn: TurnId
    attempt: int
    step: int
    incarnation: Incarnation
    content: Sequence[ContentBlock]


class Liveness(StrEnum):
    """What a host knows of a session."""

    ABSENT = "absent"
    IDLE = "idle"
    PROMPTING = "prompting"


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session as its host sees it now. `pid` is None where nothing runs."""

    liveness: Liveness
    turn: TurnId | None = None
    pid: int | None = None
    #: Seconds since the agent's process last wrote a line.
    quiet_seconds: float = 0.0


class StaleEpoch(Rejected):
    """A newer owner has commanded this session; the caller has lost its lease."""


class PromptLost(Rejected):
    """The prompt names another life of the host; it was not and will not be given to the agent here."""


class AgentRefused(Rejected):
    """The agent definitely cannot be used now; `failure` says why and what to do."""

    def __init__(self, failure: AgentFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class AgentUnavailable(Transient):
    """Opening did not work out but nothing is lost: the ACP session id stays valid; try again later."""

    def __init__(self, failure: AgentFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class OptionRefused(Rejected):
    """The agent does not take this value; its own words are the message."""


class SessionBusy(OpenabError):
    """A prompt of another (turn, attempt, step) is running on this session."""


class Agents(Protocol):
    """The host's side of the port."""

    @property
    def incarnation(self) -> Incarnation:
        """This life of the host."""
        ...

    async def open(
        self, session: AgentSession, spec: AgentSpec, acp_session_id: AcpSessionId | None
    ) -> Opened:
        """Make the session usable: live, else resume, else load, else new.

        Only a definite "no such session", or an agent that can restore nothing, replaces a given
        id (`context_lost`). Raises AgentRefused, AgentUnavailable (time-outs and other doubt: the
        id is kept), StaleEpoch. Doing it twice answers LIVE.
        """
        ...

    async def prompt(self, session: AgentSession, prompt: Prompt) -> None:
        """Give the prompt to the agent once; returns when it is written or already was.

        Raises PromptLost, SessionBusy, StaleEpoch. A session that is not open here, or an agent
        that dies on it, ends the turn with an event, not with an exception.
        """
        ...

    def unwritten(
        self, session: AgentSession, turn: TurnId, attempt: int, step: int, incarnation: Incarnation
    ) -> bool:
        """Whether no byte of this prompt has reached an agent: True only if that is certain.

        The answer stands for whoever has commanded the session (`close`, `open`) with the newest
        epoch before they ask: nobody with an older one can give the prompt any more. False for a
        prompt of another life, and wherever this one may have forgotten it.
        """
        ...

    def events(self, turn: TurnId, after: int) -> AsyncIterator[Numbered]:
        """The events of the turn's newest attempt with n > `after`, as they come; ends after PromptEnded."""
        ...

    async def ack(self, turn: TurnId, position: Position, *, outcome: bool = False) -> None:
        """Everything up to `position` is stored; with `outcome` the turn's journal may be forgotten.

        A journal that has not ended may be forgotten when it has.
        """
        ...

    async def cancel(self, session: AgentSession, turn: TurnId) -> None:
        """Ask the agent to stop this turn, once; pending permissions are answered `cancelled`.

        The end event follows, at the latest when the host has ended a deaf agent (15 s). Nothing
        happens if the turn is not running here; an idle session never gets a cancel.
        """
        ...

    async def answer(self, session: AgentSession, request_id: str, option_id: str | None) -> bool:
        """Answer a permission question (None: cancelled). False if it was settled before."""
        ...

    def options(self, session: AgentSession) -> tuple[Option, ...]:
        """What can be chosen in an open session, as the agent last said it; empty for any other."""
        ...

    async def set_option(self, session: AgentSession, option_id: str, value: str) -> None:
        """Choose a value in an open session on which nothing runs. Doing it twice is harmless.

        Raises OptionRefused, SessionBusy, StaleEpoch, and AgentUnavailable where the session is not
        open or the agent does not answer.
        """
        ...

    async def close(self, session: AgentSession, within: float | None = None) -> None:
        """End the session's process and all its descendants. Twice is harmless.

        What runs is cancelled first. With `within` the process is gone after so many seconds,
        however deaf it is; without, it has more time to leave in order.
        """
        ...

    def status(self, session: AgentSession) -> SessionStatus:
        """What is known now, without asking the agent."""
        ...
