"""The few values that the control plane needs; wiring fills them from the configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from openab.domain.batching import Batching, OnBusy
from openab.domain.binding import Limits
from openab.domain.emojis import Emojis
from openab.domain.gates import GatePolicy
from openab.domain.ids import (
    AccountId,
    ChannelName,
    ConversationRef,
    SessionKey,
    WorkerId,
    named_agent,
)
from openab.domain.recovery import RecoveryPolicy
from openab.domain.spawn import SpawnLimits
from openab.ports.agent import AgentSpec
from openab.routing.bindings import Bindings
from openab.text.tables import TableStyle
from openab.text.tools import ToolDisplay


@dataclass(frozen=True, slots=True)
class ReactionSettings:
    """Whether and how the trigger shows a turn's status."""

    enabled: bool = True
    remove_after_reply: bool = False
    #: A face beside *done*, as OpenAB adds one.
    mood_face: bool = False
    emojis: Emojis = field(default_factory=Emojis)
    done_hold: timedelta = timedelta(milliseconds=1500)
    error_hold: timedelta = timedelta(milliseconds=2500)
    #: At least this long between two reaction calls of one turn (Discord: one per 250 ms).
    pace: timedelta = timedelta(milliseconds=300)


@dataclass(frozen=True, slots=True)
class ReplySettings:
    """How a final answer is delivered."""

    #: auto | edit | fresh
    final: str = "auto"
    ping_requester: bool = True
    tool_display: ToolDisplay = ToolDisplay.FULL
    tables: TableStyle = TableStyle.CODE
    #: Keep the text between tool calls where nobody watched it grow.
    narration: bool = False
    #: A turn longer than this is always answered by a fresh message.
    edit_within: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How many agents live, and how long."""

    max_sessions: int = 10
    #: An agent that was idle for so long is ended; None: never.
    session_ttl: timedelta | None = timedelta(hours=4)
    #: So long after the hard time-out a turn that still has not ended is ended by force.
    hung_grace: timedelta = timedelta(seconds=120)


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """What becomes of a running turn whose agent is gone."""

    policy: RecoveryPolicy = RecoveryPolicy.CAREFUL
    #: How often a turn is tried, the first time included; an orderly stop does not count.
    max_attempts: int = 2
    #: A question that nobody answers for so long ends its turn.
    patience: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class BindingSettings:
    """Whether conversations are bound to sessions, how long, and how far sub-agents may go."""

    enabled: bool = False
    limits: Limits = field(default_factory=Limits)
    spawns: SpawnLimits = field(default_factory=SpawnLimits)
    #: How often bindings are looked over whose time may be over.
    sweep_every: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """Which folders sessions work in."""

    #: Names that people may give, without the `@`, and the folders they lead to.
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: off | folder | worktree
    per_thread: str = "off"


def _no_name(_bot: str) -> str:
    """Nobody is known."""
    return ""


def _uncounted(_kind: str, _word: str) -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the control plane is told once; callables are read at each use (reload)."""

    channel: ChannelName
    account: AccountId
    worker: WorkerId
    #: How the death of this worker can be proved by others (see `conversations.lease_proof`).
    proof: str
    policy: Callable[[], GatePolicy]
    #: How the default agent is started.
    agent: Callable[[], AgentSpec]
    #: (conversation, another bot is in it) → stream | heartbeat | final
    mode: Callable[[ConversationRef, bool], str]
    #: The others, by name.
    named_agents: Callable[[], Mapping[str, AgentSpec]] = dict
    operators: Callable[[], frozenset[str]] = frozenset
    #: What people's reactions say: plain emoji → text. Empty: reactions start nothing.
    reaction_mapping: Mapping[str, str] = field(default_factory=dict)
    batching: Batching = field(default_factory=Batching)
    on_busy: OnBusy = OnBusy.QUEUE
    #: What was said while we were away is answered up to this age; zero: none of it.
    backfill: timedelta = timedelta(minutes=60)
    pool: PoolSettings = PoolSettings()
    replies: Callable[[], ReplySettings] = ReplySettings
    workspace: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    recovery: RecoverySettings = RecoverySettings()
    binding: BindingSettings = field(default_factory=BindingSettings)
    bindings: Bindings = field(default_factory=lambda: Bindings({}))
    reactions: ReactionSettings = field(default_factory=ReactionSettings)
    #: What a bot is called; empty where nobody knows it.
    bot_name: Callable[[str], str] = _no_name
    #: (in | out, accepted | sent | reason word) of a hand-off that is decided.
    count_handoff: Callable[[str, str], None] = _uncounted
    #: (mode, reason) of a completion that is routed.
    count_routed: Callable[[str, str], None] = _uncounted
    #: A session's first prompt tells the agent how and to whom it can hand work.
    announces_handoffs: bool = True
    #: Takes known secrets out of what an agent wrote to stderr or said as an error.
    redact: Callable[[str], str] = str
    lease: timedelta = timedelta(seconds=15)
    call: timedelta = timedelta(seconds=5)
    drain: timedelta = timedelta(seconds=20)
    #: Finished rows are deleted after so long; nothing: they are kept for good.
    keep: timedelta = timedelta(days=30)
    #: How often work is looked for when nobody hints at it.
    poll: timedelta = timedelta(milliseconds=500)
    #: A same-nonce retry is safe for this long after the first try.
    nonce_window: timedelta = timedelta(seconds=120)
    #: History is valid evidence this long after the last try.
    settle_after: timedelta = timedelta(seconds=60)
    #: A conversation takes five writes in so long.
    five_writes: timedelta = timedelta(seconds=5)
    #: How often streams are committed.
    commit_every: timedelta = timedelta(milliseconds=250)
    #: A placeholder is replaced before Discord limits edits of it (one hour).
    placeholder_age: timedelta = timedelta(minutes=55)

    def spec_of(self, session: SessionKey) -> AgentSpec | None:
        """How a session's agent is started; None: nobody configures it any more."""
        name = named_agent(session)
        return self.named_agents().get(name) if name else self.agent()
