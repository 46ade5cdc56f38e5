"""One backfill: every place with something new is read to its end, channels before their threads.

What is read is marked place by place, and those that were read longest ago come first: a process that is
killed leaves it to the next one to read on.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

import structlog

from openab.control.held_events import HeldEvents
from openab.control.intake import Intake, Step
from openab.control.settings import Settings
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.errors import Rejected, Transient, Unknown
from openab.domain.gates import place_refusal
from openab.domain.ids import ConversationRef, PlatformId, snowflake
from openab.domain.message import Place
from openab.domain.outbound import presentation_body
from openab.domain.window import Window
from openab.ports.channel import ChannelRejected, Refusal
from openab.ports.history import Archive, History, Page, Room
from openab.storage import absences, conversations, deliveries, history_marks
from openab.storage.deliveries import Owed
from openab.storage.engine import Transaction
from openab.text import notices

log = structlog.get_logger()
Result = TypeVar("Result")
#: Reads under way at once; and how many in any second, whatever else there is to do: an account may make fifty
#: requests a second, of which forty are for what people see of running turns. What these leave is used, too.
_AT_ONCE = 4
READS, READS_SECONDS = 5, 1.0
_CALL_SECONDS = 10.0
#: Younger messages may be missing in what the network shows.
_SETTLED = timedelta(seconds=10)
#: The waits between tries to read a place that cannot be read now, in seconds.
RETRIES = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Reading:
    """What was read."""

    rooms: int = 0
    messages: int = 0
    #: Places that refuse to be read.
    unreadable: int = 0


class HistoryReader:
    """Reads everything behind `start`, or behind a place's own mark, once; cancelled, it leaves nothing but committed messages."""

    def __init__(
        self,
        settings: Settings,
        history: History,
        intake: Intake,
        held: HeldEvents,
        start: PlatformId,
        marks: Mapping[PlatformId, PlatformId],
        pace: Window,
        spare: Callable[[float], bool],
    ) -> None:
        """`marks` are what former readings came to. `pace` outlives this reader. `spare` takes a request that nobody else needs now, if there is one."""
        self._settings = settings
        self._history = history
        self._intake = intake
        self._held = held
        self._start = start
        self._marks = marks
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._spare = spare
        self._pace = pace
        self._pace_lock = asyncio.Lock()
        self._reading = Reading()

    async def read(self, direct: Sequence[PlatformId]) -> Reading:
        """Return when all is committed. `direct` are the direct conversations, which nobody lists."""
        private = [self._direct(one) for one in direct]
        async with asyncio.TaskGroup() as group:
            async for rooms in self._history.rooms():
                heard = [room for room in (*rooms, *private) if self._is_heard(room)]
                private = []
                self._plan(heard)
                for parent, threads in sorted(_families(heard), key=self._precedence):
                    family = self._family(parent, threads)
                    group.create_task(family, name="backfill-family")
        return self._reading

    def _direct(self, conversation: PlatformId) -> Room:
        settings = self._settings
        return Room(ConversationRef(settings.channel, settings.account, conversation), Place.DM)

    def _is_heard(self, room: Room) -> bool:
        ref = room.ref
        refusal = place_refusal(
            room.place, ref.conversation_id, ref.parent_conversation_id, self._settings.policy()
        )
        return refusal is None

    def _plan(self, rooms: Sequence[Room]) -> None:
        unread = [room.ref.conversation_id for room in rooms if self._is_unread(room)]
        unlisted = [room.ref.conversation_id for room in rooms if room.has_threads]
        self._held.plan(rooms, unread, unlisted)

    def _is_unread(self, room: Room) -> bool:
        if room.place is Place.DM:
            return True
        newest = snowflake(room.newest or "0")
        return room.has_messages and newest > snowflake(self._read_to(room))

    def _read_to(self, room: Room) -> PlatformId:
        mark = self._marks.get(room.ref.conversation_id, self._start)
        return max(self._start, mark, key=snowflake)

    def _precedence(self, family: "_Family") -> tuple[bool, int]:
        """Whose first place was read longest ago comes first; where only archived threads may be found, last."""
        parent, threads = family
        family_rooms = [*threads, *([parent] if parent else [])]
        return min(
            (not self._is_unread(one), snowflake(self._read_to(one))) for one in family_rooms
        )

    def _settled(self) -> PlatformId:
        """Up to this moment what is read from now on is complete."""
        return self._history.earlier(self._history.newest(), _SETTLED)

    async def _family(self, parent: Room | None, threads: Sequence[Room]) -> None:
        """A channel before its threads: what is said in a thread may follow from what opened it."""
        async with asyncio.TaskGroup() as group:

            async def begun(room: Room) -> None:
                tried = asyncio.Event()
                group.create_task(self._room(room, tried), name="backfill-room")
                await tried.wait()

            if parent is not None and self._is_unread(parent):
                await begun(parent)
            for room in sorted(threads, key=lambda one: snowflake(self._read_to(one))):
                if self._is_unread(room):
                    group.create_task(self._room(room), name="backfill-room")
            if parent is not None and parent.has_threads:
                known = {room.ref.conversation_id for room in threads}
                # A task like those of rooms, or the lists would stand in front of all of them.
                group.create_task(self._archive_of(parent, known), name="backfill-archive")

    async def _archive_of(self, parent: Room, known: set[PlatformId]) -> None:
        async with asyncio.TaskGroup() as group:
            for room in await self._archived(parent, known):
                group.create_task(self._room(room), name="backfill-room")

    async def _archived(self, parent: Room, known: set[PlatformId]) -> list[Room]:
        """The archived threads of a place that have something new; they wait from now on."""
        unread, before = [], None
        while True:
            archive = await self._patiently(parent, partial(self._archive, parent, before))
            for room in archive.rooms if archive else ():
                is_known = room.ref.conversation_id in known
                if not is_known and self._is_heard(room) and self._is_unread(room):
                    self._held.found(room.ref.conversation_id)
                    unread.append(room)
            before = archive.before if archive else None
            if before is None:
                self._held.listed(parent.ref.conversation_id)
                return unread

    async def _archive(self, parent: Room, before: str | None) -> Archive:
        return await self._history.archived(
            parent, since=self._start, before=before, seconds=_CALL_SECONDS
        )

    async def _room(self, room: Room, tried: asyncio.Event | None = None) -> None:
        """Read one place to its end; `tried` is set when others need not wait for it."""
        tried = tried or asyncio.Event()
        after: PlatformId | None = self._read_to(room)
        messages, is_whole, settled = 0, True, after
        while after is not None:
            settled = self._settled()
            page = await self._patiently(room, partial(self._page, room, after), tried)
            # The network's clock is known better by now, or its answer took long.
            settled = min(settled, self._settled(), key=snowflake)
            is_whole = self._take(page) and is_whole
            messages += len(page.messages) if page else 0
            after = page.after if page else None
            if after is not None:
                mark = min(after, settled, key=snowflake) if is_whole else None
                await self._committed(Step("history_page", partial(self._keep, room, mark)))
        self._held.read(room.ref.conversation_id)
        mark = settled if is_whole else None
        await self._committed(Step("history_read", partial(self._end, room, mark)))
        self._reading.rooms += 1
        self._reading.messages += messages
        tried.set()

    def _take(self, page: Page | None) -> bool:
        """Let it in; False: not all of it, or the place refuses to be read."""
        is_taken = page is not None
        for message in page.messages if page else ():
            self._intake.put(message)
            is_taken = is_taken and not self._intake.is_full
        return is_taken

    async def _end(self, room: Room, mark: PlatformId | None, tx: Transaction) -> None:
        await self._tell_skipped(room.ref, tx)
        await self._keep(room, mark, tx)

    async def _keep(self, room: Room, mark: PlatformId | None, tx: Transaction) -> None:
        """The place is read so far; None: something of it is missing."""
        if mark is not None:
            ref = room.ref
            await history_marks.keep(tx, ref.channel, ref.account, ref.conversation_id, mark)

    async def _page(self, room: Room, after: PlatformId) -> Page:
        return await self._history.page(room, after=after, seconds=_CALL_SECONDS)

    async def _committed(self, step: Step) -> None:
        self._intake.put(step)
        await step.committed.wait()

    async def _patiently(
        self,
        room: Room,
        call: Callable[[], Awaitable[Result]],
        tried: asyncio.Event | None = None,
    ) -> Result | None:
        """Ask until there is an answer; None: this place refuses to be read."""
        attempt = 0
        while True:
            try:
                async with self._slots:
                    await self._paced()
                    return await call()
            except (Rejected, Transient, Unknown) as error:
                where = room.ref.conversation_id
                if _is_refusal(error):
                    log.warning("backfill_place_unreadable", place=where, error=str(error))
                    self._reading.unreadable += 1
                    return None
                if not attempt:
                    log.warning("backfill_place_waits", place=where, error=str(error))
                if tried is not None:
                    tried.set()
                wait = RETRIES[min(attempt, len(RETRIES) - 1)]
                await asyncio.sleep(max(wait, getattr(error, "retry_after", None) or 0.0))
                attempt += 1

    async def _paced(self) -> None:
        """Until one more read is allowed, in the order in which they come."""
        async with self._pace_lock:
            now = asyncio.get_running_loop().time
            if self._spare(now()):
                return
            await asyncio.sleep(max(0.0, self._pace.free_at() - now()))
            self._pace.note(now())

    async def _tell_skipped(self, ref: ConversationRef, tx: Transaction) -> None:
        """One notice names what is not answered any more and was not named before."""
        here = await conversations.find(tx, ref)
        if here is None:
            return
        all_skipped = await absences.skipped_since(
            tx, ref.account, ref.conversation_id, self._start
        )
        told = snowflake(await absences.told_up_to(tx, here.id)) if all_skipped else 0
        skipped = [message for message in all_skipped if snowflake(message) > told]
        if not skipped:
            return
        since = self._history.said_at(skipped[0])
        await deliveries.owe(
            tx,
            Owed(
                account=ref.account,
                conversation=here.id,
                key=absences.notice_key(here.id, skipped[-1]),
                kind=DeliveryKind.CREATE,
                purpose=Purpose.NOTICE,
                body=presentation_body(notices.messages_skipped(len(skipped), since)),
                seq=await conversations.take_seq(tx, here.id),
                is_owed=False,
            ),
        )
        log.info("messages_skipped", conversation=here.id, messages=len(skipped))


def _is_refusal(error: Exception) -> bool:
    """Asking again changes nothing; a token that is not accepted is the whole account's trouble."""
    if isinstance(error, ChannelRejected):
        return error.refusal is not Refusal.UNAUTHORIZED
    return isinstance(error, Rejected)


_Family = tuple[Room | None, list[Room]]


def _families(rooms: Sequence[Room]) -> list[_Family]:
    """Each place that stands by itself with the threads in it; each thread without a known parent alone."""
    parents = {room.ref.conversation_id: room for room in rooms if room.place is not Place.THREAD}
    threads: defaultdict[PlatformId | None, list[Room]] = defaultdict(list)
    for room in rooms:
        if room.place is Place.THREAD:
            parent = room.ref.parent_conversation_id
            threads[parent if parent in parents else None].append(room)
    families: list[_Family] = [(room, threads[where]) for where, room in parents.items()]
    return [*families, *((None, [thread]) for thread in threads[None])]
