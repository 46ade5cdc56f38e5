"""Live events of places whose history is being read: they wait behind what was said before them."""

from collections.abc import Callable, Collection, Iterable

import structlog

from openab.control.intake import Event
from openab.domain.ids import PlatformId
from openab.domain.message import InboundMessage
from openab.ports.history import Room

log = structlog.get_logger()


class HeldEvents:
    """Passes events on in their order, once nothing is missing before them; it never waits itself."""

    def __init__(self, on: Callable[[Event], None]) -> None:
        self._on = on
        self._held: list[Event] = []
        self._is_holding = False
        self._is_ending = False
        #: Nobody knows yet where something was missed.
        self._is_unplanned = False
        self._unread: set[PlatformId] = set()
        #: Places whose archived threads are not known yet, and the threads that are not among those.
        self._unlisted: set[PlatformId] = set()
        self._active: set[PlatformId] = set()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._held)

    def begin(self) -> None:
        """Something may have been missed anywhere: everything waits until `plan`."""
        self._is_holding = self._is_unplanned = True
        for places in (self._unread, self._unlisted, self._active):
            places.clear()

    def plan(
        self,
        rooms: Iterable[Room],
        unread: Collection[PlatformId],
        unlisted: Collection[PlatformId],
    ) -> None:
        """Only the `unread` of these rooms wait, and archived threads of the `unlisted`; adds to former plans."""
        self._is_unplanned = False
        self._active |= {room.ref.conversation_id for room in rooms}
        self._unread |= set(unread)
        self._unlisted |= set(unlisted)
        self._pass_on()

    def found(self, room: PlatformId) -> None:
        """An archived thread has to be read."""
        self._unread.add(room)

    def read(self, room: PlatformId) -> None:
        """All that was said there before is on its way."""
        self._unread.discard(room)
        self._pass_on()

    def listed(self, parent: PlatformId) -> None:
        """Its archived threads are known; those that have to be read were told by `found`."""
        self._unlisted.discard(parent)
        self._pass_on()

    def open(self) -> None:
        """Nobody waits any longer, whatever is missing."""
        self._is_holding = False
        self._pass_on()

    def end(self) -> None:
        """The process stops. What waits is read from history by the next one, but for reactions."""
        self._is_ending = True
        self._pass_on()

    def put(self, event: Event) -> None:
        """Pass it on, now or later."""
        if self._waits(event):
            self._held.append(event)
        else:
            self._on(event)

    def _pass_on(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self.put(event)

    def _waits(self, event: Event) -> bool:
        if not self._is_holding:
            return False
        if self._is_ending and not isinstance(event, InboundMessage):
            return False
        here, parent = event.conversation.conversation_id, event.conversation.parent_conversation_id
        if self._is_unplanned or here in self._unread:
            return True
        may_be_archived = parent in self._unlisted and here not in self._active
        return parent in self._unread or may_be_archived
