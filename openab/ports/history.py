"""The history port: what was said while we did not listen, read place by place.

Only reads: one call makes at most one request, within the deadline it is given. It returns, or it
raises `Rejected` (this place cannot be read) or `Transient` (ask again later).
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from openab.domain.ids import ConversationRef, PlatformId
from openab.domain.message import InboundMessage, Place


@dataclass(frozen=True, slots=True)
class Room:
    """A place as the network describes it."""

    ref: ConversationRef
    place: Place
    #: Its last message, if it tells one; it need not exist any more.
    newest: PlatformId | None = None
    #: Messages can stand in it. A place that only holds threads has none of its own.
    has_messages: bool = True
    #: Threads can stand in it, archived ones, too.
    has_threads: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a place's history, oldest first. What could not be understood is left out."""

    messages: Sequence[InboundMessage]
    #: Where the next page begins; None: this was the last one.
    after: PlatformId | None = None


@dataclass(frozen=True, slots=True)
class Archive:
    """A part of a place's archived threads, the latest archived first."""

    rooms: Sequence[Room]
    #: Where the next part begins; None: there is none, or none that was archived late enough.
    before: str | None = None


class History(Protocol):
    """What one account can read, as long as it is connected."""

    def rooms(self) -> AsyncIterator[Sequence[Room]]:
        """Every channel and active thread of the present connection.

        First those that are told at once, if any, then the others as they are told; ends when
        all are. Always gives something.
        """
        ...

    async def archived(
        self, parent: Room, *, since: PlatformId, before: str | None, seconds: float
    ) -> Archive:
        """The threads of a place that were archived after the message `since` was said."""
        ...

    async def page(self, room: Room, *, after: PlatformId, seconds: float) -> Page:
        """The messages behind `after`, as many as come at once; they are marked as from history."""
        ...

    def newest(self) -> PlatformId:
        """This moment as a message id, by the network's clock; rather too early than too late."""
        ...

    def earlier(self, message: PlatformId, by: timedelta) -> PlatformId:
        """The id of a message that was said so much before this one."""
        ...

    def said_at(self, message: PlatformId) -> datetime:
        """When a message was said."""
        ...
