"""A delivery: something that is owed to a conversation, and what may happen to it.

Never a blind second send: what may have happened is `unknown`, and leaves that state only by
evidence (the same nonce inside its window, our own echo, history).
"""

from dataclasses import dataclass
from enum import StrEnum

from openab.domain.machine import Machine


class DeliveryState(StrEnum):
    """Where a delivery is."""

    #: Owed; may be sent once its not-before has passed.
    PENDING = "pending"
    #: Its one HTTP try was committed to before it began.
    SENDING = "sending"
    #: The try may have been carried out; evidence is looked for.
    UNKNOWN = "unknown"
    #: It is on the network (or was, and has been deleted since).
    SENT = "sent"
    #: It cannot be delivered; the reason is stored.
    DEAD = "dead"


class DeliveryKind(StrEnum):
    """What the network is asked to do."""

    CREATE = "create"
    EDIT = "edit"
    DELETE = "delete"
    THREAD = "thread"


class Purpose(StrEnum):
    """What the delivery is for; decides its place in the queue and who misses it."""

    THREAD = "thread"
    PLACEHOLDER = "placeholder"
    FINAL = "final"
    NOTICE = "notice"
    #: Takes a placeholder away, or turns it into a last word.
    RETIRE = "retire"
    #: Says that bots have spoken often enough; not sent if another bot has said it.
    CAP_WARNING = "cap_warning"
    #: The message by which another bot is given work.
    HANDOFF = "handoff"
    #: The message in the parent that a sub-agent's thread hangs on.
    STARTER = "starter"
    #: A sub-agent's task, shown in its thread under the sub-agent's name.
    TASK = "task"


class DeadReason(StrEnum):
    """Why a delivery is dead."""

    REFUSED = "refused"
    FORBIDDEN = "forbidden"
    CONVERSATION_GONE = "conversation_gone"
    MESSAGE_GONE = "message_gone"
    LOCKED = "locked"
    #: Its outcome cannot be found out any more.
    UNCLEAR = "unclear"
    #: What it was for has ended otherwise.
    SUPERSEDED = "superseded"
    #: A hand-off that is not sent; its detail is the reason word.
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True)
class Begun:
    """The one HTTP try of this `sending` begins now."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """It is on the network."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """Definitely not done: a rate limit, or no byte left. Also: found absent by valid evidence."""


@dataclass(frozen=True, slots=True)
class Doubtful:
    """The try's outcome is not known."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A definite refusal, or no evidence can come any more."""

    reason: DeadReason


DeliveryEvent = Begun | Confirmed | Postponed | Doubtful | GivenUp

LIFECYCLE: Machine[DeliveryState] = Machine(
    initial=DeliveryState.PENDING,
    table={
        DeliveryState.PENDING: {Begun: DeliveryState.SENDING, GivenUp: DeliveryState.DEAD},
        DeliveryState.SENDING: {
            Confirmed: DeliveryState.SENT,
            Postponed: DeliveryState.PENDING,
            Doubtful: DeliveryState.UNKNOWN,
            GivenUp: DeliveryState.DEAD,
        },
        DeliveryState.UNKNOWN: {
            Begun: DeliveryState.SENDING,
            Confirmed: DeliveryState.SENT,
            Postponed: DeliveryState.PENDING,
            GivenUp: DeliveryState.DEAD,
        },
        DeliveryState.SENT: {},
        DeliveryState.DEAD: {},
    },
)
