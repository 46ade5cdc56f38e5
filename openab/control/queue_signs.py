"""Keeps the placeholders of waiting turns true: "queued behind 3" becomes 2, and then "all agents are busy"."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openab.control.bodies import queued_placeholder, waiting_placeholder
from openab.control.retire import placeholders_of
from openab.domain.errors import Transient
from openab.domain.ids import ConversationRef, MessageRef, TurnId
from openab.domain.outbound import MessageBody
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
        #: How many turns are before each; 0: none is, but no agent has a place for it.
        self._places: dict[TurnId, int] = {}
        self._agents = 0
        self._stale: dict[TurnId, int] = {}
        self._task: Task[None] | None = None

    def see(
        self, open_turns: Sequence[Turn], *, busy_agents: int = 0, is_told: bool = False
    ) -> None:
        """The open turns in their order, as they are now; never waits.

        `busy_agents`: the first one waits because that many agents work elsewhere (also one that a
        restart interrupted); with `is_told` its placeholder says so already.
        """
        self._agents = busy_agents
        places = {
            turn.id: before
            for before, turn in enumerate(open_turns)
            if (turn.state is TurnState.QUEUED and before) or (busy_agents and not before)
        }
        moved = {turn for turn, before in places.items() if self._has_moved(turn, before)}
        if is_told and open_turns:
            moved.discard(open_turns[0].id)
        self._places = places
        self._stale = {turn: places[turn] for turn in {*self._stale, *moved} if turn in places}
        if self._stale and (self._task is None or self._task.done()):
            self._task = spawn(f"queue signs {self._ref.conversation_id}", self._show())

    def _has_moved(self, turn: TurnId, before: int) -> bool:
        # Whatever the placeholder says of a turn that is not known yet, a number in it is right.
        return before < self._places.get(turn, before or 1)

    async def close(self) -> None:
        """Show nothing more."""
        await end(self._task)

    async def _show(self) -> None:
        while self._stale:
            turn, before = self._stale.popitem()
            ref = await self._placeholder(turn)
            if ref is None:
                # Not on the network yet, perhaps: the next look at the queue tries again.
                self._places.pop(turn, None)
            else:
                await self._writer.edit(ref, self._body(turn, before))

    def _body(self, turn: TurnId, before: int) -> MessageBody:
        return (
            queued_placeholder(turn, before) if before else waiting_placeholder(turn, self._agents)
        )

    async def _placeholder(self, turn_id: TurnId) -> MessageRef | None:
        try:
            async with self._database.read() as tx:
                turn = await turns.get(tx, turn_id)
                if turn is None or turn.state not in {TurnState.QUEUED, TurnState.RUNNING}:
                    return None
                shown = [row.platform_id for row in await placeholders_of(tx, turn)]
        except Transient:
            return None
        newest = shown[-1] if shown else None
        return MessageRef(self._ref.conversation_id, newest) if newest else None
