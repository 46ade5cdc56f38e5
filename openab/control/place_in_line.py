"""A conversation's next turn and the place that it needs, for the conversation's present owner."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from openab.control.bodies import waiting_placeholder
from openab.control.reception import owe_placeholder
from openab.control.retire import placeholders_of
from openab.control.services import Services
from openab.domain.turn import TurnState
from openab.storage import conversations, turns
from openab.storage.conversations import Ownership
from openab.storage.turns import Turn

if TYPE_CHECKING:
    from openab.domain.ids import TurnId


class PlaceInLine:
    """At most one turn of a conversation has a place or waits for one before it is started."""

    def __init__(
        self, services: Services, ownership: Ownership, granted: Callable[[], None]
    ) -> None:
        self._services = services
        self._ownership = ownership
        self._granted = granted
        self._wanted: TurnId | None = None
        self._told: TurnId | None = None

    @property
    def is_kept(self) -> bool:
        """Whether a turn waits, or has its place and was not started yet."""
        return self._wanted is not None

    def want(self, turn: Turn | None) -> bool:
        """Ask for this turn, and for no other any more; whether it has its place."""
        if self._wanted and (turn is None or turn.id != self._wanted):
            self._services.pool.leave(self._wanted)
        self._wanted = turn.id if turn else None
        if turn is None:
            return False
        return self._services.pool.ask(turn.id, turn.session_key, turn.created_at, self._granted)

    def start(self) -> None:
        """The turn was started: whoever runs it leaves its place."""
        self._wanted = None

    async def tell(self, turn: Turn) -> bool:
        """Say once that every agent is busy; whether a message was owed that says so from the start."""
        if self._told == turn.id:
            return False
        settings = self._services.settings
        async with self._services.database.transaction() as tx:
            where = await conversations.lock(tx, self._ownership)
            fresh = await turns.get(tx, turn.id)
            is_queued = fresh is not None and fresh.state is TurnState.QUEUED
            is_shown = settings.mode(where.ref, where.has_other_bot) != "final"
            owes = is_queued and is_shown and not await placeholders_of(tx, turn)
            if owes:
                body = waiting_placeholder(turn.id, self._services.pool.size)
                await owe_placeholder(tx, settings, turn.id, where, body)
        self._told = turn.id
        self._services.signals.tell("turn_in_line")
        return owes


def next_of(waiting: Sequence[Turn], now: datetime) -> Turn | None:
    """The turn that runs next, if it may: it takes its place in line while another one runs."""
    queued = next((turn for turn in waiting if turn.state is TurnState.QUEUED), None)
    is_early = queued is not None and queued.not_before is not None and queued.not_before > now
    return None if is_early else queued
