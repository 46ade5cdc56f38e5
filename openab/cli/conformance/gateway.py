"""Discord's gateway as the tester hears it: connects, stays alive, comes back, passes events on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from openab.cli.conformance.rest import OutOfReach, Rest
from openab.ports.tasks import end, spawn

#: Guilds, their messages, reactions, and the messages' content.
_INTENTS = 1 << 0 | 1 << 9 | 1 << 10 | 1 << 15
_DISPATCH, _HEARTBEAT, _IDENTIFY, _RECONNECT, _INVALID, _HELLO = 0, 1, 2, 7, 9, 10
_MOST_FAILURES = 5
_PAUSE_SECONDS = 2.0
_CONTENT_INTENT = "switch on the message content intent of the tester's application"
#: Close codes after which coming back is of no use, and what to do.
_FATAL = {
    4004: "the tester's token is not valid",
    4013: "the gateway refuses the intents",
    4014: f"the gateway refuses the intents: {_CONTENT_INTENT}",
}

Take = Callable[[str, dict[str, Any]], None]


class Deaf(Exception):
    """The tester cannot hear what happens; the text says what to do."""


class Ears:
    """One connection after the other, until it is cancelled."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        rest: Rest,
        take: Take,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._session, self._rest, self._take, self._catch_up = session, rest, take, catch_up
        self._sequence: int | None = None
        #: Set once it hears.
        self.is_ready = asyncio.Event()

    async def listen(self) -> None:
        """Never returns. Raises Deaf where no further try can help."""
        failures = 0
        while failures < _MOST_FAILURES:
            try:
                failures = 0 if await self._connection() else failures + 1
            except (aiohttp.ClientError, TimeoutError, OutOfReach):
                failures += 1
            await asyncio.sleep(_PAUSE_SECONDS)
        raise Deaf("the gateway cannot be reached")

    async def _connection(self) -> bool:
        """One connection to its end; whether it was ready once."""
        address = str((await self._rest.get("/gateway"))["url"])
        was_ready = False
        async with self._session.ws_connect(
            f"{address.rstrip('/')}/?v=10&encoding=json", max_msg_size=0
        ) as socket:
            hello = await socket.receive_json(timeout=30)
            beats = spawn("heartbeats", self._beat(socket, hello["d"]["heartbeat_interval"] / 1000))
            try:
                await self._identify(socket)
                async for message in socket:
                    frame = message.json()
                    was_ready = was_ready or frame.get("t") == "READY"
                    if not await self._heard(frame):
                        break
            finally:
                await end(beats)
        if socket.close_code in _FATAL:
            raise Deaf(_FATAL[socket.close_code])
        return was_ready

    async def _identify(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        properties = {"os": "linux", "browser": "openab", "device": "openab"}
        given = {"token": self._rest.token, "intents": _INTENTS, "properties": properties}
        await socket.send_json({"op": _IDENTIFY, "d": given})

    async def _beat(self, socket: aiohttp.ClientWebSocketResponse, seconds: float) -> None:
        try:
            while True:
                await socket.send_json({"op": _HEARTBEAT, "d": self._sequence})
                await asyncio.sleep(seconds)
        except (ConnectionError, aiohttp.ClientError):
            # The reader notices it as well, and connects anew.
            return

    async def _heard(self, frame: dict[str, Any]) -> bool:
        """Take one frame; False: the connection is to be made anew."""
        if frame["op"] in {_RECONNECT, _INVALID}:
            return False
        if frame["op"] != _DISPATCH:
            return True
        self._sequence = frame["s"]
        if frame["t"] == "READY":
            await self._catch_up()
            self.is_ready.set()
        else:
            self._take(frame["t"], frame["d"])
        return True
