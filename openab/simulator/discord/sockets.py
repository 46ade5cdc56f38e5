"""One gateway socket: HELLO, IDENTIFY or RESUME, heartbeats, close codes (Discord API documentation)."""

import asyncio
import json
from typing import Any

from aiohttp import WSMsgType, web

from openab.ports.tasks import end, spawn
from openab.simulator.discord.errors import Json
from openab.simulator.discord.faults import Faults
from openab.simulator.discord.gateway import (
    HEARTBEAT,
    HEARTBEAT_ACK,
    HELLO,
    IDENTIFY,
    INVALID_SESSION,
    RESUME,
    Gateway,
    Session,
)
from openab.simulator.discord.happenings import MESSAGE_CONTENT
from openab.simulator.discord.journal import Journal
from openab.simulator.discord.world import World

#: Gateway opcodes that bots send and that change nothing here: presence, voice, members.
_TAKEN_SILENTLY = frozenset({3, 4, 8, 31})


class Socket:
    """One connection; a queue keeps its frames in order."""

    def __init__(self, request: web.Request, world: World, gateway: Gateway) -> None:
        self._request, self._world, self._gateway = request, world, gateway
        self._ws = web.WebSocketResponse(max_msg_size=1 << 20)
        self._frames: asyncio.Queue[Json | int] = asyncio.Queue()
        self._is_silent = False
        self.session: Session | None = None

    def tell(self, frame: Json) -> None:
        """Queue a frame."""
        if not self._is_silent:
            self._frames.put_nowait(frame)

    def close(self, code: int) -> None:
        """Close with a code, after what is queued."""
        self._frames.put_nowait(code)

    def cut(self) -> None:
        """Break the connection at once."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def silence(self) -> None:
        """Send no frame any more."""
        self._is_silent = True

    async def serve(self, journal: Journal, faults: Faults) -> web.StreamResponse:
        """Talk until either side ends it."""
        await self._ws.prepare(self._request)
        journal.connected(None, "connect")
        beat = int(self._gateway.heartbeat_seconds * 1000)
        self.tell({"op": HELLO, "d": {"heartbeat_interval": beat, "_trace": []}})
        writer = spawn("loopback-discord-socket", self._write())
        try:
            await self._read(journal, faults)
        finally:
            await end(writer)
            self._leave()
        return self._ws

    def _leave(self) -> None:
        if self.session is not None:
            # 1000 or 1001 from the client ends the session; our own close does not.
            ends = self._ws.close_code in {1000, 1001} and not self._closed_by_us
            self._gateway.detach(self.session, self, ends=ends)

    _closed_by_us = False

    async def _write(self) -> None:
        try:
            while True:
                frame = await self._frames.get()
                if isinstance(frame, int):
                    self._closed_by_us = True
                    await self._ws.close(code=frame)
                    return
                await self._ws.send_str(json.dumps(frame))
        except (ConnectionError, RuntimeError):
            # The client is gone; the reader notices and leaves.
            return

    async def _read(self, journal: Journal, faults: Faults) -> None:
        async for message in self._ws:
            if message.type is not WSMsgType.TEXT:
                self.close(4002)
                continue
            frame = self._decoded(message.data)
            if frame is not None:
                self._take(frame, journal, faults)

    def _decoded(self, text: str) -> Json | None:
        try:
            frame: Any = json.loads(text)
        except ValueError:
            frame = None
        if isinstance(frame, dict):
            return frame
        self.close(4002)
        return None

    def _take(self, frame: Json, journal: Journal, faults: Faults) -> None:
        op, given = frame.get("op"), frame.get("d")
        if op == HEARTBEAT:
            self._acknowledge(faults)
        elif op == IDENTIFY and isinstance(given, dict):
            self._identify(given, journal, faults)
        elif op == RESUME and isinstance(given, dict):
            self._resume(given, journal)
        elif op not in _TAKEN_SILENTLY:
            self.close(4001)

    def _acknowledge(self, faults: Faults) -> None:
        if self.session is None or self.session.bot.id not in faults.unacknowledged:
            self.tell({"op": HEARTBEAT_ACK, "d": None})

    def _identify(self, given: Json, journal: Journal, faults: Faults) -> None:
        bot = self._world.user_of_token(str(given.get("token", "")).removeprefix("Bot "))
        if self.session is not None:
            self.close(4005)
            return
        if bot is None or bot.application is None:
            journal.connected(None, "identify_refused", code=4004)
            self.close(4004)
            return
        intents = int(given.get("intents") or 0)
        scripted = faults.take_identify_close(bot.id)
        if intents & MESSAGE_CONTENT and not bot.application.message_content:
            scripted = 4014
        if scripted is not None:
            journal.connected(bot.id, "identify_refused", code=scripted)
            self.close(scripted)
            return
        self.session = self._gateway.identify(bot, intents, self)

    def _resume(self, given: Json, journal: Journal) -> None:
        bot = self._world.user_of_token(str(given.get("token", "")).removeprefix("Bot "))
        if bot is None:
            journal.connected(None, "identify_refused", code=4004)
            self.close(4004)
            return
        session_id, sequence = str(given.get("session_id")), int(given.get("seq") or 0)
        self.session = self._gateway.resume(session_id, bot, sequence, self)
        if self.session is None:
            self.tell({"op": INVALID_SESSION, "d": False})
