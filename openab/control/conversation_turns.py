"""The turn side of a conversation's owner: which turn runs, which waits, and what becomes of a lost one."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

import structlog

from openab.control.containment import end_barely
from openab.control.place_in_line import PlaceInLine, next_of
from openab.control.queue_signs import QueueSigns
from openab.control.recovery import Recovery, is_lost
from openab.control.services import Services
from openab.control.turn_runner import TurnRunner
from openab.control.writer import ConversationWriter
from openab.domain.delivery import DeliveryKind, DeliveryState, Purpose
from openab.domain.errors import LeaseLost, OpenabError
from openab.domain.ids import TurnId
from openab.domain.turn import TurnState
from openab.ports.tasks import end, spawn
from openab.storage import conversations, deliveries, spawns, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.deliveries import Delivery
from openab.storage.engine import Transaction
from openab.storage.turns import Turn

log = structlog.get_logger()
#: So long a run that begins has for itself: people wait for the agent, not for an emoji.
_HEAD_START_SECONDS = 0.25


class ConversationTurns:
    """At most one of them runs. `on_lost` and `wake` are the owner's."""

    def __init__(
        self,
        services: Services,
        where: Conversation,
        ownership: Ownership,
        writer: ConversationWriter,
        *,
        on_lost: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._services = services
        self._where = where
        self._ownership = ownership
        self._on_lost = on_lost
        self._wake = wake
        self._draining = False
        #: The next turn's session works in another conversation that is bound to it.
        self.waits_for_session = False
        self._runner: TurnRunner | None = None
        self._run: asyncio.Task[None] | None = None
        #: The lost turn whose verdict was that it is run again, until it is.
        self._again: TurnId | None = None
        #: Whose run the database refused for good.
        self._refused: TurnId | None = None
        self._recovery = Recovery(services, ownership)
        self._signs = QueueSigns(services.database, writer, where.ref)
        self._line = PlaceInLine(services, ownership, wake)

    @property
    def is_running(self) -> bool:
        """Whether an agent works here now."""
        return self._run is not None and not self._run.done()

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs, or waits for its place or has one."""
        return self.is_running or self._line.is_kept

    def runs(self, turn: TurnId) -> bool:
        """Whether this turn runs here now."""
        return self._runner is not None and self._runner.turn_id == turn

    def drain(self) -> None:
        """Begin no further turn; what runs may end."""
        self._draining = True

    async def answer_permission(self, turn: TurnId, number: int, choice: int) -> bool:
        """Pass the answer to a running turn's question on; False: it is not open any more."""
        runner = self._runner
        return bool(runner and runner.turn_id == turn and await runner.answer(number, choice))

    def sent(self, delivery: Delivery) -> None:
        """A row is on the network: whoever runs its turn is told of its placeholder."""
        is_placeholder = (
            delivery.purpose is Purpose.PLACEHOLDER and delivery.kind is DeliveryKind.CREATE
        )
        runner = self._runner
        if is_placeholder and delivery.platform_id and runner and runner.turn_id == delivery.turn:
            runner.placeholder(delivery.platform_id)

    async def tend(self) -> None:
        """Collect a run that has ended, and bring each turn as far as it can be brought now."""
        await self._collect()
        async with self._services.database.read() as tx:
            waiting = await turns.open_of(tx, self._where.id)
            now = await tx.now()
            first = waiting[0] if waiting else None
            # A session that is bound to two conversations works in one of them at a time.
            self.waits_for_session = (
                first is not None
                and first.state is TurnState.QUEUED
                and await turns.is_running_elsewhere(tx, first)
            )
            await self._show_sub_agents(tx, first)
        await self._advance(waiting, now)

    async def set_off(self) -> None:
        """Return when the run that has begun has prompted its agent, or has had its head start."""
        if self._runner is None or self._runner.under_way.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEAD_START_SECONDS):
                await self._runner.under_way.wait()
        # Nobody waits for it once more.
        self._runner.under_way.set()

    async def _show_sub_agents(self, tx: Transaction, first: Turn | None) -> None:
        """Whoever watches a turn sees which sub-agents work for its session."""
        is_on = self._services.settings.binding.spawns.is_on
        if is_on and first is not None and self._runner is not None and self.runs(first.id):
            at_work = await spawns.at_work_for(tx, first.session_key)
            self._runner.sub_agents(tuple(one.agent for one in at_work))

    async def contain(self) -> None:
        """The database refused rows for good: the turn that they belong to ends with bare values."""
        refused, self._refused = self._refused, None
        try:
            if self._run is None:
                await end_barely(self._services, self._ownership, refused)
        except LeaseLost:
            raise
        except OpenabError as error:
            log.warning("turn_not_ended", conversation=self._where.id, error=str(error))
            self._refused = refused

    async def close(self) -> None:
        """End what runs; the turn stays `running`, for whoever owns it next."""
        self._line.want(None)
        await self._signs.close()
        stopped = self._runner.turn_id if self.is_running and self._runner else self._again
        await self._end_run()
        if stopped and self._draining:
            await self._note_orderly_stop(stopped)

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

    async def _note_orderly_stop(self, stopped: TurnId) -> None:
        """An attempt that we stopped ourselves does not count; if that cannot be written, it does."""
        try:
            async with self._services.database.transaction() as tx:
                await conversations.lock(tx, self._ownership)
                turn = await turns.get(tx, stopped)
                if turn and turn.state is TurnState.RUNNING:
                    await turns.note_orderly_stop(tx, turn)
        except OpenabError as error:
            log.warning("orderly_stop_not_noted", turn_id=stopped, told=str(error))

    async def _collect(self) -> None:
        """A finished run's error is ours: a bug ends the process, a lost lease ends this owner."""
        if self._run is not None and self._run.done():
            run, self._run = self._run, None
            runner, self._runner = self._runner, None
            try:
                await run
            except OpenabError:
                self._refused = runner.turn_id if runner else None
                raise

    async def _advance(self, waiting: Sequence[Turn], now: datetime) -> None:
        first = waiting[0] if waiting else None
        may_want = not (self._draining or self.waits_for_session)
        wanted = self._wanted(waiting, now) if may_want else None
        has_place = self._line.want(wanted)
        if first is None:
            self._signs.see(waiting)
            return
        may_begin = first is wanted and not self.is_running
        if may_begin and not has_place and not first.cancel_requested_at:
            is_told = await self._line.tell(first)
            self._signs.see(waiting, busy_agents=self._services.pool.size, is_told=is_told)
            return
        self._signs.see(waiting)
        if may_begin and has_place and await self._may_start(first):
            self._start(first)
        elif first.state is TurnState.RUNNING:
            await self._tend_running(first, now)

    def _wanted(self, waiting: Sequence[Turn], now: datetime) -> Turn | None:
        """The turn that needs a place next; none while people are asked about the first one."""
        # What our own run has begun may still stand there as queued.
        others = [turn for turn in waiting if not self.runs(turn.id)]
        lost = next((turn for turn in others if turn.state is TurnState.RUNNING), None)
        if lost is None:
            return next_of(others, now)
        return lost if lost.id == self._again else None

    async def _tend_running(self, turn: Turn, now: datetime) -> None:
        runner = self._runner
        if runner is None:
            # A former owner left it, or its run could not say how it ended, or people have answered.
            if (turn.id != self._again or turn.cancel_requested_at) and is_lost(turn, now):
                recovered = await self._recovery.recover()
                self._again = recovered.again
                if recovered.has_decided:
                    self._wake()
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
            is_recovered=turn.id == self._again,
            on_lost=self._on_lost,
            wake=self._wake,
        )
        self._again = None
        self._run = spawn(f"turn {turn.id}", self._run_in_place(self._runner))
        self._line.start()
        self._run.add_done_callback(lambda _task: self._wake())

    async def _run_in_place(self, runner: TurnRunner) -> None:
        try:
            await runner.run()
        finally:
            runner.under_way.set()
            # Before anybody can see that the run is over: the same turn may be started once more.
            self._services.pool.leave(runner.turn_id)
