"""A loopback Discord in this process, a broker and its agents as processes, and talk between them.

The loopback and this measuring code share a process, which is neither the broker's nor an agent's.
"""

import asyncio
import fcntl
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil

from benchmarks.receipts import Receipts, datagrams
from openab.simulator.discord import LoopbackDiscord
from openab.simulator.discord.journal import Request

_AGENT = Path(__file__).with_name("tiny_agent.py")
START_SECONDS = 60.0
_STOP_SECONDS = 30.0
#: No request for so long means that everything owed has been done.
_QUIET_SECONDS = 0.6


class Stage:
    """One bot, one broker, and a conversation per channel."""

    def __init__(self, discord: LoopbackDiscord, folder: Path, database: str) -> None:
        self.discord = discord
        self.folder = folder
        self.database = folder / "openab.db"
        self._url = database or f"sqlite:///{self.database}"
        self.bot = discord.add_bot("sol")
        self.ann = discord.add_person("ann")
        self.receipts = Receipts()
        self.threads: list[str] = []
        self._gate = folder / "gate"
        self._gate.touch()
        self.log = folder / "broker.jsonl"
        self._process: asyncio.subprocess.Process | None = None
        self._tags = 0

    # ------------------------------------------------------------------ the broker

    def configure(self) -> Path:
        """Write the configuration; agents are the tiny ones."""
        config = self.folder / "config.toml"
        args = ["-I", "-S", str(_AGENT), str(self.folder / "receipts"), str(self._gate)]
        config.write_text(
            f"[discord]\nbot_token = {json.dumps(self.bot.token)}\n"
            f"api_base = {json.dumps(self.discord.api_base)}\n"
            f"[agent]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n"
            f"working_dir = {json.dumps(str(self.folder))}\n"
            # Every conversation has an agent of its own; turns that still run when a measurement is
            # over are not waited for.
            f"[pool]\nmax_sessions = 1000\n"
            f"[cluster]\ndrain_seconds = 1\n"
            f"[database]\nurl = {json.dumps(self._url)}\nauto_upgrade = true\n"
        )
        return config

    @property
    def environ(self) -> Mapping[str, str]:
        """What a broker gets: nothing of the shell but where programs are."""
        home = str(self.folder)
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        return {**kept, "HOME": home, "OPENAB_HOME": f"{home}/home"}

    async def start(self, profile: Path | None = None) -> float:
        """Start the broker; the answer is the seconds until its IDENTIFY. `profile`: where to write one."""
        program = ["benchmarks.profiled", str(profile)] if profile else ["openab"]
        argv = [sys.executable, "-m", *program, "run", "-c", str(self.configure())]
        known = len(self.discord.journal.steps("identify"))
        began = time.monotonic()
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *argv, env=dict(self.environ), stdout=log, stderr=log, cwd=_AGENT.parent.parent
            )
        await self.discord.wait_connected(self.bot, START_SECONDS)
        return self.discord.journal.steps("identify")[known].at - began

    async def stop(self) -> None:
        """End the broker in order, so that a profile is written; by force if that takes too long."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            await self.kill(_STOP_SECONDS)

    async def kill(self, after: float = 0) -> None:
        """End the broker, by force if it has not ended by itself; its agents see their pipes close."""
        if self._process is None or self._process.returncode is not None:
            return
        try:
            await asyncio.wait_for(self._process.wait(), after)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        sessions = self.discord.gateway
        await self.discord.wait_until(lambda: not sessions.of_bot(self.bot.id), _STOP_SECONDS)

    @property
    def broker(self) -> psutil.Process:
        """The broker's process, for its times and its memory."""
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def cpu_seconds(self) -> float:
        """What broker and embedded host have used together; agents are processes of their own."""
        times = self.broker.cpu_times()
        return float(times.user + times.system)

    def memory_mb(self) -> float:
        """The broker's resident memory."""
        return float(self.broker.memory_info().rss) / 1e6

    # ------------------------------------------------------------------ talk

    def order(self, chunks: int = 1, seconds: float = 0.0) -> tuple[str, str]:
        """A tag and the prompt that carries it."""
        self._tags += 1
        tag = f"t{self._tags}"
        # Not at its head, where the broker looks for directives of its own.
        return tag, f"please [[bench={tag}:{chunks}:{seconds}]]"

    async def converse(self, count: int, chunks: int = 1, seconds: float = 0.0) -> None:
        """Open so many conversations by a mention in a channel each; returns when all are prompted.

        No agent streams before the last one is prompted, so that the streams do not hold that up.
        """
        with self._gate.open() as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            tags = [await self._open_conversation(chunks, seconds) for _ in range(count)]
            await self.receipts.wait(tags, START_SECONDS + count)

    async def _open_conversation(self, chunks: int, seconds: float) -> str:
        channel = self.discord.add_channel(f"room-{len(self.threads)}")
        tag, text = self.order(chunks, seconds)
        asked = await self.ann.say(channel.id, f"{self.bot.mention} {text}")
        self.threads.append(asked.id)
        return tag

    async def ask(self, threads: Sequence[str]) -> dict[str, float]:
        """Say something in these conversations at once; the seconds until each agent had read it."""
        said: dict[str, float] = {}
        for thread in threads:
            tag, text = self.order()
            said[tag] = time.monotonic()
            await self.ann.say(thread, text)
        await self.receipts.wait(said, START_SECONDS)
        return {tag: self.receipts.at[tag] - at for tag, at in said.items()}

    async def quiet(self, seconds: float = _QUIET_SECONDS, within: float = 300.0) -> None:
        """Until the bot has asked Discord for nothing for so long, from now on: all answers are out."""
        loop, requests = asyncio.get_running_loop(), self.discord.journal.requests
        # What was said just now has not been answered: the silence before it tells nothing.
        began = loop.time()
        async with asyncio.timeout(within):
            while (due := max(began, requests[-1].at) + seconds) > loop.time():  # noqa: ASYNC110 - silence gives no sign
                await asyncio.sleep(due - loop.time())

    async def settle(self, seconds: float) -> tuple[float, float]:
        """Let it work for so long; returns when that began and ended."""
        began = time.monotonic()
        await asyncio.sleep(seconds)
        return began, time.monotonic()

    def edits(self, since: float = 0.0) -> dict[str, list[Request]]:
        """The edits that were carried out since then, by message."""
        found: dict[str, list[Request]] = {}
        for one in self.discord.journal.select("edit_message"):
            if one.at >= since and one.status == 200:
                found.setdefault(one.path, []).append(one)
        return found

    async def shown(self, count: int) -> None:
        """Until so many placeholders have been edited at least once."""
        seen, edited = 0, set[str]()

        def enough() -> bool:
            nonlocal seen
            requests = self.discord.journal.requests
            edited.update(one.path for one in requests[seen:] if one.route == "edit_message")
            seen = len(requests)
            return len(edited) >= count

        await self.discord.wait_until(enough, START_SECONDS + count)


@asynccontextmanager
async def open_stage(database: str = "") -> AsyncIterator[Stage]:
    """A stage that leaves nothing behind; `database` is an address, by default SQLite in its folder."""
    async with AsyncExitStack() as stack:
        # Short, since a socket's path may have a hundred characters only.
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="openab-bench-"))
        discord = await stack.enter_async_context(LoopbackDiscord())
        stage = Stage(discord, Path(place), database)
        bound = stack.enter_context(datagrams(Path(place) / "receipts"))
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: stage.receipts, sock=bound)
        stack.callback(transport.close)
        stack.push_async_callback(stage.kill)
        yield stage
