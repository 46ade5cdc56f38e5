"""A chat network's past in memory: places, what was said in them, and reads that fail or wait by script."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from openab.domain.ids import PlatformId, snowflake
from openab.ports.history import Archive, Page, Room

if TYPE_CHECKING:
    from openab.domain.errors import OpenabError
    from openab.domain.message import InboundMessage

#: An id is a moment: so many seconds behind this one.
START = datetime(2026, 7, 1, tzinfo=UTC)


class StoredHistory:
    """Fulfils `openab.ports.history.History`. What a test appends to `said` was said in that order."""

    def __init__(self, page_size: int = 10) -> None:
        self.page_size = page_size
        #: What each server tells, in the order of their telling.
        self.servers: list[list[Room]] = [[]]
        #: Servers beyond the first are told when this is set.
        self.all_told = asyncio.Event()
        self.all_told.set()
        self.archives: dict[str, list[Room]] = {}
        self.said: dict[str, list[InboundMessage]] = defaultdict(list)
        self.reads: Counter[str] = Counter()
        #: Each read in its order: the place, and the moment from which on it was asked for.
        self.asked: list[tuple[str, str]] = []
        #: When each read began, by the loop's clock.
        self.read_at: list[float] = []
        self.errors: dict[str, list[OpenabError]] = defaultdict(list)
        #: By place: after how many reads each further one raises this.
        self.errors_after: dict[str, tuple[int, OpenabError]] = {}
        #: By place: what the network's clock tells from its next answer on.
        self.set_right: dict[str, PlatformId] = {}
        self._gates: dict[str, asyncio.Event] = {}
        self._asked = asyncio.Event()
        self.now = PlatformId("5000")

    # What a test does and sees.

    def close(self, place: str) -> asyncio.Event:
        """Reads of this place wait until the event is set."""
        return self._gates.setdefault(place, asyncio.Event())

    async def is_asked(self, place: str, times: int = 1, within: float = 30.0) -> None:
        """Until so many reads of this place have begun."""
        async with asyncio.timeout(within):
            while self.reads[place] < times:
                self._asked.clear()
                await self._asked.wait()

    # The port.

    async def rooms(self) -> AsyncIterator[Sequence[Room]]:
        yield self.servers[0]
        await self.all_told.wait()
        for rooms in self.servers[1:]:
            yield rooms

    async def archived(
        self, parent: Room, *, since: PlatformId, before: str | None, seconds: float
    ) -> Archive:
        place = parent.ref.conversation_id
        await self._read(f"archive of {place}", since)
        rooms = self.archives.get(place, [])
        first = int(before or 0)
        return Archive(rooms[first : first + 1], str(first + 1) if first + 1 < len(rooms) else None)

    async def page(self, room: Room, *, after: PlatformId, seconds: float) -> Page:
        place = room.ref.conversation_id
        await self._read(place, after)
        behind = [one for one in self.said[place] if snowflake(one.message_id) > snowflake(after)]
        some = sorted(behind, key=lambda one: snowflake(one.message_id))[: self.page_size]
        is_full = len(some) == self.page_size
        after_that = some[-1].message_id if is_full else None
        return Page(some, after_that)

    async def _read(self, place: str, since: PlatformId) -> None:
        self.asked.append((place, since))
        self.reads[place] += 1
        self.read_at.append(asyncio.get_running_loop().time())
        self._asked.set()
        if place in self._gates:
            await self._gates[place].wait()
        if self.errors[place]:
            raise self.errors[place].pop(0)
        count, error = self.errors_after.get(place, (0, None))
        if error is not None and self.reads[place] > count:
            raise error
        self.now = self.set_right.pop(place, self.now)

    def newest(self) -> PlatformId:
        return self.now

    def earlier(self, message: PlatformId, by: timedelta) -> PlatformId:
        return PlatformId(str(max(0, snowflake(message) - int(by.total_seconds()))))

    def said_at(self, message: PlatformId) -> datetime:
        return START + timedelta(seconds=snowflake(message))
