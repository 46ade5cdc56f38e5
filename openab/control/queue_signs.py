"""Keeps the placeholders of waiting turns true: "queued behind 3" becomes 2 when a turn before it ends."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openab.control.bodies import queued_placeholder
from openab.control.retire import placeholders_of
from openab.domain.errors import Transient
from openab.domain.ids import ConversationRef, MessageRef, TurnId
from openab.domain.turn import TurnState
from openab.ports.tasks import end, spawn
from openab.ports.writer import LiveWriter
from openab.storage import turns
from openab.storage.engine import Database
from openab.storage.turns import Turn

if TYPE_CHECKING:
    from asyncio import Task


class QueueSigns:
    """Edits that are no rows: losing one leaves a number too high for a while, nothing else."""

    def __init__(self, database: Database, writer: LiveWriter, ref: ConversationRef) -> None:
        self._database = database
        self._writer = writer
        self._ref = ref
        self._places: dict[TurnId, int] = {}
        self._stale: dict[TurnId, int] = {}
        self._task: Task[None] | None = None

    def see(self, open_turns: Sequence[Turn]) -> None:
        """The open turns in their order, as they are now; never waits."""
        places = {
            turn.id: before
            for before, turn in enumerate(open_turns)
            if turn.state is TurnState.QUEUED and before
        }
        moved = {turn for turn, before in places.items() if before < self._places.get(turn, 0)}
        self._places = places
        self._stale = {turn: places[turn] for turn in {*self._stale, *moved} if turn in places}
        if self._stale and (self._task is None or self._task.done()):
            self._task = spawn(f"queue signs {self._ref.conversation_id}", self._show())

    async def close(self) -> None:
        """Show nothing more."""
        await end(self._task)

    async def _show(self) -> None:
        while self._stale:
            turn, before = self._stale.popitem()
            ref = await self._placeholder(turn)
            if ref:
                await self._writer.edit(ref, queued_placeholder(turn, before))

    async def _placeholder(self, turn_id: TurnId) -> MessageRef | None:
        try:
            async with self._database.read() as tx:
                turn = await turns.get(tx, turn_id)
                if turn is None or turn.state is not TurnState.QUEUED:
                    return None
                shown = [row.platform_id for row in await placeholders_of(tx, turn)]
        except Transient:
            return None
        newest = shown[-1] if shown else None
        return MessageRef(self._ref.conversation_id, newest) if newest else None
