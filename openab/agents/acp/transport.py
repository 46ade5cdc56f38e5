"""Guarded JSON lines: what the SDK's connection reads and writes, safe against any agent."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from openab.agents.acp.lines import LineSplitter
from openab.agents.acp.wire import Json, parse

_CHUNK = 64 * 1024


class GuardedTransport:
    """A message transport for the SDK's `Connection`.

    Updates and the agent's requests are given to the callbacks in wire order, before the next
    line is looked at; so whoever sees a response knows that everything before it was taken.
    Updates and unknown notifications never reach the SDK, which would reorder them.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        line_cap: int,
        write_seconds: float,
        on_update: Callable[[Json], None],
        on_request: Callable[[str, Json], object],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._write_seconds = write_seconds
        self._on_update, self._on_request = on_update, on_request
        self._splitter = LineSplitter(line_cap)
        self._lines: deque[bytes] = deque()
        self._at_end = False
        #: Set by `send` when the next request of this method has been written.
        self.written: dict[str, asyncio.Event] = {}
        #: Set when nothing more will be read.
        self.ended = asyncio.Event()
        self.last_line_at = time.monotonic()
        #: Lines that were no JSON-RPC.
        self.noise = 0

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message; ConnectionError when the agent does not take it in time."""
        if self._writer.is_closing():
            raise ConnectionError("the agent's stdin is closed")
        self._writer.write(json.dumps(message).encode() + b"\n")
        try:
            async with asyncio.timeout(self._write_seconds):
                await self._writer.drain()
        except TimeoutError:
            # Half a message may stand in the pipe: nothing can follow it.
            self._writer.transport.abort()
            self.ended.set()
            raise ConnectionError("the agent does not read its stdin") from None
        if written := self.written.pop(message.get("method", ""), None):
            written.set()

    async def receive(self) -> dict[str, Any] | None:
        """The next request or response; None at the end of the pipe."""
        try:
            return await self._receive()
        except Exception:
            self.ended.set()
            raise

    async def close(self) -> None:
        """Nothing: the pipes belong to the process."""

    async def _receive(self) -> Json | None:
        while True:
            while self._lines:
                if (message := self._take(self._lines.popleft())) is not None:
                    return message
            if self._at_end:
                self.ended.set()
                return None
            await self._read()

    async def _read(self) -> None:
        chunk = await self._reader.read(_CHUNK)
        self._at_end = not chunk
        self.last_line_at = time.monotonic()
        self._lines.extend(self._splitter.feed(chunk) if chunk else self._splitter.finish())
        if len(chunk) == _CHUNK:
            # A flooding agent has the next chunk ready, and reading that would not yield.
            await asyncio.sleep(0)

    def _take(self, line: bytes) -> Json | None:
        message = parse(line)
        if message is None:
            self.noise += bool(line.strip())
            return None
        method = message.get("method")
        if method is None:
            return message
        if method == "session/update":
            self._on_update(message["params"])
        if "id" not in message:
            return None
        message["params"] = self._on_request(method, message["params"])
        return message
