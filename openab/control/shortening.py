"""Asks an agent once, within its turn, for a shorter hand-off where the one that it wrote does not fit."""

from dataclasses import replace

import structlog

from openab.control.agent_run import AgentRun
from openab.control.handoff_owing import excess, peer_of
from openab.control.persist import persist
from openab.control.services import Services
from openab.control.stream_log import StreamRecord
from openab.domain.agent_events import EndKind, PromptEnded
from openab.domain.handoff import TooLarge
from openab.ports.feed import Phase, TurnFeed
from openab.storage import conversations, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.turns import Turn
from openab.text.handoff_words import shorter
from openab.text.output import Intent, body_of

log = structlog.get_logger()
#: Step 1 is the request itself.
STEP = 2


class Shortening:
    """The one question of one run; people keep the answer that the run gave."""

    def __init__(
        self, services: Services, ownership: Ownership, where: Conversation, turn: Turn
    ) -> None:
        self._services = services
        self._ownership = ownership
        self._where = where
        self._turn = turn

    async def of(
        self,
        intent: Intent,
        completed: PromptEnded,
        agent: AgentRun,
        record: StreamRecord,
        feed: TurnFeed,
    ) -> tuple[Intent, PromptEnded]:
        """The intent with a payload that may fit, and how the run ended by that. Raises LeaseLost."""
        too_large = excess(self._services.settings, self._where, self._turn, intent)
        if too_large is None or not await persist("shortening", self._begin):
            return intent, completed
        feed.phase(Phase.SHORTENING)
        self._services.signals.tell("shortening_begun")
        question = self._question(too_large, intent)
        ended, said = await agent.ask_again(record, feed, STEP, question)
        log.info("handoff_shortened", turn_id=self._turn.id, end=ended.kind.value)
        if ended.kind is EndKind.COMPLETED and (shorter_one := body_of(said)).strip():
            return replace(intent, payload=shorter_one), completed
        # What the agent had answered before stands, unless somebody stopped the turn.
        return intent, ended if ended.kind is EndKind.CANCELLED else completed

    async def _begin(self) -> bool:
        """Committed before the agent is asked, with all that it has said: a death leaves the answer."""
        error = await self._services.stream_log.flush()
        if error:
            raise error
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            if not await turns.begin_step(tx, self._turn, STEP):
                return False
            await turns.log(tx, self._turn.id, "handoff_shortening")
        return True

    def _question(self, too_large: TooLarge, intent: Intent) -> str:
        assert intent.target is not None
        peer = peer_of(self._services.settings, intent.target)
        return shorter(too_large.needed, too_large.room, peer)
