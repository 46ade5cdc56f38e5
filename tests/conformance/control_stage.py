"""The control plane between fakes: a real database, a recording channel, scripted agents."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy.pool import QueuePool

from openab.control.bot_names import BotNames
from openab.control.commands import Commands
from openab.control.courtesies import Courtesies
from openab.control.dispatcher import Dispatcher
from openab.control.intake import Intake
from openab.control.leases import Leases
from openab.control.pool import AgentPool
from openab.control.services import Services
from openab.control.session_endings import SessionEndings
from openab.control.settings import Settings
from openab.control.stream_log import StreamLog
from openab.domain.agent_events import AgentEvent, Numbered, PromptEnded
from openab.domain.ids import MessageRef, PlatformId, TurnId
from openab.domain.message import Author, CommandKind, InboundCommand, InboundMessage, Place
from openab.ports.feed import Phase, Shown, TurnOpening
from openab.ports.signals import Signals
from openab.ports.tasks import end, spawn
from openab.storage import accounts, conversations, deliveries, turns
from openab.storage.deliveries import Delivery
from openab.storage.engine import Database, DatabaseUnavailable, Transaction, in_transaction
from openab.storage.turns import Turn
from tests.builders import ACCOUNT, CHANNEL, HOME, a_message, a_ref, an_author, some_settings
from tests.fakes.agent import ScriptedAgents
from tests.fakes.channel import RecordingChannel
from tests.fakes.workspaces import RecordedWorkspaces

if TYPE_CHECKING:
    from openab.ports.agent import Agents
    from openab.ports.channel import Channel

Port = TypeVar("Port")


class _Outside:
    """Passes every call on, if no transaction is open around it."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not inspect.ismethod(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            assert not in_transaction(), f"{name} was called inside a transaction"
            return found(*args, **named)

        return call


def outside(port: Port) -> Port:
    """The same port; a call from inside a transaction fails."""
    return cast("Port", _Outside(port))


class AnySignals(Signals):
    """Also wakes whoever waits for something that no single point names."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()

    def tell(self, point: str) -> None:
        super().tell(point)
        self.told.set()


class Feed:
    """Shows nothing, remembers everything."""

    def __init__(self, opening: TurnOpening) -> None:
        self.opening = opening
        self.events: list[AgentEvent] = []
        self.phases: list[Phase] = []
        self.placeholders: list[PlatformId] = []
        self.helpers: list[tuple[str, ...]] = []
        self.left = Shown()
        self.is_closed = False

    def event(self, event: AgentEvent) -> None:
        self.events.append(event)

    def phase(self, phase: Phase, detail: str = "") -> None:
        self.phases.append(phase)

    def placeholder(self, message_id: PlatformId) -> None:
        self.placeholders.append(message_id)

    def sub_agents(self, names: tuple[str, ...]) -> None:
        self.helpers.append(names)

    async def close(self, seconds: float) -> Shown:
        self.is_closed = True
        return self.left


class Feeds:
    """Every feed that was opened."""

    def __init__(self) -> None:
        self.opened: list[Feed] = []
        self.leaves = Shown()

    def open(self, opening: TurnOpening) -> Feed:
        feed = Feed(opening)
        feed.left = self.leaves
        self.opened.append(feed)
        return feed


class StageAgents(ScriptedAgents):
    """Agents whose ends a test can hold back."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def events(self, turn: TurnId, after: int) -> AsyncIterator[Numbered]:
        async for numbered in super().events(turn, after):
            if isinstance(numbered.event, PromptEnded):
                await self.may_end.wait()
            yield numbered


class Clock:
    """A monotonic clock that a test can move on."""

    def __init__(self) -> None:
        self.extra = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.extra


class Stage:
    """One broker's control plane. `database` may be shared with another stage: then it is a replica."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        channel: RecordingChannel | None = None,
        agents: StageAgents | None = None,
    ) -> None:
        self.database = database
        names = BotNames()
        settings = self.settings = replace(settings, bot_name=names.name)
        self.channel = channel or RecordingChannel(account=ACCOUNT)
        self.agents = agents or StageAgents()
        self.signals = AnySignals()
        self.feeds = Feeds()
        self.workspaces = RecordedWorkspaces()
        self.clock = Clock()
        self.told_off: list[MessageRef] = []
        #: The messages of hand-offs that were refused.
        self.turned_down: list[MessageRef] = []
        safe_agents: Agents = outside(self.agents)
        self._safe_channel: Channel = outside(self.channel)
        self.stream_log = StreamLog(database, safe_agents, settings.commit_every, self.signals)
        self.pool = AgentPool(safe_agents, settings.pool, self.clock)
        self.services = Services(
            database=database,
            channel=lambda _permit: self._safe_channel,
            agents=safe_agents,
            feeds=self.feeds,
            stream_log=self.stream_log,
            settings=settings,
            leases=Leases(self.clock, 3600.0),
            clock=self.clock,
            pool=self.pool,
            workspaces=outside(self.workspaces),
            signals=self.signals,
            bot_names=names,
        )
        self.dispatcher = Dispatcher(self.services)
        self.courtesies = Courtesies(self._safe_channel, settings.call)
        self.intake = Intake(
            database,
            settings,
            self.dispatcher.wake,
            self.told_off.append,
            self.signals,
            refuse_handoff=self.turned_down.append,
        )
        self.endings = SessionEndings(self.services)
        self.commands = Commands(
            database,
            settings,
            self.dispatcher.wake,
            safe_agents,
            self.dispatcher.answer_permission,
            self.endings.wake,
        )
        self.stopping = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Begin to work."""
        async with self.database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
        for name, work in {
            "intake": self.intake.run(),
            "stream log": self.stream_log.run(),
            "session endings": self.endings.run(),
            "pool": self.pool.run(),
            "dispatcher": self.dispatcher.run(self.stopping),
        }.items():
            self._tasks[name] = spawn(name, work)

    async def stop(self) -> None:
        """An orderly stop; a bug of any part comes out here."""
        self.stopping.set()
        try:
            await self._tasks["dispatcher"]
        finally:
            await end(self._tasks["intake"])
            await end(self._tasks["pool"])
            await end(self._tasks["stream log"])
            await end(self._tasks["session endings"])
            await self.agents.stop()

    async def kill(self) -> None:
        """The process is gone: nothing is given back and nothing more is written."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.wait(self._tasks.values())
        await self.agents.stop()
        self._tasks = {name: spawn(name, _nothing()) for name in self._tasks}

    # What people do.

    def say(
        self,
        text: str,
        *,
        thread: str | None = None,
        author: Author | None = None,
        mention: bool = True,
    ) -> InboundMessage:
        """Somebody says something, in a thread or in the channel; we are mentioned unless told otherwise."""
        speaker = author or an_author()
        ref = self.channel.say(thread or HOME, text, speaker.id)
        message = a_message(
            f"<@{ACCOUNT}> {text}" if mention else text,
            message_id=ref.message_id,
            ref=a_ref(thread, HOME) if thread else a_ref(),
            place=Place.THREAD if thread else Place.CHANNEL,
            author=speaker,
            mentions=(ACCOUNT,) if mention else (),
        )
        self.intake.put(message)
        return message

    async def press(
        self,
        thread: str,
        argument: str = "",
        *,
        author: Author | None = None,
        kind: CommandKind = CommandKind.CANCEL,
        interaction: str = "9001",
    ) -> str:
        """Somebody uses a slash command or presses a button; returns the text that they are told."""
        command = self.a_command(thread, kind, argument, author=author, interaction=interaction)
        return (await self.commands.answer(command)).text

    def a_command(
        self,
        thread: str,
        kind: CommandKind,
        argument: str = "",
        *,
        values: tuple[str, ...] = (),
        author: Author | None = None,
        interaction: str = "9001",
    ) -> InboundCommand:
        """A slash command, a press or a pick, in a thread."""
        return InboundCommand(
            conversation=a_ref(thread, HOME),
            place=Place.THREAD,
            interaction_id=PlatformId(interaction),
            author=author or an_author(),
            kind=kind,
            argument=argument,
            values=values,
        )

    async def let_it_be_seen(self) -> PlatformId:
        """Let the present run end, but only after its placeholder was on the network."""
        await self.until(self._is_seen)
        self.agents.may_end.set()
        return self.feeds.opened[-1].placeholders[-1]

    async def _is_seen(self) -> bool:
        return bool(self.feeds.opened and self.feeds.opened[-1].placeholders)

    # What a test sees.

    async def until(self, probe: Callable[[], Awaitable[object]], within: float = 60.0) -> None:
        """Wait until `probe` is truthy; it is asked again whenever something was told."""
        async with asyncio.timeout(within):
            while True:
                self.signals.told.clear()
                if await probe():
                    return
                self._raise_bugs()
                await self._something()

    async def _something(self) -> None:
        woken = spawn("told", self.signals.told.wait())
        try:
            # Not everything that ends tells a signal: look again at least this often.
            await asyncio.wait({woken, *self._tasks.values()}, timeout=0.1,
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        finally:
            await end(woken)

    def _raise_bugs(self) -> None:
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                task.result()

    async def turn_of(self, message: InboundMessage) -> Turn | None:
        """The turn that a message became."""
        async with self.database.read() as tx:
            rows = await turns.listed(tx)
            for row in rows:
                if row["trigger_message_id"] == message.message_id:
                    return await turns.get(tx, row["id"])
        return None

    async def settled(self, message: InboundMessage, within: float = 60.0) -> Turn:
        """Wait until the message's turn has its last state, and nothing more is owed for it."""

        async def is_over() -> bool:
            turn = await self.turn_of(message)
            return turn is not None and turn.state.value in _OVER and not await self.owed(turn.id)

        await self.until(is_over, within)
        turn = await self.turn_of(message)
        assert turn is not None
        return turn

    async def owed(self, turn: TurnId) -> list[Delivery]:
        """The rows of a turn that are open."""
        async with self.database.read() as tx:
            rows = await deliveries.of_turn(tx, turn)
        return [row for row in rows if row.state.value in {"pending", "sending", "unknown"}]

    async def rows(self, turn: TurnId) -> list[Delivery]:
        """All rows of a turn."""
        async with self.database.read() as tx:
            return await deliveries.of_turn(tx, turn)

    async def log_of(self, turn: TurnId) -> list[str]:
        """The words of a turn's log."""
        async with self.database.read() as tx:
            return [line["event"] for line in await turns.log_of(tx, turn)]

    async def quiet(self) -> None:
        """Wait until every conversation was given back, and none is about to be claimed again."""

        def is_nothing_held() -> bool:
            # What was claimed a moment ago is neither claimable nor held yet.
            return not self.dispatcher._held and not self.dispatcher._is_claiming

        async def is_quiet() -> bool:
            if not is_nothing_held():
                return False
            async with self.database.read() as tx:
                more = await conversations.is_any_claimable(tx, [ACCOUNT], self.settings.call)
            return not more and is_nothing_held()

        await self.until(is_quiet)


_OVER = {"done", "failed", "cancelled", "interrupted"}


async def _nothing() -> None:
    return


@asynccontextmanager
async def on_stage(
    database: Database, settings: Settings | None = None, **parts: Any
) -> AsyncIterator[Stage]:
    """A stage that works until the block ends."""
    stage = Stage(database, settings or some_settings(), **parts)
    await stage.start()
    try:
        yield stage
    finally:
        await stage.stop()


@asynccontextmanager
async def gone() -> AsyncIterator[Transaction]:
    """In place of a dead process's transactions."""
    raise DatabaseUnavailable("this process is dead")
    yield  # type: ignore[unreachable]


async def killed(stage: Stage) -> None:
    """From this moment on the process writes nothing, not even that it ends."""
    stage.database.transaction = gone  # type: ignore[method-assign]
    stage.database.read = gone  # type: ignore[method-assign]

    async def is_out_of_the_database() -> bool:
        # A cancellation in the middle of a connect would leave the connection to nobody.
        dialect = stage.database._dialect
        pools = [engine.pool for engine in {dialect.reader, dialect.writer}]
        return not any(pool.checkedout() for pool in pools if isinstance(pool, QueuePool))

    await stage.until(is_out_of_the_database)
    await stage.kill()
