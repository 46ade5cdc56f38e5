"""The allow-lists alone: who may use what where, and which threads are ours to join."""

from openab.domain.gates.policy import GatePolicy
from openab.domain.message import Author, Place


def is_channel_allowed(conversation_id: str, parent_id: str | None, policy: GatePolicy) -> bool:
    """Whether a channel or thread is listed, itself or by its parent."""
    allowed = policy.allowed_channels
    return allowed is None or conversation_id in allowed or (parent_id or "") in allowed


def place_refusal(
    place: Place, conversation_id: str, parent_id: str | None, policy: GatePolicy
) -> str | None:
    """Why we do not listen in a place: None if we do, else the reason word."""
    if place is Place.DM:
        return None if policy.allow_dm else "dm_off"
    # Only a thread has a parent that counts; a channel's category does not.
    parent = parent_id if place is Place.THREAD else None
    allowed = is_channel_allowed(conversation_id, parent, policy)
    return None if allowed else "channel_not_allowed"


def is_user_allowed(author: Author, policy: GatePolicy) -> bool:
    """Whether a person is listed; bots are admitted by other rules."""
    users = policy.allowed_users
    return author.is_other_bot or users is None or author.id in users


def may_press(
    author: Author, place: Place, conversation_id: str, parent_id: str | None, policy: GatePolicy
) -> str | None:
    """The lists for commands and buttons, wherever: None if allowed, else the reason word."""
    refusal = place_refusal(place, conversation_id, parent_id, policy)
    if refusal is not None:
        return refusal
    return None if is_user_allowed(author, policy) else "user_not_allowed"


def may_join(thread_id: str, parent_id: str | None, policy: GatePolicy) -> bool:
    """Whether we join a thread unasked, so that what bots say to us there reaches us."""
    return place_refusal(Place.THREAD, thread_id, parent_id, policy) is None
