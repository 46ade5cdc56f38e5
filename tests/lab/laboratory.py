"""A loopback Discord, one broker that may be ended at any point, people who talk, and what is seen of it."""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from openab.ports.tasks import spawn
from openab.simulator.discord import LoopbackDiscord, Message, drop_before_commit, forms
from openab.simulator.discord.people import PendingInteraction
from tests.lab.brood import ROOT, Brood, Life, Order, open_brood
from tests.lab.invariants import judge
from tests.lab.observation import MessageSeen, Observation, Said, prompts_in
from tests.lab.rows import Rows
from tests.lab.tripwire import SPARED_VARIABLE

_AGENT = ROOT / "openab" / "simulator" / "agent.py"
_CONNECT_SECONDS = 60.0
#: So long a process stays stopped (longer than its lease lasts), and Discord cut off.
STOP_SECONDS, CUT_SECONDS = 5.0, 1.0
#: Log lines of a broker that only a mistake in its code brings about.
_MISTAKES = ("broker_failed", "intake_event_failed", "conversation_step_refused")
#: How the questions begin that have buttons: for a permission, and whether to go on.
_QUESTIONS = ("-# 🔐", "-# ❓")
#: How long Ann waits until she presses a button again that still stands.
_PRESS_SECONDS = 0.5
_ENDED = {"done", "failed", "interrupted", "cancelled"}
#: The rows of another process give no sign when they change.
_LOOK_SECONDS = 0.1


class NoPlace(Exception):
    """The thread in which somebody wants to speak was never opened."""


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


@dataclass(eq=False)
class Answers:
    """Which messages are ended, looked up for all who wait in one go."""

    rows: Rows
    seen: dict[str, str] = field(default_factory=dict)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _at: float = 0.0

    async def look(self) -> None:
        """Have them be no older than a moment."""
        async with self._looking:
            wait = self._at + _LOOK_SECONDS - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self.seen = await self.rows.ends()
            self._at = time.monotonic()


class Laboratory:
    """One bot, one broker at a time, Ann, and everything that is recorded for the judges."""

    def __init__(
        self, discord: LoopbackDiscord, brood: Brood, folder: Path, setting: Setting
    ) -> None:
        self.discord, self._brood, self._folder = discord, brood, folder
        self.bot, self.ann = discord.add_bot("sol"), discord.add_person("ann")
        self.rows = Rows(setting.postgres or folder / "home" / "openab.db")
        self.answers = Answers(self.rows)
        self.said: list[Said] = []
        self.lives: list[Life] = []
        self._setting = setting
        #: Whether a process that was stopped goes on by itself after a while.
        self.thaws = True
        self._plays: list[tuple[str, str]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = folder / "broker.jsonl"
        self.agent_log = folder / "agent.jsonl"
        #: The points that an order for a new one leaves alone, one a line.
        self.spared = folder / "spared"
        self.spared.touch()
        brood.on_asked = self._asked
        self._tasks.add(spawn("ann answers", self._answer_questions()))
        self._config = self._configured()
        (folder / "plays.json").write_text("[]")

    # ------------------------------------------------------------------ the broker

    def _configured(self) -> Path:
        args = ["-I", "-S", str(_AGENT), "--state-dir", str(self._folder / "sessions")]
        args += ["--log", str(self.agent_log), "--plays", str(self._folder / "plays.json")]
        args += ["--delay", "0.02", "--mode", "config-options"]
        config = self._folder / "config.toml"
        config.write_text(
            f"[discord]\nbot_token = {json.dumps(self.bot.token)}\n"
            f"api_base = {json.dumps(self.discord.api_base)}\n"
            f'allow_user_messages = "involved"\n{self._setting.discord}'
            f"[agent]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n"
            f"working_dir = {json.dumps(str(self._folder))}\n"
            '[database]\nauto_upgrade = true\n[http]\nlisten = ""\n[reactions]\ntool_display = "none"\nnarration_display = true\n'
            "[reactions.timing]\ndebounce_ms = 50\n"
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
        return {**kept, **own, **told, SPARED_VARIABLE: str(self.spared)}

    async def begin(self, order: Order | None = None, home: str = "home") -> Life:
        """Start the broker; returns at once."""
        argv = ["run", "-c", str(self._config)]
        life = await self._brood.begin(argv, self.environ(home), self._log, order)
        self.lives.append(life)
        return life

    async def connected(self, life: Life) -> bool:
        """Wait until it has a gateway session; False: it died before."""
        waiting = spawn("connected", self._connected())
        dying = spawn("dying", life.ended.wait())
        try:
            await asyncio.wait({waiting, dying}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.done() and not life.ended.is_set()
        finally:
            for task in (waiting, dying):
                task.cancel()
            await asyncio.wait({waiting, dying})

    async def _connected(self) -> None:
        await self.discord.wait_connected(self.bot, _CONNECT_SECONDS)

    async def hears(self) -> None:
        """Wait until a first broker has begun to listen."""
        while not await self.rows.hears():  # noqa: ASYNC110 - rows of another process give no sign
            await asyncio.sleep(_LOOK_SECONDS)

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

    # ------------------------------------------------------------------ people

    def gate(self, name: str) -> Path:
        """A file that is not there yet, for an agent to wait for."""
        return self._folder / f"gate-{name}"

    def script(self, words: int, tag: str, delay: float = 0.0, before: str = "") -> str:
        """Steps that say so many words of this tag, in chunks of ten."""
        chunks = [range(n, min(n + 10, words + 1)) for n in range(1, words + 1, 10)]
        told = ["".join(f"{tag}.{n} " for n in chunk) for chunk in chunks]
        steps = "".join(f"[[say={text}]]" for text in told)
        return f"{before}[[delay={delay or 0.02}]]{steps}"

    async def mention(self, words: int, delay: float = 0.0, before: str = "") -> Message:
        """Ann asks in a channel of its own; the answer opens a thread with the message's id."""
        room = self.discord.add_channel(f"room-{len(self.said)}")
        return await self.say(room.id, words, delay, before, opens_thread=True)

    async def say(
        self,
        place: str,
        words: int,
        delay: float = 0.0,
        before: str = "",
        *,
        opens_thread: bool = False,
    ) -> Message:
        """Ann says something that an agent answers with so many words. Raises NoPlace."""
        await self._place(place)
        tag = f"m{len(self.said) + 1}"
        self.said.append(Said("", tag, ""))
        number = len(self.said) - 1
        self._plays.append((f"tag={tag};", self.script(words, tag, delay, before)))
        made = self._folder / "plays.new"
        made.write_text(json.dumps(self._plays))
        made.rename(self._folder / "plays.json")
        name = f"{self.bot.mention} " if opens_thread else ""
        message = await self.ann.say(place, f"{name}tag={tag}; please")
        self.said[number] = Said(message.id, tag, message.id if opens_thread else place)
        return message

    async def _place(self, place: str) -> None:
        channels = self.discord.world.channels
        try:
            await self.discord.wait_until(lambda: place in channels, _CONNECT_SECONDS)
        except TimeoutError as error:
            raise NoPlace(place) from error

    async def ended(self, message: Message, seconds: float = 60.0) -> bool:
        """Wait until the message's turn has ended; False: it has not in so long."""
        deadline = time.monotonic() + seconds
        while self.answers.seen.get(message.id) not in _ENDED:
            if time.monotonic() > deadline:
                return False
            await self.answers.look()
        return True

    async def shows(self, place: str, holding: str, seconds: float = 20.0) -> Message | None:
        """Wait until a message of the bot shows this text; None: it never did."""
        try:
            return await self.discord.wait_message(
                place,
                lambda one: one.author.id == self.bot.id and holding in one.content,
                seconds,
            )
        except TimeoutError:
            return None

    async def command(self, place: str, name: str) -> PendingInteraction | None:
        """Ann uses a slash command until it is answered, three times at most. Raises NoPlace."""
        await self._place(place)
        for _ in range(3):
            try:
                await self._connected()
                pending = await self.ann.slash(place, name, self.bot)
                await pending.answer()
            except (LookupError, TimeoutError):
                continue
            return pending
        return None

    async def _answer_questions(self) -> None:
        """Ann says yes to every question with buttons, again and again as long as it stands."""
        while True:
            for asked, button in [*self._questions()]:
                # The question may be gone meanwhile. Whoever asked may have died, so nobody waits
                # for an answer: one question that stands for nothing would hold up all the others.
                with suppress(LookupError):
                    await self.ann.click(asked, button)
            await asyncio.sleep(_PRESS_SECONDS)

    def _questions(self) -> Iterator[tuple[Message, str]]:
        for thread in {said.conversation for said in self.said}:
            channel = self.discord.world.channels.get(thread)
            for message in self.discord.messages(thread) if channel else ():
                buttons = forms.buttons(message.components)
                if buttons and message.content.startswith(_QUESTIONS):
                    yield message, str(buttons[0]["custom_id"])

    # ------------------------------------------------------------------ what is seen

    async def observe(self) -> Observation:
        """Everything, as it stands now."""
        lines = self.agent_log.read_text().splitlines() if self.agent_log.exists() else []
        threads = sorted({one.conversation for one in self.said if one.conversation}, key=int)
        return Observation(
            said=[one for one in self.said if one.message_id],
            turns=await self.rows.turns(),
            prompts=prompts_in(lines),
            messages=[one for thread in threads for one in self._shown(thread)],
            reactions={said.message_id: self._faces(said) for said in self.said if said.message_id},
            deaths=[life.ended_at for life in self.lives if life.exit_code == -signal.SIGKILL],
            mistakes=self._mistakes(),
        )

    def _shown(self, thread: str) -> list[MessageSeen]:
        if thread not in self.discord.world.channels:
            return []
        mine = [one for one in self.discord.messages(thread) if one.author.id == self.bot.id]
        return [
            MessageSeen(one.id, thread, one.content, has_buttons=bool(one.components))
            for one in sorted(mine, key=lambda one: int(one.id))
        ]

    def _faces(self, said: Said) -> list[str]:
        for channel in self.discord.world.channels.values():
            if message := channel.messages.get(said.message_id):
                return [face for face, who in message.reactions.items() if self.bot.id in who]
        return []

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
            is_over = all(turn.state in _ENDED for turn in seen.turns)
            is_taken = {one.message_id for one in seen.said} <= taken
            if is_over and is_taken and not await self.rows.owed():
                break
            # The rows of another process give no sign when they change.
            await asyncio.sleep(_LOOK_SECONDS)
        return await self.observe()

    def picture(self) -> str:
        """Each conversation as it stands, for a report."""
        threads = dict.fromkeys(said.conversation for said in self.said)
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
