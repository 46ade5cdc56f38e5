"""The laboratory's side of the nursery: begins brokers, hears what they pass, notices their ends."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openab.ports.tasks import end, spawn
from tests.lab.tripwire import ORDER_VARIABLE, SOCKET_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
_BIRTH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Order:
    """What is to happen at the n-th passing of a point from now on."""

    point: str
    n: int = 1
    kind: str = "kill"

    def __str__(self) -> str:
        return f"{self.point} {self.n} {self.kind}"


@dataclass(eq=False)
class Life:
    """One broker process, from its birth to its end."""

    pid: int
    began: float
    passed: list[str] = field(default_factory=list)
    #: Where an order struck, in order.
    struck: list[str] = field(default_factory=list)
    #: It was cut off from its database at least once.
    is_cut: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ended_at: float = 0.0
    exit_code: int | None = None
    writer: asyncio.StreamWriter | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def order(self, order: Order) -> None:
        """Have this happen instead of what was ordered before."""
        self.tell(str(order))

    def tell(self, line: str) -> None:
        """A line for the process; one that has died does not hear it."""
        if self.writer and not self.ended.is_set():
            self.writer.write(f"{line}\n".encode())

    def send(self, number: signal.Signals) -> None:
        """A signal, if it still lives."""
        if not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def until(self, fits: Callable[[], bool], seconds: float) -> bool:
        """Wait until `fits`, which is asked after each thing that it tells; False: it did not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not fits() and not self.ended.is_set():
                    self.news.clear()
                    await self.news.wait()
        return fits()


class Brood:
    """Brokers by fork, from one nursery."""

    def __init__(self, folder: Path, nursery: asyncio.subprocess.Process) -> None:
        self._folder = folder
        self._nursery = nursery
        self._turn = asyncio.Lock()
        self._lives: dict[int, Life] = {}
        self._born: dict[int, asyncio.Future[None]] = {}
        #: Called in the laboratory when a process asks for it: (life, what).
        self.on_asked: Callable[[Life, str], None] = lambda _life, _what: None

    @property
    def address(self) -> str:
        """The socket on which brokers tell."""
        return str(self._folder / "lab")

    async def begin(
        self, argv: Sequence[str], env: Mapping[str, str], log: Path, order: Order | None = None
    ) -> Life:
        """A broker process."""
        told = {SOCKET_VARIABLE: self.address, ORDER_VARIABLE: str(order or "")}
        request = {"argv": list(argv), "env": {**env, **told}, "log": str(log)}
        began = time.monotonic()
        pid = await self._ask(request)
        life = self._life(pid)
        life.began = began
        async with asyncio.timeout(_BIRTH_SECONDS):
            await self._birth(pid)
        return life

    def _life(self, pid: int) -> Life:
        if pid not in self._lives or self._lives[pid].ended.is_set():
            self._lives[pid] = Life(pid, time.monotonic())
        return self._lives[pid]

    def _birth(self, pid: int) -> "asyncio.Future[None]":
        return self._born.setdefault(pid, asyncio.get_running_loop().create_future())

    async def _ask(self, request: Mapping[str, Any]) -> Any:
        assert self._nursery.stdin
        assert self._nursery.stdout
        async with self._turn:
            self._nursery.stdin.write(json.dumps(request).encode() + b"\n")
            answer = await self._nursery.stdout.readline()
        return json.loads(answer)

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One process's line, from its birth to its death."""
        pid = int((await reader.readline()).split()[1])
        life = self._life(pid)
        life.writer = writer
        self._birth(pid).set_result(None)
        try:
            while line := await reader.readline():
                self._note(life, line.decode().strip())
        except ConnectionError:
            # Killed with an order of ours unread.
            pass
        finally:
            writer.close()
            await self._bury(life)

    def _note(self, life: Life, told: str) -> None:
        word, _, point = told.partition(" ")
        if word == "passed":
            life.passed.append(point)
        elif word == "struck":
            life.struck.append(point)
        else:
            self.on_asked(life, word)
        life.news.set()

    async def _bury(self, life: Life) -> None:
        life.ended_at = time.time()
        life.exit_code = int(await self._ask({"reap": life.pid}))
        del self._born[life.pid]
        life.ended.set()
        life.news.set()


@asynccontextmanager
async def open_brood(folder: Path, broken: str = "") -> AsyncIterator[Brood]:
    """A nursery that ends with this block, and every broker with it. `folder`: a short path."""
    nursery = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.lab.nursery",
        broken,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    brood = Brood(folder, nursery)
    assert nursery.stdin
    assert nursery.stdout
    hearers: set[asyncio.Task[None]] = set()

    def born(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hearers.add(spawn("lab line", brood.hear(reader, writer)))

    try:
        assert await nursery.stdout.readline() == b'"ready"\n', "the nursery did not open"
        server = await asyncio.start_unix_server(born, brood.address)
        try:
            yield brood
        finally:
            for life in brood._lives.values():
                life.send(signal.SIGKILL)
            if hearers:
                await asyncio.wait(hearers)
            server.close()
            await server.wait_closed()
            for hearer in hearers:
                await end(hearer)
    finally:
        nursery.stdin.close()
        await nursery.wait()
