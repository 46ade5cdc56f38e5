"""Owns one conversation from claim to release: runs its turns and sends what it is owed."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

import structlog

from openab.control.beside import beside
from openab.control.conversation_turns import ConversationTurns
from openab.control.outbox import Outbox, Step
from openab.control.persist import RETRY_SECONDS, Waits
from openab.control.services import Services
from openab.control.status_reactions import StatusReactions
from openab.control.writer import ConversationWriter
from openab.domain.errors import LeaseLost, OpenabError, Transient, Unknown
from openab.domain.ids import TurnId
from openab.ports.channel import Channel
from openab.storage import conversations
from openab.storage.conversations import Conversation, Ownership
from openab.storage.transitions import StateChanged

log = structlog.get_logger()
#: Rows due within this long are waited for; a conversation with later ones is given back.
_LINGER = timedelta(seconds=3)
#: While it owns, hints wake it; this only bounds how long a lost hint is missed.
_LONGEST_WAIT = 5.0
#: While the session of the next turn works in another conversation, whose end is no hint here.
_SESSION_WAIT = 0.5
#: A conversation whose rows are refused again and again is looked at no more often than this.
_LONGEST_REST = 30.0


class ConversationOwner:
    """One claim. `run` ends when the conversation is given back, or when the lease is lost."""

    def __init__(
        self,
        services: Services,
        channel: Channel,
        where: Conversation,
        ownership: Ownership,
        writer: ConversationWriter,
    ) -> None:
        self._services = services
        self._where = where
        self._ownership = ownership
        self._writer = writer
        self._woken = asyncio.Event()
        self._draining = False
        self._lost = asyncio.Event()
        self._waits = Waits("owner_steps_again", conversation=where.id)
        self._is_given_back = False
        #: How often in a row the database refused a step for good.
        self._refusals = 0
        self._turns = ConversationTurns(
            services, where, ownership, writer, on_lost=self.lose, wake=self.wake
        )
        self._reactions = StatusReactions(services, channel, ownership)
        self._outbox = Outbox(
            services.database,
            channel,
            services.settings,
            where,
            ownership,
            writer,
            services.signals,
            self._turns.sent,
            services.counters.delivery,
            services.bot_names,
        )

    @property
    def is_running_turn(self) -> bool:
        """Whether an agent works here now."""
        return self._turns.is_running

    def runs(self, turn: TurnId) -> bool:
        """Whether this turn runs here now."""
        return self._turns.runs(turn)

    def wake(self) -> None:
        """There may be something to do; never waits."""
        self._woken.set()

    def drain(self) -> None:
        """Begin no further turn; what runs may end, and what is owed is sent."""
        self._draining = True
        self._turns.drain()
        self.wake()

    def lose(self) -> None:
        """The lease is gone: stop at once."""
        self._lost.set()
        self.wake()

    async def answer_permission(self, turn: TurnId, number: int, choice: int) -> bool:
        """Pass the answer to a running turn's question on; False: it is not open any more."""
        return await self._turns.answer_permission(turn, number, choice)

    def wish_reaction(self, turn: TurnId, emoji: str) -> None:
        """The presentation wishes this emoji on a running turn's trigger."""
        self._reactions.wish(turn, emoji)
        self.wake()

    async def run(self) -> None:
        """Work, give back."""
        try:
            await self._work()
        except LeaseLost as error:
            self._services.counters.lease_lost()
            log.warning("lease_lost", conversation=self._where.id, told=str(error))
        finally:
            try:
                await self._end_all()
            finally:
                await self._leave()

    async def _leave(self) -> None:
        """However it ends, the conversation is given back if it is still ours.

        Its row names this process, so that its lease would be renewed for as long as the process lives.
        """
        if self._is_given_back:
            return
        try:
            async with self._services.database.transaction() as tx:
                await conversations.release(tx, self._ownership)
        except OpenabError as error:
            log.info("conversation_not_released", conversation=self._where.id, told=str(error))

    async def _end_all(self) -> None:
        self._writer.close()
        await self._turns.close()

    async def _work(self) -> None:
        while not await self._survive():
            if self._lost.is_set():
                raise LeaseLost("the lease could not be renewed")

    async def _survive(self) -> bool:
        """A database that is away for a while costs time, nothing else; the epoch guards what follows."""
        try:
            is_done = await self._step()
        except (Transient, Unknown, StateChanged) as error:
            # A row that somebody else moved meanwhile is read again, too.
            await self._waits.rest(error)
            return False
        except LeaseLost:
            raise
        except OpenabError:
            log.exception("conversation_step_refused", conversation=self._where.id)
            await self._contain()
            return False
        self._refusals = 0
        self._waits.over()
        return is_done

    async def _contain(self) -> None:
        """A row that cannot be written ends its own turn; other conversations do not notice."""
        await self._turns.contain()
        wait = min(RETRY_SECONDS * 2**self._refusals, _LONGEST_REST)
        self._refusals = min(self._refusals + 1, 10)
        await self._rest(wait)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lost.wait()

    async def _step(self) -> bool:
        """One look at everything; True when the conversation was given back."""
        self._woken.clear()
        await self._hold_on()
        await self._turns.tend()
        await self._turns.set_off()
        sent, had_more = await self._send()
        if had_more:
            self._woken.set()
        # A reaction waits for a pace of its own, and nobody waits for a reaction.
        (reacted, reaction_due), was_woken = await beside(
            f"react {self._where.id}", self._reactions.step(), self._woken, self._send_beside
        )
        if had_more or reacted or was_woken or self._lost.is_set():
            return False
        due = min((moment for moment in (sent.due_at, reaction_due) if moment), default=None)
        if not await self._has_more(due) and await self._give_back():
            return True
        await self._wait(due)
        return False

    async def _send(self) -> tuple[Step, bool]:
        """One look at what is owed, and whether another one is due at once.

        A call may take long: turns end and begin beside it.
        """
        sent, was_woken = await beside(
            f"send {self._where.id}", self._outbox.step(), self._woken, self._turns.tend
        )
        return sent, sent.did or was_woken

    async def _send_beside(self) -> None:
        await self._turns.tend()
        _, has_more = await self._send()
        if has_more:
            self._woken.set()

    async def _hold_on(self) -> None:
        """The lease ran out by our own clock: take it again, unless somebody else claimed meanwhile.

        Until then nothing is written to the network, but the agent and its record go on.
        """
        leases, settings = self._services.leases, self._services.settings
        if leases.holds(self._ownership):
            return
        asked_at = self._services.clock()
        async with self._services.database.transaction() as tx:
            await conversations.retake(
                tx, self._ownership, settings.worker, settings.proof, settings.lease
            )
        leases.note_claim(self._ownership, asked_at)
        log.info("lease_taken_again", conversation=self._where.id)

    async def _has_more(self, due: datetime | None) -> bool:
        if self._turns.is_busy:
            return True
        if due is None or self._draining:
            return False
        async with self._services.database.read() as tx:
            return due - await tx.now() <= _LINGER

    async def _wait(self, due: datetime | None) -> None:
        seconds = _SESSION_WAIT if self._turns.waits_for_session else _LONGEST_WAIT
        if due:
            async with self._services.database.read() as tx:
                seconds = min(seconds, max(0.01, (due - await tx.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _give_back(self) -> bool:
        """Release, unless work came in meanwhile (a draining owner leaves turns to the next)."""
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            if not await conversations.is_idle(tx, self._where, but_turns=self._draining):
                return False
            await conversations.release(tx, self._ownership)
        self._is_given_back = True
        self._services.signals.tell("conversation_released")
        return True
