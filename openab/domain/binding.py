"""A binding: which session a conversation talks to, until when, and what may happen to it.

Nothing here knows a chat network. A conversation without an active binding talks to its own session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from openab.domain.errors import Rejected
from openab.domain.ids import BindingId, ConversationRef, SessionKey
from openab.domain.machine import Machine


class TargetKind(StrEnum):
    """What sort of session a conversation is bound to."""

    #: A sub-agent's, started by an agent or by a person.
    SUBAGENT = "subagent"
    #: Any other session, brought here by a person.
    SESSION = "session"
    #: Reserved; `bind` refuses it.
    ACP = "acp"


class Placement(StrEnum):
    """Which conversation is bound."""

    #: The one that is named.
    CURRENT = "current"
    #: A new one below it.
    CHILD = "child"


class BindingStatus(StrEnum):
    """Where a binding is."""

    #: What is said in the conversation goes to the session.
    ACTIVE = "active"
    #: It is over; people are still to be told so.
    ENDING = "ending"
    #: It is over. The row stays as a tombstone until retention deletes it.
    ENDED = "ended"


class EndReason(StrEnum):
    """Why a binding is over."""

    IDLE = "idle"
    MAX_AGE = "max_age"
    #: Its own time to live has passed.
    EXPIRED = "expired"
    #: Somebody took the conversation off the session.
    UNFOCUSED = "unfocused"
    #: The conversation was bound to something else.
    REPLACED = "replaced"
    #: The conversation was put into the archive; it comes back with it.
    ARCHIVED = "archived"
    #: The conversation is gone, or never came to be.
    CONVERSATION_GONE = "conversation_gone"


class BindingCode(StrEnum):
    """Why something cannot be bound: stable words, people script against them."""

    #: The channel, or openab itself, cannot do this.
    CAPABILITY_UNSUPPORTED = "BINDING_CAPABILITY_UNSUPPORTED"
    #: No adapter serves this channel here.
    ADAPTER_UNAVAILABLE = "BINDING_ADAPTER_UNAVAILABLE"
    #: The conversation to be bound cannot be made, or is somebody else's, or the session is gone.
    CREATE_FAILED = "BINDING_CREATE_FAILED"


class BindingRefused(Rejected):
    """Nothing was bound; `code` says why for machines, the message for people."""

    def __init__(self, code: BindingCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a channel's adapter can bind."""

    placements: frozenset[Placement]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a binding lasts; None: for good."""

    idle: timedelta | None = None
    max_age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class SessionBinding:
    """A binding as it was read."""

    binding_id: BindingId
    target_session_key: SessionKey
    target_kind: TargetKind
    conversation: ConversationRef
    status: BindingStatus
    bound_at: datetime
    #: The person's id; empty: openab itself.
    bound_by: str
    last_activity_at: datetime
    limits: Limits = Limits()
    #: Set at its making: when it ends however busy it is.
    expires_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    end_reason: EndReason | None = None
    #: Its session has a turn that is queued or running: it is not idle, however long it is silent.
    is_busy: bool = False

    def ends_at(self) -> tuple[datetime, EndReason] | None:
        """When it ends if nothing happens any more, and by what; None: never."""
        idle, max_age = self.limits.idle, self.limits.max_age
        ends = []
        if self.expires_at is not None:
            ends.append((self.expires_at, EndReason.EXPIRED))
        if max_age is not None:
            ends.append((self.bound_at + max_age, EndReason.MAX_AGE))
        if idle is not None and not self.is_busy:
            ends.append((self.last_activity_at + idle, EndReason.IDLE))
        return min(ends, key=lambda end: end[0], default=None)

    def expired_by(self, now: datetime) -> EndReason | None:
        """Why it is over at this moment, to the instant, though nobody may have noted it yet."""
        end = self.ends_at()
        return end[1] if end is not None and now >= end[0] else None

    def is_owned_by(self, person: str) -> bool:
        """Whether this person may change it without being an operator."""
        return bool(self.bound_by) and self.bound_by == person


@dataclass(frozen=True, slots=True)
class Unbound:
    """The conversation is taken off the session; people are to be told."""

    reason: EndReason


@dataclass(frozen=True, slots=True)
class Cleared:
    """Everybody was told, or cannot be."""


@dataclass(frozen=True, slots=True)
class Reattached:
    """The archived conversation is in use again."""


BindingEvent = Unbound | Cleared | Reattached

LIFECYCLE: Machine[BindingStatus] = Machine(
    initial=BindingStatus.ACTIVE,
    table={
        BindingStatus.ACTIVE: {Unbound: BindingStatus.ENDING},
        BindingStatus.ENDING: {Cleared: BindingStatus.ENDED},
        BindingStatus.ENDED: {},
    },
    reopened={BindingStatus.ENDED: {Reattached: BindingStatus.ACTIVE}},
)


def may_reattach(tombstone: SessionBinding, now: datetime) -> bool:
    """Whether an archived conversation that is used again goes on with its session.

    Being in the archive does not lengthen its life.
    """
    is_archived = (
        tombstone.status is BindingStatus.ENDED and tombstone.end_reason is EndReason.ARCHIVED
    )
    return is_archived and tombstone.expired_by(now) is None
