"""The guarded transport: wire order, and time for others."""

import asyncio
import json
from typing import Any, cast

import pytest

from openab.agents.acp.transport import GuardedTransport


class Pipe:
    """A writer whose other end may not read."""

    def __init__(self, *, reads: bool = True) -> None:
        self.written: list[bytes] = []
        self.aborted = False
        self.transport = self
        self._reads = reads

    def is_closing(self) -> bool:
        return self.aborted

    def write(self, line: bytes) -> None:
        self.written.append(line)

    async def drain(self) -> None:
        if not self._reads:
            await asyncio.Event().wait()

    def abort(self) -> None:
        self.aborted = True


def a_transport(pipe: Pipe, seen: list[Any]) -> tuple[GuardedTransport, asyncio.StreamReader]:
    reader = asyncio.StreamReader()

    def on_request(method: str, params: object) -> object:
        seen.append((method, params))
        return "prepared"

    transport = GuardedTransport(
        reader,
        cast("asyncio.StreamWriter", pipe),
        line_cap=1_000_000,
        write_seconds=0.05,
        on_update=seen.append,
        on_request=on_request,
    )
    return transport, reader


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def update(n: int) -> bytes:
    return line(method="session/update", params={"n": n})


async def test_everything_before_a_response_was_taken_in_wire_order() -> None:
    seen: list[Any] = []
    transport, reader = a_transport(Pipe(), seen)
    ask = line(id="a", method="session/request_permission", params={"x": 1})
    reader.feed_data(update(1) + ask + update(2) + b"null\n" + line(id="0", result={}) + update(3))
    reader.feed_eof()
    asked = await transport.receive()
    assert asked is not None
    assert asked["params"] == "prepared"
    assert seen == [{"n": 1}, ("session/request_permission", {"x": 1})]
    assert await transport.receive() == {"id": 0, "result": {}}
    assert seen[2:] == [{"n": 2}]
    assert await transport.receive() is None
    assert seen[3:] == [{"n": 3}]
    assert transport.noise == 1
    assert transport.ended.is_set()


async def test_notifications_that_nobody_knows_go_no_further() -> None:
    transport, reader = a_transport(Pipe(), [])
    reader.feed_data(line(method="$/cancel_request", params={}) + line(method="_x/y"))
    reader.feed_eof()
    assert await transport.receive() is None


async def test_a_flood_leaves_time_for_others() -> None:
    seen: list[Any] = []
    transport, reader = a_transport(Pipe(), seen)
    reader.feed_data(update(1) * 50_000)
    reader.feed_eof()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while len(seen) < 50_000:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(other())
        group.create_task(transport.receive())
    assert turns > 20


async def test_a_write_that_nobody_takes_breaks_the_connection() -> None:
    pipe = Pipe(reads=False)
    transport, _ = a_transport(pipe, [])
    with pytest.raises(ConnectionError):
        await transport.send({"method": "session/prompt"})
    assert pipe.aborted
    assert transport.ended.is_set()
    with pytest.raises(ConnectionError):
        await transport.send({"method": "session/cancel"})
    assert len(pipe.written) == 1


async def test_a_written_request_is_noted_once() -> None:
    transport, _ = a_transport(Pipe(), [])
    written = transport.written["session/prompt"] = asyncio.Event()
    await transport.send({"method": "session/cancel"})
    assert not written.is_set()
    await transport.send({"method": "session/prompt"})
    assert written.is_set()


async def test_a_fault_in_a_callback_is_the_end_of_the_connection() -> None:
    class Broken(list[Any]):
        def append(self, _item: Any) -> None:
            raise LookupError("a fault of ours")

    transport, reader = a_transport(Pipe(), Broken())
    reader.feed_data(update(1))
    with pytest.raises(LookupError):
        await transport.receive()
    assert transport.ended.is_set()
