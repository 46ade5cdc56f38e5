"""Ends the bindings of conversations that are archived or gone, lets them go on when they open, and never acts on doubt."""

import asyncio
from collections.abc import Callable
from functools import partial

import structlog

from openab.control.intake import Step
from openab.control.settings import Settings
from openab.domain.binding import BindingStatus, EndReason
from openab.domain.errors import Transient, Unknown
from openab.domain.ids import ConversationRef, PlatformId
from openab.ports.places import PlaceChanged, Places, PlaceState
from openab.ports.signals import Signals
from openab.storage import bindings, conversations, deliveries
from openab.storage.conversations import Conversation
from openab.storage.engine import Database, Transaction

log = structlog.get_logger()
#: So many places are asked after at once.
_AT_ONCE = 4
#: After the database could not say what is bound.
_AGAIN_SECONDS = 5.0
_REASONS = {
    PlaceState.ARCHIVED: EndReason.ARCHIVED,
    PlaceState.GONE: EndReason.CONVERSATION_GONE,
}


class PlacesWatch:
    """Takes what the network tells of places at its place among the messages; asks itself after each absence."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        places: Places,
        put: Callable[[Step], None],
        signals: Signals,
    ) -> None:
        """`put` is the intake queue's."""
        self._database = database
        self._settings = settings
        self._places = places
        self._put = put
        self._signals = signals
        self._asked = asyncio.Event()

    def changed(self, change: PlaceChanged) -> None:
        """The network told it; never waits."""
        place = change.conversation.conversation_id
        if change.state is PlaceState.LOCKED:
            log.info("place_locked", conversation=place)
        elif change.state is not PlaceState.UNKNOWN:
            self._put(Step("place_changed", partial(self._act, change), place))

    def connected(self) -> None:
        """Events flow again after some may have been missed: every bound place is asked after."""
        self._asked.set()

    async def run(self) -> None:
        """Ask when there is need, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._reconcile()
            except (Transient, Unknown) as error:
                log.warning("places_not_reconciled", error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
                self._asked.set()

    async def _reconcile(self) -> None:
        async with self._database.read() as tx:
            found = await bindings.open_of(tx, self._settings.account)
            active = [one for one in found if one.binding.status is BindingStatus.ACTIVE]
            # Bound in the commit that owes it, a sub-agent's thread may not be there yet: that is not gone.
            unopened = await deliveries.unopened(tx, [one.conversation for one in active])
        bound = [one.binding.conversation for one in active if one.conversation not in unopened]
        room = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for place in bound:
                name = f"place {place.conversation_id}"
                group.create_task(self._ask(place, room), name=name)
        log.info("places_reconciled", places=len(bound))
        self._signals.tell("places_reconciled")

    async def _ask(self, place: ConversationRef, room: asyncio.Semaphore) -> None:
        async with room:
            state = await self._places.state(place, self._settings.call.total_seconds())
        if state is not PlaceState.OPEN:
            self.changed(PlaceChanged(place, state))

    async def _act(self, change: PlaceChanged, tx: Transaction) -> None:
        if change.state is PlaceState.GONE:
            await self._end_below(tx, change.conversation.conversation_id)
        where = await conversations.find(tx, change.conversation)
        if where is None:
            return
        await conversations.hold(tx, where.id)
        if change.state is PlaceState.OPEN:
            await self._settings.bindings.reattach(tx, where.id)
            return
        await self._end(tx, where, _REASONS[change.state])
        if change.state is PlaceState.GONE:
            await conversations.close(tx, where.id)

    async def _end(self, tx: Transaction, where: Conversation, reason: EndReason) -> None:
        found = await bindings.active_in(tx, where.id)
        if found is not None:
            await self._settings.bindings.unbind(tx, found.binding.binding_id, reason)

    async def _end_below(self, tx: Transaction, channel: PlatformId) -> None:
        """A channel takes its threads along, and the network tells of none of them.

        Nobody need ever have spoken in the channel itself.
        """
        for found in await bindings.open_of(tx, self._settings.account):
            place = found.binding.conversation
            if place.parent_conversation_id == channel:
                told = PlaceChanged(place, PlaceState.GONE)
                tx.after_commit(partial(self.changed, told))
