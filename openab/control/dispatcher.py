"""Claims conversations that have work and gives each an owner; ends them all when the process stops."""

import asyncio
from collections.abc import Callable

import structlog

from openab.control.owner import ConversationOwner
from openab.control.persist import Waits
from openab.control.services import Services
from openab.control.succession import Succession
from openab.control.writer import ConversationWriter
from openab.domain.errors import LeaseLost, Transient, Unknown
from openab.domain.ids import ConversationId, ConversationRef, MessageRef, TurnId
from openab.domain.outbound import MessageBody
from openab.domain.window import Window
from openab.ports.tasks import end, spawn
from openab.ports.writer import EditOutcome, LiveWriter
from openab.storage import conversations
from openab.storage.conversations import Conversation, Ownership
from openab.storage.renewal import Renewal

log = structlog.get_logger()
_AT_ONCE = 50


class NobodysWriter:
    """The writer of a conversation that is not ours: it shows nothing."""

    async def edit(
        self,
        ref: MessageRef,  # noqa: ARG002 - the port's signature
        body: MessageBody,  # noqa: ARG002
        given_up: asyncio.Event | None = None,  # noqa: ARG002
    ) -> EditOutcome:
        """Nothing is shown."""
        return EditOutcome.REPLACED


class _Held:
    """One owned conversation: its owner, the owner's task, and its writer."""

    def __init__(
        self,
        services: Services,
        where: Conversation,
        ownership: Ownership,
        freed: Callable[[], None],
        window: Window,
    ) -> None:
        self.where = where
        self.ownership = ownership
        channel = services.channel(lambda: services.leases.holds(ownership))
        self.writer = ConversationWriter(
            channel,
            services.settings.call.total_seconds(),
            services.clock,
            lambda outcome: services.counters.edit(outcome.value),
            window,
        )
        self.owner = ConversationOwner(services, channel, where, ownership, self.writer)
        self.task = spawn(f"owner {where.id}", self.owner.run())
        self.task.add_done_callback(lambda _task: freed())


class Dispatcher:
    """The conversations that this process owns for one account."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._held: dict[ConversationId, _Held] = {}
        self._by_place: dict[str, _Held] = {}
        #: What was written lately, kept between two owners of one conversation.
        self._windows: dict[ConversationId, Window] = {}
        #: Owners whose conversation was claimed anew before they had ended.
        self._leaving: list[_Held] = []
        #: Ours by the database, but nobody here acts for them.
        self._orphans: set[Ownership] = set()
        self._waits = Waits("claim_failed")
        self._is_claiming = False
        #: Somebody who knows of work has named a conversation that is not held here.
        self._is_named = False
        self._succession = Succession(services)
        self._woken = asyncio.Event()
        services.database.hear_of_work(self._hear_of_work)

    def _hear_of_work(self, conversation: str) -> None:
        self.wake(ConversationId(conversation))

    def wake(self, conversation: ConversationId | None = None) -> None:
        """There may be work; a hint, polling finds it too."""
        held = self._held.get(conversation) if conversation else None
        if held and not held.task.done():
            held.owner.wake()
        else:
            self._is_named = self._is_named or conversation is not None
            self._woken.set()

    def writer(self, ref: ConversationRef) -> LiveWriter:
        """The writer of a conversation that is owned now; another's shows nothing."""
        held = self._by_place.get(ref.conversation_id)
        return held.writer if held else NobodysWriter()

    def wish_reaction(self, turn: TurnId, emoji: str) -> None:
        """Pass the presentation's wish to the owner that runs this turn, if there is one."""
        for held in self._held.values():
            if held.owner.runs(turn):
                held.owner.wish_reaction(turn, emoji)
                return

    async def answer_permission(self, turn: TurnId, number: int, choice: int) -> bool:
        """Answer question `number` of a running turn with its option `choice`; False: too late."""
        for held in list(self._held.values()):
            if held.owner.runs(turn):
                return await held.owner.answer_permission(turn, number, choice)
        return False

    @property
    def running_turns(self) -> int:
        """How many agents work now."""
        return sum(held.owner.is_running_turn for held in self._held.values())

    def renewed(self, renewal: Renewal) -> None:
        """A round of the renewal has ended; never waits.

        An owner whose lease has run out by our own clock takes it again or learns that it is lost.
        A renewed lease that nobody here holds is given back: its claim's commit was in doubt, or
        its owner ended without being able to.
        """
        for held in self._held.values():
            if not self._services.leases.holds(held.ownership):
                held.owner.wake()
        if self._is_claiming:
            # What is claimed right now is not held yet.
            return
        for conversation, epoch in renewal.epochs.items():
            self._note_renewed(Ownership(conversation, epoch))

    def _note_renewed(self, renewed: Ownership) -> None:
        held = self._held.get(renewed.conversation)
        if held is None or held.task.done():
            self._orphans.add(renewed)
            self._woken.set()
        elif renewed.epoch > held.ownership.epoch:
            held.owner.lose()

    async def run(self, stopping: asyncio.Event) -> None:
        """Claim until `stopping`, then let running turns end for the drain time, then stop them.

        A bug in an owner comes out here.
        """
        stopper = spawn("dispatcher stopper", stopping.wait())
        try:
            while not stopping.is_set():
                self._woken.clear()
                await self._free_orphans()
                await self._succession.step()
                await self._claim_all(stopping)
                await self._rest(stopper)
                self._collect()
            await self._drain()
        finally:
            await end(stopper)
            await self._stop_all()

    async def _rest(self, stopper: "asyncio.Task[bool]") -> None:
        woken = spawn("dispatcher waits", self._woken.wait())
        poll = self._services.settings.poll.total_seconds()
        try:
            await asyncio.wait({woken, stopper}, timeout=poll, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(woken)

    async def _free_orphans(self) -> None:
        orphans, self._orphans = self._orphans, set()
        for ownership in orphans:
            try:
                async with self._services.database.transaction() as tx:
                    await conversations.release(tx, ownership)
            except LeaseLost:
                log.debug("orphan_was_claimed", conversation=ownership.conversation)
            except (Transient, Unknown) as error:
                # The next renewal tells of it again.
                log.warning("orphan_not_freed", error=str(error))
            else:
                log.info("orphan_freed", conversation=ownership.conversation)

    async def _claim_all(self, stopping: asyncio.Event) -> None:
        try:
            while not stopping.is_set() and await self._claim_some() == _AT_ONCE:
                self._collect()
            self._waits.over()
        except (Transient, Unknown) as error:
            # A claim whose commit is in doubt is given back when its lease is renewed.
            self._waits.note(error)

    async def _claim_some(self) -> int:
        held = self._working()
        if not await self._may_find_some(held):
            return 0
        asked_at = self._services.clock()
        self._is_claiming = True
        try:
            claims = await self._claim(held)
        finally:
            self._is_claiming = False
        for where, ownership in claims:
            self._services.leases.note_claim(ownership, asked_at)
            self._hold(where, ownership)
        return len(claims)

    async def _may_find_some(self, held: list[ConversationId]) -> bool:
        """Whether it is worth a write; who knows of work is not asked whether there is any."""
        if self._is_named:
            self._is_named = False
            return True
        settings = self._services.settings
        async with self._services.database.read() as tx:
            return await conversations.is_any_claimable(tx, [settings.account], settings.call, held)

    def _working(self) -> list[ConversationId]:
        """The conversations whose owners work; where a lease ended unnoticed, they take it again."""
        return [name for name, held in self._held.items() if not held.task.done()]

    async def _claim(self, held: list[ConversationId]) -> list[tuple[Conversation, Ownership]]:
        settings = self._services.settings
        async with self._services.database.transaction() as tx:
            return await conversations.claim(
                tx,
                [settings.account],
                settings.worker,
                settings.proof,
                lease=settings.lease,
                call=settings.call,
                limit=_AT_ONCE,
                held=held,
            )

    def _hold(self, where: Conversation, ownership: Ownership) -> None:
        log.debug("conversation_claimed", conversation=where.id, epoch=ownership.epoch)
        former = self._held.get(where.id)
        if former:
            # Our own lease had run out unnoticed; the former owner must not go on beside the next.
            former.owner.lose()
            self._leaving.append(former)
        held = _Held(self._services, where, ownership, self._woken.set, self._window(where.id))
        self._held[where.id] = self._by_place[where.ref.conversation_id] = held
        self._services.counters.leases(len(self._held))

    def _window(self, conversation: ConversationId) -> Window:
        """The conversation's pace; those that nobody wrote to lately are forgotten."""
        now = self._services.clock()
        for known in [one for one, window in self._windows.items() if window.is_empty(now)]:
            del self._windows[known]
        pace = self._services.settings.five_writes.total_seconds()
        return self._windows.setdefault(conversation, Window(5, pace))

    def _collect(self) -> None:
        """Forget the owners that ended; the error of one that failed is a bug and is raised."""
        ended = [held for held in (*self._held.values(), *self._leaving) if held.task.done()]
        for held in ended:
            if held in self._leaving:
                self._leaving.remove(held)
            else:
                del self._held[held.where.id]
                del self._by_place[held.where.ref.conversation_id]
            self._services.leases.forget(held.ownership)
            held.task.result()
        self._services.counters.leases(len(self._held))

    async def _drain(self) -> None:
        for held in self._held.values():
            held.owner.drain()
        tasks = {held.task for held in self._held.values()}
        if tasks:
            log.info("draining", conversations=len(tasks), turns=self.running_turns)
            await asyncio.wait(tasks, timeout=self._services.settings.drain.total_seconds())

    async def _stop_all(self) -> None:
        left = [*self._held.values(), *self._leaving]
        self._held, self._by_place, self._leaving = {}, {}, []
        for held in left:
            if not held.task.done():
                log.warning("owner_stopped", conversation=held.where.id)
                held.task.cancel()
        if left:
            await asyncio.wait({held.task for held in left})
        for held in left:
            if not held.task.cancelled():
                held.task.result()
