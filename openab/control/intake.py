"""An event arrives once: one queue for an account, one consumer, which commits in the order of arrival."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from openab.control.admission import Admission
from openab.control.entries import Duplicate, entry_of
from openab.control.handoff_intake import HandoffIntake
from openab.control.settings import Settings
from openab.domain.errors import Rejected, Transient, Unknown
from openab.domain.gates import Disposition, Verdict, mapped_text, may_claim
from openab.domain.ids import ConversationId, MessageRef, PlatformId, snowflake
from openab.domain.message import InboundMessage, InboundReaction
from openab.ports.signals import Signals
from openab.storage import accounts, conversations, history_marks, inbox
from openab.storage.engine import Database, Transaction

log = structlog.get_logger()
_BATCH = 100
#: Events that wait in memory at the most: some 30 MB.
MOST_WAITING = 10_000
#: The waits between tries to commit while the database is away, in seconds.
_RETRIES = (0.1, 0.5, 1.0, 2.0, 5.0)


Event = InboundMessage | InboundReaction


def _nobody_reads() -> None:
    """Nothing is read from history."""


def _untold(_message: MessageRef) -> None:
    """Nobody sees that a hand-off was refused."""


@dataclass(eq=False, slots=True)
class Step:
    """Something that is done at its place in the queue, with its neighbours; twice must be harmless."""

    name: str
    act: Callable[[Transaction], Awaitable[None]]
    #: The conversation that it is about: its row is locked in everybody's order.
    place: PlatformId | None = None
    #: Set when it, and everything before it, is committed.
    committed: asyncio.Event = field(default_factory=asyncio.Event)


class Intake:
    """The queue and its consumer: inbox row, verdict and what follows are one transaction."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        wake: Callable[[ConversationId], None],
        refuse: Callable[[MessageRef], None],
        signals: Signals,
        count: Callable[[str, str], None] = lambda _disposition, _reason: None,
        *,
        refuse_handoff: Callable[[MessageRef], None] = _untold,
        count_handoff: Callable[[str, str], None] = lambda _direction, _reason: None,
        most: int = MOST_WAITING,
    ) -> None:
        """`refuse` is told which message gets a 🚫, `refuse_handoff` which gets a ⛔; they must not wait.
        `count` and `count_handoff` feed the metrics.
        """
        self._database = database
        self._settings = settings
        handoffs = HandoffIntake(settings, wake, refuse_handoff, count_handoff)
        self._admission = Admission(settings, wake, refuse, handoffs)
        self._signals = signals
        self._count = count
        self._queue: asyncio.Queue[Event | Step] = asyncio.Queue()
        self._most = most
        self._is_full = False
        #: Told that events are left out from now on, and that there is room for them again.
        self.on_full: Callable[[], None] = _nobody_reads
        self.on_room: Callable[[], None] = _nobody_reads
        #: While there is one, the account's mark stands still.
        self._hold: Step | None = None
        self._greatest: PlatformId | None = None

    def put(self, event: Event | Step) -> None:
        """Take an event from the gateway; never waits. A reaction that says nothing is forgotten.

        While the database is away what waits grows, up to a bound: what comes then is left out, and
        read from history once there is room.
        """
        if isinstance(event, InboundReaction) and self._says(event) is None:
            return
        if not isinstance(event, Step) and self._leaves_out():
            return
        self._queue.put_nowait(event)

    @property
    def is_full(self) -> bool:
        """Whether what was put last was left out."""
        return self._is_full

    def _leaves_out(self) -> bool:
        if not self._is_full and self._queue.qsize() >= self._most:
            self._is_full = True
            log.error("intake_full", events=self._queue.qsize())
            self.on_full()
        return self._is_full

    def _note_room(self) -> None:
        # Only when all is in: so late that history has everything that was left out.
        if self._is_full and self._queue.empty():
            self._is_full = False
            log.info("intake_has_room")
            self.on_room()

    def hold_mark(self) -> Step:
        """The mark stands still until the step that this returns is put and done; a later hold outlasts it.

        Then the marks of places that it has passed are forgotten.
        """

        async def free(tx: Transaction) -> None:
            if self._hold is step:
                await self._move_mark(tx, self._greatest)
                await self._forget_marks(tx, self._greatest)
                tx.after_commit(lambda: self._free(step))

        self._hold = step = Step("free_mark", free)
        return step

    def note_heard(self, message: PlatformId) -> None:
        """This is taken in, now or by an earlier life: the mark goes past it when it is let go."""
        self._greatest = max((self._greatest or message, message), key=snowflake)

    def _free(self, step: Step) -> None:
        # Events may have come again while that was committed: then the mark is held anew.
        if self._hold is step:
            self._hold = None

    def _says(self, reaction: InboundReaction) -> str | None:
        return mapped_text(reaction, self._settings.reaction_mapping)

    async def run(self) -> None:
        """Commit what was put, in order, until the task is cancelled; what was not committed is lost
        with the process, and is read from history by whoever comes next."""
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty() and len(batch) < _BATCH and not _ends_batch(batch[-1]):
                batch.append(self._queue.get_nowait())
            await self._commit_whatever_happens(batch)
            for event in batch:
                self._queue.task_done()
                if isinstance(event, Step):
                    event.committed.set()
            self._note_room()
            self._signals.tell("intake_committed")

    async def drained(self, seconds: float) -> bool:
        """Wait until everything that was put is committed; False: that took longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            log.warning("intake_not_drained", events=self._queue.qsize())
            return False
        return True

    async def _commit_whatever_happens(self, batch: list[Event | Step]) -> None:
        attempt = 0
        while True:
            try:
                await self._commit(batch)
            except (Transient, Unknown) as error:
                # The inbox key makes a second commit of the same events harmless.
                tell = log.debug if attempt else log.warning
                tell("intake_waits_for_database", error=str(error), events=len(batch))
                await asyncio.sleep(_RETRIES[min(attempt, len(_RETRIES) - 1)])
                attempt += 1
            else:
                return

    async def _commit(self, batch: list[Event | Step]) -> None:
        newest = _newest(batch)
        if newest is not None:
            self.note_heard(newest)
        settings = self._settings
        places = {place for one in batch if (place := _place_of(one)) is not None}
        async with self._database.transaction() as tx:
            if len(places) > 1:
                # Whoever commits several turns' streams locks them too: in another order, both would wait.
                await conversations.hold_all(tx, settings.channel, settings.account, places)
            for event in batch:
                await self._take(tx, event)
            if self._hold is None:
                await self._move_mark(tx, newest)

    async def _move_mark(self, tx: Transaction, mark: PlatformId | None) -> None:
        if mark is not None:
            await accounts.move_mark(tx, self._settings.channel, self._settings.account, mark)

    async def _forget_marks(self, tx: Transaction, mark: PlatformId | None) -> None:
        if mark is not None:
            settings = self._settings
            await history_marks.forget(tx, settings.channel, settings.account, mark)

    async def _take(self, tx: Transaction, event: Event | Step) -> None:
        try:
            async with tx.savepoint():
                if isinstance(event, Step):
                    await event.act(tx)
                    return
                verdict = await self._decide(tx, event)
        except Duplicate:
            log.debug("event_repeated", message_id=_message_of(event))
        except (Transient, Unknown):
            raise
        except Exception:
            # One event that cannot be understood must not hold up those behind it.
            log.exception("intake_event_failed", message_id=_message_of(event))
            if not isinstance(event, Step):
                await self._note_failure(tx, event)
        else:
            tx.after_commit(lambda: self._count(verdict.disposition, verdict.reason))

    async def _decide(self, tx: Transaction, event: Event) -> Verdict:
        if isinstance(event, InboundMessage):
            return await self._admission.message(tx, event)
        return await self._admission.reaction(tx, event, self._says(event) or "")

    async def _note_failure(self, tx: Transaction, event: Event) -> None:
        verdict = Verdict(Disposition.IGNORED, "unreadable")
        try:
            async with tx.savepoint():
                await inbox.add(tx, entry_of(self._settings, event, verdict))
        except Rejected as error:
            # Not even its ids fit a row, so nobody will ask after it either.
            log.warning("intake_event_unnoted", error=str(error))


def _ends_batch(event: Event | Step) -> bool:
    """A hand-off is decided behind its gate, where others wait: that is the last thing a commit does."""
    return isinstance(event, InboundMessage) and may_claim(event)


def _place_of(event: Event | Step) -> PlatformId | None:
    return event.place if isinstance(event, Step) else event.conversation.conversation_id


def _newest(batch: Sequence[Event | Step]) -> PlatformId | None:
    messages = [one.message_id for one in batch if isinstance(one, InboundMessage)]
    return max((one for one in messages if one.isdecimal()), key=snowflake, default=None)


def _message_of(event: Event | Step) -> str:
    return event.name if isinstance(event, Step) else event.message_id
