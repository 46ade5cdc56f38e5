"""The process under test on a stage: a loopback Discord, brokers as processes, agents by script."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from openab.agents.acp.process_tree import OWNER_VARIABLE
from openab.simulator.discord import Bot, LoopbackDiscord, Person
from openab.simulator.discord.records import Message
from tests.acceptance import audit

#: How long a sign is waited for; when it comes, a long deadline has cost nothing.
PATIENCE = 60.0
START_SECONDS = 120.0
_STOP_SECONDS = 120.0
_SEEN = "SELECT 1 FROM inbox WHERE event_key = ? AND account = ?"
_INVOLVED = 'allow_user_messages = "involved"\n'
#: The brokers that several tests share: what they started is not left behind by any one of them.
shared_pids: set[int] = set()


@dataclass
class Broker:
    """One `openab run`; start, stop, kill and start again as you like."""

    bot: Bot
    config: Path
    home: Path
    log_file: Path
    agent_log: Path
    environ: Mapping[str, str]
    argv: Sequence[str]
    discord: LoopbackDiscord
    process: asyncio.subprocess.Process | None = None
    exit_codes: list[int] = field(default_factory=list)

    async def start(self, *, connected: bool = True) -> None:
        """Start it; with `connected` returns once the bot has a gateway session."""
        before = len(self.discord.gateway.of_bot(self.bot.id))
        assert not before, "the former process still has its gateway session"
        with self.log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.argv, "run", "-c", str(self.config), env=dict(self.environ), stderr=log
            )
        if connected:
            await self.discord.wait_connected(self.bot, START_SECONDS)

    async def stop(self) -> int:
        """SIGTERM, and its exit code."""
        return await self._end(signal.SIGTERM)

    def terminate(self) -> None:
        """SIGTERM, without waiting for what comes of it."""
        assert self.process
        self.process.terminate()

    async def kill(self) -> int:
        """SIGKILL; returns when the network has noticed, too."""
        code = await self._end(signal.SIGKILL)
        await self.discord.wait_until(lambda: not self.discord.gateway.of_bot(self.bot.id))
        return code

    def freeze(self) -> None:
        """SIGSTOP."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self.process
        self.process.send_signal(signal.SIGCONT)

    async def exit_code(self, seconds: float = START_SECONDS) -> int:
        """Wait until it ends by itself; after an orderly end nothing that it started lives."""
        assert self.process
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
        self.process = None
        left = await asyncio.to_thread(self.started) if code == 0 else []
        assert not left, f"an orderly stop left these behind: {left}"
        return code

    def started(self) -> list[str]:
        """Every living process that it, or what it started, has started, by the mark they carry."""
        home, left = self.environ["HOME"], []
        for one in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                environ = one.environ()
                owner = environ.get(OWNER_VARIABLE, "").split(":")
                if environ.get("HOME") == home and owner[1:2] == [self.bot.id]:
                    left.append(f"{one.pid} {' '.join(one.cmdline())}")
        return left

    async def _end(self, number: signal.Signals) -> int:
        assert self.process
        self.process.send_signal(number)
        return await self.exit_code(_STOP_SECONDS)

    @property
    def log(self) -> list[dict[str, Any]]:
        """What it logged so far, over all its lives."""
        lines = self.log_file.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def agent_lines(self) -> list[dict[str, Any]]:
        """What its agents received and sent, by their own log."""
        if not self.agent_log.exists():
            return []
        return [json.loads(line) for line in self.agent_log.read_text().splitlines()]

    async def agent_got(self, method: str, seconds: float = PATIENCE) -> None:
        """Wait until an agent's log says that it received this."""
        async with asyncio.timeout(seconds):
            while method not in [_method(line) for line in self.agent_lines]:  # noqa: ASYNC110 - a file of another process
                await asyncio.sleep(0.02)

    async def logged(
        self, event: str, seconds: float = PATIENCE, **fields: object
    ) -> dict[str, Any]:
        """Wait for a log line with this event name and these fields."""
        async with asyncio.timeout(seconds):
            while True:
                for line in self.log:
                    if line["event"] == event and fields.items() <= line.items():
                        return line
                # The log is a file: there is no signal to wait for.
                await asyncio.sleep(0.02)

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.process
        return self.process.pid

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """What its SQLite file says, read from outside."""
        address = f"file:{self.home / 'openab.db'}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as opened:
            opened.row_factory = sqlite3.Row
            return [dict(row) for row in opened.execute(statement, values)]

    def turn(self, trigger: Message) -> dict[str, Any]:
        """The turn of this trigger, as its own account sees it."""
        found = self.rows(
            "SELECT * FROM turns WHERE trigger_message_id = ? AND account = ?",
            trigger.id,
            self.bot.id,
        )
        assert len(found) == 1, f"{len(found)} turns of one trigger"
        return found[0]

    async def has(self, statement: str, *values: object, seconds: float = PATIENCE) -> None:
        """Wait until its SQLite file has such a row."""
        async with asyncio.timeout(seconds):
            while not self.rows(statement, *values):  # noqa: ASYNC110 - a row of another process
                await asyncio.sleep(0.05)

    async def taken_in(self, message: Message, seconds: float = PATIENCE) -> None:
        """Wait until it has committed what becomes of this message."""
        await self.has(_SEEN, message.id, self.bot.id, seconds=seconds)

    async def turn_is(
        self, trigger: Message, state: str, seconds: float = PATIENCE
    ) -> dict[str, Any]:
        """Wait until the trigger's turn has this state."""
        await self.taken_in(trigger)
        async with asyncio.timeout(seconds):
            while True:
                turn = self.turn(trigger)
                if turn["state"] == state:
                    return turn
                # A row of another process: there is no signal to wait for.
                await asyncio.sleep(0.05)

    @property
    def prompts(self) -> list[str]:
        """The prompts its agents received, in order."""
        return [
            json.dumps(line["message"], ensure_ascii=False)
            for line in self.agent_lines
            if line["event"] == "in" and line["message"].get("method") == "session/prompt"
        ]

    @property
    def http_address(self) -> str:
        """Where its pages are served, by its newest log line about it."""
        lines = [line for line in self.log if line["event"] == "http_listening"]
        return str(lines[-1]["address"])

    async def page(self, path: str) -> tuple[int, str]:
        """One of its pages."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.http_address}{path}") as answer,
        ):
            return answer.status, await answer.text()


def _method(line: dict[str, Any]) -> str | None:
    """Which request or notification a line of the agent's log says it received."""
    message = line["message"]
    return message.get("method") if line["event"] == "in" and isinstance(message, dict) else None


class Gate:
    """A place in an agent's script where it waits until the test has seen its sign.

    `step` goes into the script, as often as wanted; a gate that was opened stays open.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.step = f"[[until={path}]]"

    def open(self) -> None:
        """Let whatever waits here, or comes here later, go on."""
        Path(self.path).touch()


class Stage:
    """One guild with a channel, a person and as many bots and brokers as a test wants."""

    def __init__(self, discord: LoopbackDiscord, folder: Path) -> None:
        self.discord = discord
        self.folder = folder
        self.channel = discord.add_channel("general").id
        self.ann = discord.add_person("ann")
        self.brokers: list[Broker] = []
        #: Bots that are served by no broker, and call the API themselves.
        self.foreign: set[str] = set()
        self._gates: list[Gate] = []

    @property
    def people(self) -> set[str]:
        """The ids of every human of this world."""
        users = self.discord.world.users.values()
        return {one.id for one in users if not one.is_bot}

    def room(self, name: str = "room") -> str:
        """Another channel, for a test that wants no neighbours."""
        return self.discord.add_channel(name).id

    def person(self, name: str = "bob") -> Person:
        """Another human."""
        return self.discord.add_person(name)

    def gate(self) -> Gate:
        """A closed gate; `open_gates` opens it at the end if the test did not."""
        made = Gate(self.folder / f"gate-{len(self._gates)}")
        self._gates.append(made)
        return made

    def open_gates(self) -> None:
        """Let every agent go on, so that an orderly stop has nothing to wait for."""
        for gate in self._gates:
            gate.open()

    def broker(
        self,
        name: str = "sol",
        *,
        discord: str = "",
        more: str = "",
        agent_args: Sequence[str] = (),
        agent_command: str | None = None,
        environ: Mapping[str, str] | None = None,
        argv: Sequence[str] = (sys.executable, "-m", "openab"),
        home: Path | None = None,
        bot: Bot | None = None,
    ) -> Broker:
        """A broker with a bot of its own. `discord` adds lines to that section, `more` sections."""
        bot = bot or self.discord.add_bot(name)
        place = self.folder / f"{name}-{len(self.brokers)}"
        place.mkdir()
        (place / "broker.jsonl").touch()
        log = place / "agent.jsonl"
        args = ["-m", "openab.simulator.agent", "--state-dir", str(place / "sessions")]
        args += ["--log", str(log), *agent_args]
        config = place / "config.toml"
        config.write_text(
            f"[discord]\nbot_token = {json.dumps(bot.token)}\n"
            f"api_base = {json.dumps(self.discord.api_base)}\n"
            f"{'' if 'allow_user_messages' in discord else _INVOLVED}{discord}\n"
            f"[agent]\ncommand = {json.dumps(agent_command or sys.executable)}\n"
            f"args = {json.dumps(args if agent_command is None else list(agent_args))}\n"
            f"working_dir = {json.dumps(str(place))}\n{more}\n"
        )
        made = Broker(
            bot=bot,
            config=config,
            home=home or self.folder / "home",
            log_file=place / "broker.jsonl",
            agent_log=log,
            environ={
                **{key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ},
                "HOME": str(self.folder),
                "OPENAB_HOME": str(home or self.folder / "home"),
                "OPENAB_LOG": "openab=debug",
                **(environ or {}),
            },
            argv=argv,
            discord=self.discord,
        )
        self.brokers.append(made)
        return made

    async def ask(self, broker: Broker, text: str, channel: str | None = None) -> Message:
        """Ann mentions the bot with this text."""
        return await self.ann.say(channel or self.channel, f"{broker.bot.mention} {text}")

    async def answer(
        self, thread: str, broker: Broker, holding: str, seconds: float = PATIENCE
    ) -> Message:
        """Wait for a message of the bot that is no presentation message and holds this text."""

        def fits(message: Message) -> bool:
            is_final = not message.content.startswith("-# ")
            return message.author.id == broker.bot.id and is_final and holding in message.content

        return await self.discord.wait_message(thread, fits, seconds)

    async def settled(self, trigger: Message, emoji: str = "🆗", seconds: float = PATIENCE) -> None:
        """Wait until exactly this reaction of a bot stands on the trigger."""
        await self.discord.wait_message(
            trigger.channel_id,
            lambda message: message.id == trigger.id and list(message.reactions) == [emoji],
            seconds,
        )

    def placeholders(self, thread: str) -> list[Message]:
        """The presentation messages that stand in a thread now."""
        return [one for one in self.discord.messages(thread) if one.content.startswith("-# ")]

    async def live(self, thread: str, holding: str, seconds: float = PATIENCE) -> Message:
        """Wait for a presentation message that shows this text."""

        def fits(message: Message) -> bool:
            return message.content.startswith("-# ") and holding in message.content

        return await self.discord.wait_message(thread, fits, seconds)

    async def bare(self, thread: str, seconds: float = PATIENCE) -> None:
        """Wait until no presentation message stands in a thread."""

        def is_bare(shown: list[Message]) -> bool:
            return not any(one.content.startswith("-# ") for one in shown)

        await self.discord.wait_messages(thread, is_bare, seconds)

    def finals(self, thread: str, broker: Broker) -> list[Message]:
        """The bot's messages that stand in a thread now and are no presentation messages."""
        return [
            one
            for one in self.discord.messages(thread)
            if one.author.id == broker.bot.id and not one.content.startswith("-# ")
        ]

    def verify(self) -> None:
        """What holds for every message and every log line, whatever the test was about."""
        audit.check_bodies(self.discord, self.people, self.foreign)
        for broker in self.brokers:
            audit.check_log(broker.log_file.read_text(), broker.bot.token)

    async def close(self) -> None:
        """End every process that still runs."""
        for broker in self.brokers:
            if broker.process and broker.process.returncode is None:
                with suppress(ProcessLookupError):
                    broker.process.send_signal(signal.SIGCONT)
                    broker.process.kill()
                await broker.process.wait()


def broken(promise: str) -> Sequence[str]:
    """What starts a broker that breaks this promise: the control of the tests that prove it."""
    return (sys.executable, str(Path(__file__).with_name("broken_demo_broker.py")), promise)


@asynccontextmanager
async def open_stage(folder: Path) -> AsyncIterator[Stage]:
    """A stage that leaves no process behind, and nothing that must never be said."""
    async with LoopbackDiscord() as discord:
        stage = Stage(discord, folder)
        try:
            yield stage
            stage.verify()
        finally:
            await stage.close()


@asynccontextmanager
async def shared_broker(
    folder: Path, *, discord: str = "", more: str = "", agent_args: Sequence[str] = ()
) -> AsyncIterator[tuple[Stage, Broker]]:
    """A stage with one running broker, for all the tests of a module."""
    async with open_stage(folder) as stage:
        broker = stage.broker(discord=discord, more=more, agent_args=agent_args)
        await broker.start()
        pid = broker.pid
        shared_pids.add(pid)
        try:
            yield stage, broker
            stage.open_gates()
            assert await broker.stop() == 0
        finally:
            shared_pids.discard(pid)
