"""Where a task's completion goes: the router's decision, without any look at the world.

A completion that resolves to a bound conversation goes there and nowhere else. Where it resolves to
nothing, the caller chooses openly what is done instead; there is no hidden way to a parent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from openab.domain.binding import BindingStatus, SessionBinding
from openab.domain.ids import ConversationRef, SessionKey


class EventKind(StrEnum):
    """What goes through the router; everything else stays where it was said."""

    TASK_COMPLETION = "task_completion"


class Mode(StrEnum):
    """Whether a destination was found."""

    BOUND = "bound"
    FALLBACK = "fallback"


class Reason(StrEnum):
    """Why it was decided so; stable words, they stand in the logs."""

    MISSING_TARGET_SESSION = "missing-target-session"
    NO_ACTIVE_BINDING = "no-active-binding"
    INVALID_REQUESTER = "invalid-requester"
    REQUESTER_MATCH = "requester-match"
    NO_REQUESTER_MATCH = "no-requester-match"
    MISSING_REQUESTER = "missing-requester"
    SINGLE_ACTIVE_BINDING = "single-active-binding"


class Fallback(StrEnum):
    """What a caller can choose where no destination was found."""

    #: The requester's conversation is given the completion, marked as what it is.
    REPORT_TO_REQUESTER = "report_to_requester"
    #: It is kept until the session is bound again.
    HOLD = "hold"
    #: It is given to nobody, and the requester is told so.
    DROP_WITH_NOTICE = "drop_with_notice"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a completion goes. One opaque value: whoever makes the content does not look into it."""

    binding: SessionBinding | None
    mode: Mode
    reason: Reason


def resolve(
    target_session_key: SessionKey,
    bindings: Sequence[SessionBinding],
    requester: ConversationRef | None,
    *,
    fail_closed: bool = True,
) -> Destination:
    """The destination among the session's bindings; the first rule that matches decides."""
    if not target_session_key.strip():
        return _fallback(Reason.MISSING_TARGET_SESSION)
    active = [one for one in bindings if one.status is BindingStatus.ACTIVE]
    if not active:
        return _fallback(Reason.NO_ACTIVE_BINDING)
    if requester is None:
        if not fail_closed and len(active) == 1:
            return Destination(active[0], Mode.BOUND, Reason.SINGLE_ACTIVE_BINDING)
        return _fallback(Reason.MISSING_REQUESTER)
    if not requester.channel.strip() or not requester.conversation_id.strip():
        return _fallback(Reason.INVALID_REQUESTER)
    found = _matching(active, requester)
    if found is None:
        return _fallback(Reason.NO_REQUESTER_MATCH)
    return Destination(found, Mode.BOUND, Reason.REQUESTER_MATCH)


def _matching(
    active: Sequence[SessionBinding], requester: ConversationRef
) -> SessionBinding | None:
    """The requester's own conversation, else the only one on the same channel and account."""
    near = [one for one in active if _side(one.conversation) == _side(requester)]
    exact = [one for one in near if one.conversation.conversation_id == requester.conversation_id]
    found = exact or near
    return found[0] if len(found) == 1 else None


def _side(ref: ConversationRef) -> tuple[str, str]:
    return ref.channel, ref.account


def _fallback(reason: Reason) -> Destination:
    return Destination(None, Mode.FALLBACK, reason)
