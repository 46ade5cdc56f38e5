"""The demo's brokers: real `openab run` processes in a folder of their own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from openab.cli.demo.scripts import Play
from openab.ports.tasks import end, spawn
from openab.simulator import agent
from openab.simulator.discord import Bot, LoopbackDiscord

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_NOTICE_SECONDS = 10.0
_LOOK_SECONDS = 0.1
#: Shorter than the default, so that heartbeats can be seen within a minute.
HEARTBEAT_SECONDS = 3
EDIT_INTERVAL_SECONDS = 1.5


class BrokerEnded(Exception):
    """A broker did not come up, or ended by itself."""


@dataclass(eq=False)
class DemoBroker:
    """One bot, its folder, and the process that serves it now."""

    bot: Bot
    folder: Path
    command: Sequence[str]
    process: asyncio.subprocess.Process | None = None

    @property
    def agent_log(self) -> Path:
        """What its agent received and sent, by the agent's own word."""
        return self.folder / "agent.jsonl"

    @property
    def log(self) -> Path:
        """What the broker logged."""
        return self.folder / "broker.jsonl"

    def prepare(self, api_base: str, trusted: Bot, plays: Sequence[Play]) -> None:
        """Write the files that it reads. It trusts the other bot, whose mentions would wake it."""
        self.folder.mkdir()
        script = self.folder / "plays.json"
        script.write_text(json.dumps(plays), encoding="utf-8")
        # What it is called is what people read in the status line.
        command = self.folder / self.bot.name
        command.symlink_to(sys.executable)
        arguments = [agent.__file__, "--plays", str(script)]
        arguments += ["--state-dir", str(self.folder / "sessions"), "--log", str(self.agent_log)]
        (self.folder / "config.toml").write_text(
            f"""
[discord]
bot_token = {json.dumps(self.bot.token)}
api_base = {json.dumps(api_base)}
allow_user_messages = "involved"
allow_bot_messages = "mentions"
trusted_bot_ids = [{json.dumps(trusted.id)}]

[agent]
command = {json.dumps(str(command))}
args = {json.dumps(arguments)}
working_dir = {json.dumps(str(self.folder))}

[presentation]
edit_interval_ms = {EDIT_INTERVAL_SECONDS * 1000:.0f}
heartbeat_seconds = {HEARTBEAT_SECONDS}

[cluster]
drain_seconds = 1

[http]
listen = ""
""",
            encoding="utf-8",
        )

    async def start(self, discord: LoopbackDiscord) -> None:
        """Start it and wait until it is connected. BrokerEnded if that does not come about."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                *("run", "-c", str(self.folder / "config.toml")),
                env=self._environ(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal is ours alone: brokers are stopped in order.
                start_new_session=True,
            )
        connected = spawn(f"{self.bot.name} connects", self._connected(discord))
        ended = spawn(f"{self.bot.name} ends", self.process.wait())
        try:
            await asyncio.wait({connected, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() or not connected.result():
                raise BrokerEnded(f"{self.bot.name}'s broker did not come up; its log: {self.log}")
            await self._ready()
        finally:
            await end(connected)
            await end(ended)

    async def _connected(self, discord: LoopbackDiscord) -> bool:
        try:
            return await discord.wait_connected(self.bot, _START_SECONDS)
        except TimeoutError:
            return False

    async def _ready(self) -> None:
        """Until its start-up check of the agent is over, which costs a small machine a second."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_NOTICE_SECONDS):
                while '"agent_ready"' not in self.log.read_text(encoding="utf-8"):  # noqa: ASYNC110 - a file gives no signal
                    await asyncio.sleep(_LOOK_SECONDS)

    def _environ(self) -> dict[str, str]:
        """Ours, without whatever would lead it out of the demo's folder."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("OPENAB_")}
        return {**kept, "OPENAB_HOME": str(self.folder.parent / "home")}

    async def kill(self, discord: LoopbackDiscord) -> None:
        """kill -9; returns when the network has noticed, too."""
        if self.process is None:
            raise RuntimeError("it was never started")
        self.process.kill()
        await self.process.wait()
        await discord.wait_until(
            lambda: not discord.gateway.of_bot(self.bot.id), timeout=_NOTICE_SECONDS
        )

    async def stop(self) -> None:
        """SIGTERM; SIGKILL if that takes too long. Nothing to do if it does not run."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
