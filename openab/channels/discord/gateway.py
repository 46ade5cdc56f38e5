"""One gateway connection: discord.py keeps socket, heartbeat and resuming; the payloads are read here.

discord.py would run a task per event, which loses their order, and dies of one payload that its
models cannot read. So its table of parsers is replaced by ours: they run in wire order, inside
the reader, and only remember or put.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import aiohttp
import discord
import structlog
from discord.gateway import KeepAliveHandler

Parser = Callable[[Mapping[str, Any]], None]
Parsers = Mapping[str, Parser]

#: What Discord usually asks for; used until the connection has told its own.
USUAL_HEARTBEAT_SECONDS = 41.25
#: What a payload of another shape than ours raises.
MISSHAPEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

log = structlog.get_logger()


def wanted_intents(*, reactions: bool = False) -> discord.Intents:
    """Message content is the only one that must be switched on in the developer portal.

    Reactions are asked for only where they are input: in a busy guild they are many.
    """
    intents = discord.Intents.none()
    intents.guilds = True
    intents.guild_messages = True
    intents.dm_messages = True
    intents.message_content = True
    intents.guild_reactions = reactions
    intents.dm_reactions = reactions
    return intents


class Line(discord.Client):
    """A discord.py client that caches nothing and hands each payload to `parsers` in wire order."""

    def __init__(
        self,
        parsers: Parsers,
        *,
        on_identify: Callable[[], None],
        on_unreadable: Callable[[], None],
        identify_pause_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            intents=wanted_intents(reactions="MESSAGE_REACTION_ADD" in parsers),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            allowed_mentions=discord.AllowedMentions.none(),
            max_ratelimit_timeout=30.0,
            # The only public way to hear of every frame, heartbeat acknowledgements included.
            enable_debug_events=True,
        )
        self._on_identify = on_identify
        self._on_unreadable = on_unreadable
        self._identify_pause_seconds = identify_pause_seconds
        self._clock = clock
        #: READY or RESUMED has come, and no disconnection since.
        self.connected = False
        self.last_frame_at = clock()
        #: How often this connection's heart beats.
        self.heartbeat_seconds = USUAL_HEARTBEAT_SECONDS
        self._stillborn = asyncio.Event()
        self._sockets: WeakSet[aiohttp.ClientWebSocketResponse] = WeakSet()
        self._open_socket = self.http.ws_connect
        self.http.ws_connect = self._remembered_socket  # type: ignore[method-assign]
        self._install(parsers)

    async def _remembered_socket(
        self, url: str, *, compress: int = 0
    ) -> aiohttp.ClientWebSocketResponse:
        # discord.py loses sight of a connection that is given up before it has identified.
        socket = await self._open_socket(url, compress=compress)
        self._sockets.add(socket)
        return socket

    def _install(self, parsers: Parsers) -> None:
        table = self._connection.parsers
        table.clear()
        table.update({name: self._guarded(name, parser) for name, parser in parsers.items()})
        for name in ("READY", "RESUMED"):
            table[name] = self._opening(table.get(name))

    def _guarded(self, name: str, parser: Parser) -> Parser:
        def guarded(raw: Mapping[str, Any]) -> None:
            try:
                parser(raw)
            except MISSHAPEN:
                log.exception("gateway_event_unreadable", gateway_event=name)
                self._on_unreadable()

        return guarded

    def _opening(self, then: Parser | None) -> Parser:
        def opened(raw: Mapping[str, Any]) -> None:
            self.connected = True
            log.info("gateway_connected")
            if then is not None:
                then(raw)

        return opened

    @property
    def frame_age(self) -> float:
        """Seconds since the last frame of any sort (or since this client was made)."""
        return self._clock() - self.last_frame_at

    def dispatch(self, event: str, /, *_args: Any, **_kwargs: Any) -> None:
        """discord.py's notices; no handler task is made of any of them."""
        if event == "socket_raw_receive":
            self.last_frame_at = self._clock()
            self._note_heartbeat()
        elif event == "disconnect":
            self.connected = False
            log.info("gateway_disconnected")
            if getattr(self, "ws", None) is None:
                # discord.py sleeps now, and then dies of having no connection to resume.
                self._stillborn.set()

    def _note_heartbeat(self) -> None:
        # Remembered, since discord.py forgets it while it reconnects.
        beating = getattr(self.ws, "_keep_alive", None)
        self.heartbeat_seconds = getattr(beating, "interval", None) or self.heartbeat_seconds

    async def before_identify_hook(self, _shard_id: int | None, *, initial: bool = False) -> None:
        """Each IDENTIFY is counted: a thousand in a day cost the token."""
        self._on_identify()
        if not initial:
            # One IDENTIFY in five seconds is allowed.
            await asyncio.sleep(self._identify_pause_seconds)

    async def deaf(self) -> str:
        """Return why this connection cannot hear, whatever discord.py thinks of it.

        It was never reached, or no frame has come for two heartbeats.
        """
        # Looked at every second at least: the connection may tell a shorter heartbeat meanwhile.
        while (left := 2 * self.heartbeat_seconds - self.frame_age) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stillborn.wait(), min(left, 1.0))
            if self._stillborn.is_set():
                return "the gateway could not be reached"
        return "the gateway fell silent"

    async def shut(self, seconds: float = 5.0) -> None:
        """Close the connection; a server that does not answer the goodbye is left standing."""
        try:
            async with asyncio.timeout(seconds):
                await self._close_sockets()
                await self.close()
        except TimeoutError:
            log.warning("gateway_close_timed_out")
            await self.http.close()

    async def _close_sockets(self) -> None:
        for thread in threading.enumerate():
            if isinstance(thread, KeepAliveHandler) and thread.ws.socket in self._sockets:
                thread.stop()
        for socket in list(self._sockets):
            await socket.close(code=1000)
