"""What an agent can report during a turn, in the order it was reported.

The vocabulary is ACP's (session/update kinds, tool kinds and statuses, stop reasons) with one
addition: the end of a turn is an event of our own, so that a protocol in which the prompt's
response is not the end can be added without touching anybody else.
"""

from dataclasses import dataclass
from enum import StrEnum

from openab.domain.ids import Incarnation


class ToolKind(StrEnum):
    """What a tool call does; decides icons and whether repeating it after a crash is harmless."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


class ToolStatus(StrEnum):
    """How far a tool call is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class OptionKind(StrEnum):
    """What choosing a permission option means; option ids are the agent's own, choose by kind."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"


class EndKind(StrEnum):
    """How the agent's part of a turn ended."""

    #: The agent answered the prompt with a stop reason other than `cancelled`.
    COMPLETED = "completed"
    #: The agent answered `cancelled`, or was ended after it was asked to cancel.
    CANCELLED = "cancelled"
    #: The agent answered with an error, exited, lost its transport or was stopped by a limit.
    FAILED = "failed"


class FailureKind(StrEnum):
    """Why an agent could not do its part; each has one notice."""

    #: The command was not found or could not be started.
    NOT_FOUND = "not_found"
    #: No agent of the session's name is configured any more.
    NOT_CONFIGURED = "not_configured"
    #: It started but does not speak ACP (no or a wrong answer to `initialize`).
    NOT_ACP = "not_acp"
    #: A set-up call (initialize, session/new, load, resume) did not answer in time.
    SETUP_TIMEOUT = "setup_timeout"
    #: The agent wants a login first (-32000).
    AUTH_REQUIRED = "auth_required"
    #: The agent answered with a JSON-RPC error.
    ERROR = "error"
    #: The process ended during the turn.
    EXITED = "exited"
    #: The pipe to the agent is unusable though the process lives.
    TRANSPORT = "transport"
    #: `prompt_hard_timeout_secs` ran out.
    HARD_TIMEOUT = "hard_timeout"
    #: More output than the journal's cap.
    OUTPUT_TOO_LARGE = "output_too_large"
    #: The folder that the session is to work in cannot be used.
    WORKSPACE = "workspace"
    #: The agent was lost in the middle, as often as the turn may be tried.
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class AgentFailure:
    """An agent's failure as it is shown and stored. `stderr_tail` is at most 2,000 characters."""

    kind: FailureKind
    message: str
    #: The JSON-RPC error code, where there was one.
    code: int | None = None
    #: The process's exit code (negative: the signal), where it exited.
    exit_code: int | None = None
    stderr_tail: str = ""
    #: Names of the agent's own login methods, for AUTH_REQUIRED.
    auth_methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer, exactly as it came; may hold NUL and lone surrogates."""

    text: str
    #: The agent's message id, where it sends one; another id begins another message.
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of the agent's reasoning: a sign of life, never shown as answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolChanged:
    """A tool call appeared or changed: an upsert by `tool_id`; None leaves the field as it was."""

    tool_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolStatus | None = None
    #: What it works on (a command, path, query or address), where the agent tells it beside the title.
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One step of an agent's plan."""

    content: str
    status: str = "pending"


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The whole plan, replacing the former one."""

    entries: tuple[PlanEntry, ...]


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """One answer that may be given to a permission question."""

    option_id: str
    name: str
    kind: OptionKind | None


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """The agent waits for a yes or no. `request_id` is the host's own name for the question."""

    request_id: str
    tool: ToolChanged
    options: tuple[PermissionOption, ...]


@dataclass(frozen=True, slots=True)
class PermissionSettled:
    """A question was answered (`option_id`), or cancelled (None)."""

    request_id: str
    option_id: str | None
    #: The chosen option's kind, where it has one.
    kind: OptionKind | None = None


@dataclass(frozen=True, slots=True)
class UsageChanged:
    """How much of the context window is used, in tokens, and what the session has cost so far."""

    used: int
    size: int
    cost: float | None = None
    currency: str = ""


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """A fact about the session rather than the turn: `what` names the ACP update kind."""

    what: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HostNotice:
    """The host tells people something in mid-turn, for instance that the hard time-out is near.

    `code` is a constant word (`hard_timeout_near`); `minutes` where the code has one.
    """

    code: str
    minutes: int = 0


@dataclass(frozen=True, slots=True)
class PromptEnded:
    """The last event of a turn; nothing follows it. `failure` is set exactly when kind is FAILED."""

    kind: EndKind
    stop_reason: str | None = None
    failure: AgentFailure | None = None
    output_tokens: int | None = None


AgentEvent = (
    TextDelta
    | Thought
    | ToolChanged
    | PlanChanged
    | PermissionAsked
    | PermissionSettled
    | UsageChanged
    | SessionChanged
    | HostNotice
    | PromptEnded
)


@dataclass(frozen=True, slots=True)
class Position:
    """Where an event stands: numbered per turn from 1 within one life of the host."""

    incarnation: Incarnation
    n: int


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event at its position."""

    position: Position
    event: AgentEvent


#: Kinds whose calls change nothing outside the agent.
HARMLESS_KINDS = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK})
