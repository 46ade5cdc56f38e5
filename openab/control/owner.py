"""Owns one conversation from claim to release: runs its turns and sends what it is owed."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta

import structlog

from openab.control.beside import beside
from openab.control.containment import end_barely
from openab.control.outbox import Outbox
from openab.control.persist import RETRY_SECONDS
from openab.control.place_in_line import PlaceInLine, next_of
from openab.control.queue_signs import QueueSigns
from openab.control.recovery import end_interrupted
from openab.control.services import Services
from openab.control.status_reactions import StatusReactions
from openab.control.turn_runner import TurnRunner
from openab.control.writer import ConversationWriter
from openab.domain.delivery import DeliveryKind, DeliveryState, Purpose
from openab.domain.errors import LeaseLost, OpenabError, Transient, Unknown
from openab.domain.ids import TurnId
from openab.domain.turn import TurnState
from openab.ports.channel import Channel
from openab.ports.tasks import end, spawn
from openab.storage import conversations, deliveries, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.deliveries import Delivery
from openab.storage.transitions import StateChanged
from openab.storage.turns import Turn

log = structlog.get_logger()
#: Rows due within this long are waited for; a conversation with later ones is given back.
_LINGER = timedelta(seconds=3)
#: While it owns, hints wake it; this only bounds how long a lost hint is missed.
_LONGEST_WAIT = 5.0
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
        self._is_given_back = False
        #: How often in a row the database refused a step for good, and whose run it refused last.
        self._refusals = 0
        self._refused: TurnId | None = None
        self._runner: TurnRunner | None = None
        self._run: asyncio.Task[None] | None = None
        self._signs = QueueSigns(services.database, writer, where.ref)
        self._line = PlaceInLine(services, ownership, self.wake)
        self._reactions = StatusReactions(services, channel, ownership)
        self._outbox = Outbox(
            services.database,
            channel,
            services.settings,
            where,
            ownership,
            writer,
            services.signals,
            self._sent,
            services.counters.delivery,
        )

    @property
    def is_running_turn(self) -> bool:
        """Whether an agent works here now."""
        return self._run is not None and not self._run.done()

    def runs(self, turn: TurnId) -> bool:
        """Whether this turn runs here now."""
        return self._runner is not None and self._runner.turn_id == turn

    def wake(self) -> None:
        """There may be something to do; never waits."""
        self._woken.set()

    def drain(self) -> None:
        """Begin no further turn; what runs may end, and what is owed is sent."""
        self._draining = True
        self.wake()

    def lose(self) -> None:
        """The lease is gone: stop at once."""
        self._lost.set()
        self.wake()

    async def answer_permission(self, turn: TurnId, number: int, choice: int) -> bool:
        """Pass the answer to a running turn's question on; False: it is not open any more."""
        runner = self._runner
        return bool(runner and runner.turn_id == turn and await runner.answer(number, choice))

    def wish_reaction(self, turn: TurnId, emoji: str) -> None:
        """The presentation wishes this emoji on a running turn's trigger."""
        self._reactions.wish(turn, emoji)
        self.wake()

    async def run(self) -> None:
        """Recover, work, give back."""
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
        self._line.want(None)
        self._writer.close()
        await self._signs.close()
        await self._end_run()

    async def _end_run(self) -> None:
        if self._run is None or self._runner is None:
            return
        try:
            await end(self._run)
        except OpenabError as error:
            log.info("run_not_ended_well", conversation=self._where.id, told=str(error))
        finally:
            # A task that was cancelled before it had begun could not.
            self._services.pool.leave(self._runner.turn_id)

    async def _recover(self) -> bool:
        await self._outbox.recover()
        await end_interrupted(self._services.database, self._services.settings, self._ownership)
        return True

    async def _work(self) -> None:
        for step in (self._recover, self._step):
            while not await self._survive(step):
                if self._lost.is_set():
                    raise LeaseLost("the lease could not be renewed")

    async def _survive(self, step: Callable[[], Awaitable[bool]]) -> bool:
        """A database that is away for a while costs time, nothing else; the epoch guards what follows."""
        try:
            is_done = await step()
        except (Transient, Unknown, StateChanged) as error:
            # A row that somebody else moved meanwhile is read again, too.
            log.warning("owner_steps_again", conversation=self._where.id, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
            return False
        except LeaseLost:
            raise
        except OpenabError:
            log.exception("conversation_step_refused", conversation=self._where.id)
            await self._contain()
            return False
        self._refusals = 0
        return is_done

    async def _contain(self) -> None:
        """A row that cannot be written ends its own turn; other conversations do not notice."""
        refused, self._refused = self._refused, None
        try:
            if self._run is None:
                await end_barely(self._services, self._ownership, refused)
        except LeaseLost:
            raise
        except OpenabError as error:
            log.warning("turn_not_ended", conversation=self._where.id, error=str(error))
            self._refused = refused
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
        await self._tend_turns()
        # A call may take long: turns end and begin beside it.
        sent, was_woken = await beside(
            f"send {self._where.id}", self._outbox.step(), self._woken, self._tend_turns
        )
        reacted, reaction_due = await self._reactions.step()
        if sent.did or reacted or was_woken or self._lost.is_set():
            return False
        due = min((moment for moment in (sent.due_at, reaction_due) if moment), default=None)
        if not await self._has_more(due) and await self._give_back():
            return True
        await self._wait(due)
        return False

    async def _tend_turns(self) -> None:
        await self._collect_run()
        await self._advance_turns()

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

    async def _collect_run(self) -> None:
        """A finished run's error is ours: a bug ends the process, a lost lease ends this owner."""
        if self._run is not None and self._run.done():
            run, self._run = self._run, None
            runner, self._runner = self._runner, None
            try:
                await run
            except OpenabError:
                self._refused = runner.turn_id if runner else None
                raise

    async def _advance_turns(self) -> None:
        async with self._services.database.read() as tx:
            waiting = await turns.open_of(tx, self._where.id)
            now = await tx.now()
        first = waiting[0] if waiting else None
        # What our own run has begun may still stand there as queued.
        others = [turn for turn in waiting if not self.runs(turn.id)]
        wanted = None if self._draining else next_of(others, now)
        has_place = self._line.want(wanted)
        if first is None:
            self._signs.see(waiting)
            return
        may_begin = first is wanted and not self.is_running_turn
        if may_begin and not has_place:
            is_told = await self._line.tell(first)
            self._signs.see(waiting, busy_agents=self._services.pool.size, is_told=is_told)
            return
        self._signs.see(waiting)
        if first.state is TurnState.RUNNING:
            await self._tend(first)
        elif may_begin and await self._may_start(first):
            self._start(first)

    async def _tend(self, turn: Turn) -> None:
        runner = self._runner
        if runner is None:
            # Its run ended without being able to say so.
            await end_interrupted(self._services.database, self._services.settings, self._ownership)
        elif turn.cancel_requested_at:
            runner.cancel()
        elif runner.needs_placeholder:
            await runner.renew_placeholder()

    async def _may_start(self, turn: Turn) -> bool:
        if turn.thread_delivery is None:
            return True
        async with self._services.database.read() as tx:
            thread = await deliveries.get(tx, turn.thread_delivery)
        # An opening of unknown outcome holds nothing up: 160004 adopts the thread later.
        return thread is None or thread.state in {DeliveryState.SENT, DeliveryState.UNKNOWN}

    def _start(self, turn: Turn) -> None:
        self._runner = TurnRunner(
            self._services,
            self._where,
            self._ownership,
            turn,
            on_lost=self.lose,
            wake=self.wake,
        )
        self._run = spawn(f"turn {turn.id}", self._run_in_place(self._runner))
        self._line.start()
        self._run.add_done_callback(lambda _task: self.wake())

    async def _run_in_place(self, runner: TurnRunner) -> None:
        try:
            await runner.run()
        finally:
            # Before anybody can see that the run is over: the same turn may be started once more.
            self._services.pool.leave(runner.turn_id)

    def _sent(self, delivery: Delivery) -> None:
        is_placeholder = (
            delivery.purpose is Purpose.PLACEHOLDER and delivery.kind is DeliveryKind.CREATE
        )
        runner = self._runner
        if is_placeholder and delivery.platform_id and runner and runner.turn_id == delivery.turn:
            runner.placeholder(delivery.platform_id)

    async def _has_more(self, due: datetime | None) -> bool:
        if self.is_running_turn or self._line.is_kept:
            return True
        if due is None or self._draining:
            return False
        async with self._services.database.read() as tx:
            return due - await tx.now() <= _LINGER

    async def _wait(self, due: datetime | None) -> None:
        seconds = _LONGEST_WAIT
        if due:
            async with self._services.database.read() as tx:
                seconds = min(seconds, max(0.01, (due - await tx.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _give_back(self) -> bool:
        """Release, unless work came in meanwhile (a draining owner leaves it to the next)."""
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            if not self._draining and not await conversations.is_idle(tx, self._where):
                return False
            await conversations.release(tx, self._ownership)
        self._is_given_back = True
        self._services.signals.tell("conversation_released")
        return True
