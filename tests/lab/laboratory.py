"""A loopback Discord, one broker that may be ended at any point, people who talk, and what is seen of it."""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from openab.ports.tasks import spawn
from openab.simulator.discord import LoopbackDiscord, drop_before_commit
from tests.lab.brood import ROOT, Brood, Life, Order, open_brood
from tests.lab.invariants import judge
from tests.lab.observation import Observation, prompts_in
from tests.lab.people import ENDED, HELPER, LOOK_SECONDS, People
from tests.lab.rows import Rows
from tests.lab.tripwire import CLAIMS_VARIABLE
from tests.postgres import create_database, drop_database

_AGENT = ROOT / "openab" / "simulator" / "agent.py"
#: So long a process stays stopped (longer than its lease lasts), and Discord cut off.
STOP_SECONDS, CUT_SECONDS = 5.0, 1.0
#: Log lines of a broker that only a mistake in its code brings about.
_MISTAKES = ("broker_failed", "intake_event_failed", "conversation_step_refused")


@dataclass(frozen=True, slots=True)
class Setting:
    """What of a laboratory can be chosen."""

    #: The address of an empty PostgreSQL database with today's schema; "" is SQLite.
    postgres: str = ""
    broken: str = ""
    #: Lines of the configuration's `[discord]`, and further sections.
    discord: str = 'message_processing_mode = "per-thread"\n'
    more: str = ""
    agents: int = 2
    policy: str = "careful"
    lease_seconds: int = 4
    call_seconds: int = 2
    #: Where processes claim the points that an order for a new one strikes at; None: for this laboratory alone.
    claims: Path | None = None


class Laboratory(People):
    """One bot, one broker at a time, Ann, and everything that is recorded for the judges."""

    def __init__(
        self, discord: LoopbackDiscord, brood: Brood, folder: Path, setting: Setting
    ) -> None:
        rows = Rows(setting.postgres or folder / "home" / "openab.db")
        super().__init__(discord, folder, rows)
        self._brood = brood
        self.lives: list[Life] = []
        self._setting = setting
        #: Whether a process that was stopped goes on by itself after a while.
        self.thaws = True
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = folder / "broker.jsonl"
        self.agent_log = folder / "agent.jsonl"
        self._claims = setting.claims or folder / "claims"
        self._claims.mkdir(exist_ok=True)
        brood.on_asked = self._asked
        self._tasks.add(spawn("ann answers", self.answer_questions()))
        self._config = self._configured()

    # ------------------------------------------------------------------ the broker

    def _configured(self) -> Path:
        args = ["-I", "-S", str(_AGENT), "--state-dir", str(self._folder / "sessions")]
        args += ["--log", str(self.agent_log), "--plays", str(self._folder / "plays.json")]
        args += ["--delay", "0.02", "--mode", "config-options"]
        config = self._folder / "config.toml"
        agent = (
            f"command = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n"
            f"working_dir = {json.dumps(str(self._folder))}\n"
        )
        config.write_text(
            f"[discord]\nbot_token = {json.dumps(self.bot.token)}\n"
            f"api_base = {json.dumps(self.discord.api_base)}\n"
            f'allow_user_messages = "involved"\ntrusted_bot_ids = ["{self.luna.id}"]\n'
            f"{self._setting.discord}[discord.thread_bindings]\nspawn_subagent_sessions = true\n"
            f"[agent]\n{agent}[agents.{HELPER}]\n{agent}"
            '[database]\nauto_upgrade = true\n[http]\nlisten = ""\n[reactions]\ntool_display = "none"\nnarration_display = true\n'
            "[reactions.timing]\ndebounce_ms = 50\ndone_hold_ms = 200\nerror_hold_ms = 200\n"
            "[presentation]\nedit_interval_ms = 300\nheartbeat_seconds = 5\n"
            f'[pool]\nmax_sessions = {self._setting.agents}\n[permissions]\nmode = "ask"\n'
            '[workspace]\nper_thread = "folder"\n'
            f"[cluster]\nlease_seconds = {self._setting.lease_seconds}\n"
            f"call_seconds = {self._setting.call_seconds}\ndrain_seconds = 3\n"
            f'[recovery]\npolicy = "{self._setting.policy}"\n{self._setting.more}\n'
        )
        return config

    def environ(self, home: str = "home") -> dict[str, str]:
        """What a broker gets; another home is another machine to it."""
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        own = {"HOME": str(self._folder), "OPENAB_HOME": str(self._folder / home)}
        address = self._setting.postgres or f"sqlite:///{self._folder / 'home' / 'openab.db'}"
        told = {"OPENAB_DATABASE_URL": address, "OPENAB_LOG": "openab=info"}
        return {**kept, **own, **told, CLAIMS_VARIABLE: str(self._claims)}

    async def begin(self, order: Order | None = None, home: str = "home") -> Life:
        """Start the broker; returns at once."""
        argv = ["run", "-c", str(self._config)]
        life = await self._brood.begin(argv, self.environ(home), self._log, order)
        self.lives.append(life)
        self.living = life
        return life

    async def hears(self) -> None:
        """Wait until a first broker has begun to listen."""
        while not await self.rows.hears():  # noqa: ASYNC110 - rows of another process give no sign
            await asyncio.sleep(LOOK_SECONDS)

    async def gone(self, life: Life) -> None:
        """Wait until it has ended, and the network has noticed."""
        await life.ended.wait()
        sessions = self.discord.gateway
        await self.discord.wait_until(lambda: not sessions.of_bot(self.bot.id), 10)

    def _asked(self, life: Life, what: str) -> None:
        acts = {"stopped": self._thaw, "cut-discord": self._cut}
        self._tasks.add(spawn(f"lab {what}", acts[what](life)))

    async def _thaw(self, life: Life) -> None:
        await asyncio.sleep(STOP_SECONDS)
        if self.thaws:
            life.send(signal.SIGCONT)

    async def _cut(self, life: Life) -> None:
        """Discord is out of reach: sockets break, requests are cut before anything is done."""
        rule = self.discord.faults.add(drop_before_commit(), bot_id=self.bot.id, times=-1)
        self.discord.gateway.cut(self.bot.id)
        self.discord.faults.refuse_connections(2, 0)
        life.tell("go")
        await asyncio.sleep(CUT_SECONDS)
        rule.remove()

    # ------------------------------------------------------------------ what is seen

    async def observe(self) -> Observation:
        """Everything, as it stands now."""
        lines = self.agent_log.read_text().splitlines() if self.agent_log.exists() else []
        rows, network = self.rows, self.network
        spawns = await rows.spawns()
        marked = [*(one.message_id for one in self.said), *(one.starter for one in spawns)]
        return Observation(
            said=list(self.said),
            turns=await rows.turns(),
            prompts=prompts_in(lines),
            messages=network.messages(),
            reactions={one: network.faces(one) for one in marked},
            deaths=[life.ended_at for life in self.lives if life.exit_code == -signal.SIGKILL],
            mistakes=self._mistakes(),
            threads=network.threads(),
            spawns=spawns,
            bindings=await rows.bindings(),
            sessions=await rows.sessions(HELPER),
            handoffs=await rows.handoffs(),
            envelopes=network.envelopes(),
        )

    def _mistakes(self) -> list[str]:
        if not self._log.exists():
            return []
        lines = self._log.read_text(errors="replace").splitlines()
        return [line[:2000] for line in lines if any(f'"{word}"' in line for word in _MISTAKES)]

    async def settled(self, seconds: float = 60.0) -> list[str]:
        """Give it so long to come to rest; the violations that are left then."""
        deadline = time.monotonic() + seconds
        while True:
            told = (
                ["deliveries are owed"] if await self.rows.owed() else judge(await self.observe())
            )
            if not told or time.monotonic() > deadline:
                return told and (judge(await self.observe()) or told)
            # The rows of another process give no sign when they change.
            await asyncio.sleep(0.3)

    async def rested(self, seconds: float = 60.0) -> Observation:
        """What is seen once nothing is open and owed any more, or after so long; for one verdict."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            seen = await self.observe()
            taken = {message for turn in seen.turns for message in turn.messages}
            is_over = all(turn.state in ENDED for turn in seen.turns)
            is_taken = {one.message_id for one in seen.said} <= taken
            if is_over and is_taken and not await self.rows.owed():
                break
            # The rows of another process give no sign when they change.
            await asyncio.sleep(LOOK_SECONDS)
        return await self.observe()

    def picture(self) -> str:
        """Each conversation as it stands, for a report."""
        threads = self.network.threads()
        return "\n".join(f"{thread}: {self.discord.picture(thread)}" for thread in threads)

    async def close(self) -> None:
        """End what the laboratory itself has begun."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.rows.close()


@asynccontextmanager
async def open_laboratory(setting: Setting | None = None) -> AsyncIterator[Laboratory]:
    """A laboratory that leaves nothing behind."""
    setting = setting or Setting()
    # Short, since a socket's path may have a hundred characters only.
    with tempfile.TemporaryDirectory(prefix="openab-lab-") as place:
        folder = Path(place)
        async with LoopbackDiscord() as discord, open_brood(folder, setting.broken) as brood:
            discord.limits.enabled = False
            laboratory = Laboratory(discord, brood, folder, setting)
            try:
                yield laboratory
            finally:
                await laboratory.close()


@asynccontextmanager
async def open_rooms(
    setting: Setting, claims: Path, count: int = 3
) -> AsyncIterator[list[Laboratory]]:
    """Laboratories side by side, which claim in one folder; each has a database of its own."""
    async with AsyncExitStack() as stack:
        opened = []
        for n in range(count):
            postgres = setting.postgres
            if n and postgres:
                postgres = await stack.enter_async_context(_another(postgres))
            own = replace(setting, claims=claims, postgres=postgres)
            opened.append(await stack.enter_async_context(open_laboratory(own)))
        yield opened


@asynccontextmanager
async def _another(server: str) -> AsyncIterator[str]:
    """An empty database beside the one at this address."""
    made = await create_database(server)
    try:
        yield made
    finally:
        await drop_database(made, server)
