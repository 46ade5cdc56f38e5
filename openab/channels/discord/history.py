"""The history port over Discord: which places there are, and what was said in them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from discord.http import Route

from openab.channels.discord.gateway import MISSHAPEN
from openab.channels.discord.inbound import DISCORD, inbound_message, managed_roles_of
from openab.channels.discord.moments import moment_of
from openab.channels.discord.places import PlaceFacts, Places, place_facts
from openab.channels.discord.rest import DiscordRest
from openab.channels.discord.threads import optional_id
from openab.domain.ids import AccountId, ConversationRef, PlatformId
from openab.domain.message import InboundMessage, Place
from openab.ports.channel import ChannelUnreachable
from openab.ports.history import Archive, Page, Room

_MESSAGES = "/channels/{channel_id}/messages"
_ARCHIVE = "/channels/{channel_id}/threads/archived/public"
#: The most that Discord gives at once.
_PAGE = 100
#: Channel types with messages of their own: text, voice, announcements, stage.
_WITH_MESSAGES = frozenset({0, 2, 5, 13})
#: Those with threads: text, announcements, forum, media.
_WITH_THREADS = frozenset({0, 5, 15, 16})
#: Snowflakes count milliseconds since the first second of 2015.
_EPOCH_MS = 1_420_070_400_000
#: Servers that Discord has not told by then are told later, or not at all while they are down.
_SERVERS_SECONDS = 5.0

log = structlog.get_logger()


class DiscordHistory:
    """What one account can read. The gateway's events tell it of servers, channels and threads."""

    def __init__(
        self,
        rest: DiscordRest,
        account: AccountId,
        places: Places,
        *,
        on_lost: Callable[[], None],
        servers_seconds: float = _SERVERS_SECONDS,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._rest = rest
        self._account = account
        self._places = places
        self._on_lost = on_lost
        self._servers_seconds = servers_seconds
        self._wall = wall
        self._missing: set[str] = set()
        #: The rooms of each server that was told since the connection began, by their ids.
        self._told: dict[str, dict[PlatformId, Room]] = {}
        self._guild_of: dict[PlatformId, str] = {}
        #: The roles that Discord made for us, by guild.
        self._roles: dict[str, frozenset[PlatformId]] = {}
        self._changed = asyncio.Event()

    def begin(self, ready: Mapping[str, Any]) -> None:
        """A raw READY: it names the servers that are told next."""
        self._missing = {str(guild["id"]) for guild in ready.get("guilds", ())}
        self._told.clear()
        self._guild_of.clear()
        self._changed.set()

    def learn_guild(self, raw: Mapping[str, Any]) -> None:
        """A raw GUILD_CREATE: its channels and active threads, with their last messages."""
        guild = str(raw["id"])
        self._roles[guild] = managed_roles_of(raw, self._account)
        known = [*raw.get("channels", ()), *raw.get("threads", ())]
        try:
            if guild in self._missing:
                rooms = [self._room(one, guild) for one in known]
                self._told[guild] = {room.ref.conversation_id: room for room in rooms}
        finally:
            # One that cannot be understood will not come in another shape.
            self._settle(guild)

    def learn_room(self, raw: Mapping[str, Any]) -> None:
        """A raw channel or thread that was made or changed; archived ones are listed when asked for."""
        guild = str(raw.get("guild_id"))
        rooms = self._told.get(guild)
        if rooms is None:
            return
        room = self._room(raw, guild)
        if (raw.get("thread_metadata") or {}).get("archived"):
            rooms.pop(room.ref.conversation_id, None)
        else:
            rooms[room.ref.conversation_id] = room

    def forget_room(self, raw: Mapping[str, Any]) -> None:
        """A raw channel or thread that is gone."""
        self._told.get(str(raw.get("guild_id")), {}).pop(PlatformId(str(raw["id"])), None)

    def note_message(self, raw: Mapping[str, Any]) -> None:
        """A raw message was told: should it be lost on its way, its place has something new."""
        rooms = self._told.get(str(raw.get("guild_id")), {})
        room, message = rooms.get(PlatformId(str(raw.get("channel_id")))), raw.get("id")
        if room is not None and message:
            rooms[room.ref.conversation_id] = replace(room, newest=PlatformId(str(message)))

    def forget_guild(self, raw: Mapping[str, Any]) -> None:
        """A raw GUILD_DELETE: we are not there any more, or it is down and comes again later."""
        if not raw.get("unavailable"):
            self._settle(str(raw["id"]))

    def roles_of(self, guild: object) -> frozenset[PlatformId]:
        """The roles of a guild that Discord made for us."""
        return self._roles.get(str(guild), frozenset())

    async def rooms(self) -> AsyncIterator[Sequence[Room]]:
        """As the port says; a server that is down is told when it is back."""
        given: set[str] = set()
        try:
            async with asyncio.timeout(self._servers_seconds):
                await self._until(lambda: not self._missing)
        except TimeoutError:
            log.warning("servers_not_told", servers=sorted(self._missing))
        yield self._more(given)
        while self._missing:
            await self._until(lambda: not self._missing or len(self._told) > len(given))
            yield self._more(given)

    def _more(self, given: set[str]) -> list[Room]:
        fresh = [guild for guild in self._told if guild not in given]
        given.update(fresh)
        return [room for guild in fresh for room in self._told[guild].values()]

    async def _until(self, probe: Callable[[], bool]) -> None:
        while not probe():
            self._changed.clear()
            await self._changed.wait()

    def _settle(self, guild: str) -> None:
        self._missing.discard(guild)
        self._changed.set()

    async def archived(
        self, parent: Room, *, since: PlatformId, before: str | None, seconds: float
    ) -> Archive:
        """As the port says. Private threads are not among them: Discord tells these to moderators."""
        channel = parent.ref.conversation_id
        query = {"limit": _PAGE} | ({"before": before} if before else {})
        found = await self._rest.call(
            Route("GET", _ARCHIVE, channel_id=channel), seconds=seconds, query=query
        )
        try:
            threads = [(one, _archived_at(one)) for one in found["threads"]]
            late = [one for one, at in threads if at > self.said_at(since)]
            guild = self._guild_of.get(channel, "")
            rooms = [self._room(self._learnt(one), guild) for one in late]
        except MISSHAPEN as error:
            raise ChannelUnreachable("Discord's list of threads cannot be read") from error
        ends = not found.get("has_more") or not threads or len(late) < len(threads)
        last = None if ends else threads[-1][0]["thread_metadata"]["archive_timestamp"]
        return Archive(rooms, last)

    def _learnt(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        self._places.learn(raw)
        return raw

    async def page(self, room: Room, *, after: PlatformId, seconds: float) -> Page:
        """As the port says; Discord gives the newest first."""
        channel = room.ref.conversation_id
        route = Route("GET", _MESSAGES, channel_id=channel)
        query = {"after": after, "limit": _PAGE}
        found = await self._rest.call(route, seconds=seconds, query=query)
        if not isinstance(found, list):
            raise ChannelUnreachable("Discord's history cannot be read")
        facts = self._places.find(channel) or PlaceFacts(
            room.place, room.ref.parent_conversation_id
        )
        roles = self.roles_of(self._guild_of.get(channel))
        read = [self._message(raw, facts, roles) for raw in reversed(found)]
        messages = sorted((one for one in read if one), key=lambda one: int(one.message_id))
        return Page(messages, _greatest(found, after) if len(found) >= _PAGE else None)

    def _message(
        self, raw: Any, facts: PlaceFacts, roles: frozenset[PlatformId]
    ) -> InboundMessage | None:
        try:
            return inbound_message(
                raw, self._account, facts, from_history=True, managed_roles=roles
            )
        except MISSHAPEN:
            message = raw.get("id") if isinstance(raw, Mapping) else None
            log.exception("history_message_unreadable", message_id=str(message))
            self._on_lost()
            return None

    def newest(self) -> PlatformId:
        """As the port says: by Discord's own clock, as its last answer told it."""
        moment = (self._wall() + self._rest.skew) * 1000 - _EPOCH_MS
        return PlatformId(str(max(0, int(moment)) << 22))

    def earlier(self, message: PlatformId, by: timedelta) -> PlatformId:
        """As the port says."""
        milliseconds = int(by.total_seconds() * 1000)
        return PlatformId(str(max(0, int(message) - (milliseconds << 22))))

    def said_at(self, message: PlatformId) -> datetime:
        """As the port says."""
        return moment_of(message)

    def _room(self, raw: Mapping[str, Any], guild: str) -> Room:
        channel, facts, kind = PlatformId(str(raw["id"])), place_facts(raw), raw.get("type")
        self._guild_of[channel] = guild
        is_thread = facts.place is Place.THREAD
        return Room(
            ConversationRef(DISCORD, self._account, channel, facts.parent),
            facts.place,
            newest=optional_id(raw.get("last_message_id")),
            has_messages=is_thread or kind in _WITH_MESSAGES,
            has_threads=kind in _WITH_THREADS,
        )


def _archived_at(thread: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(thread["thread_metadata"]["archive_timestamp"])


def _greatest(found: Sequence[Any], after: PlatformId) -> PlatformId | None:
    """Where to go on; None if that would be where we are."""
    ids = [int(one["id"]) for one in found if isinstance(one, Mapping) and "id" in one]
    greatest = max(ids, default=0)
    return PlatformId(str(greatest)) if greatest > int(after) else None
