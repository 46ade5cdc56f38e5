"""The places port: what a chat network tells about a conversation, and that it has changed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from openab.domain.ids import ConversationRef


class PlaceState(StrEnum):
    """What became of a conversation."""

    OPEN = "open"
    ARCHIVED = "archived"
    #: Nobody but moderators can write there.
    LOCKED = "locked"
    GONE = "gone"
    #: It could not be found out: forbidden, no answer, any doubt. Nobody acts on it.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PlaceChanged:
    """The network told that a conversation is in this state now; it may tell so twice."""

    conversation: ConversationRef
    state: PlaceState


class Places(Protocol):
    """Asks the network."""

    async def state(self, conversation: ConversationRef, seconds: float) -> PlaceState:
        """The conversation's state now. Never raises a failure: whatever is not certain is UNKNOWN."""
        ...
