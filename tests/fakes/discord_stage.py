"""The adapter on a loopback Discord, for tests: logged in, or listening in the background."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from openab.channels.discord.client import DiscordClient, Health
from openab.channels.discord.rest import DiscordRest
from openab.channels.discord.supervision import Pauses
from openab.domain.message import InboundCommand, InboundMessage
from openab.domain.outbound import CommandAnswer
from openab.ports.tasks import end, spawn
from openab.simulator.discord import Bot, LoopbackDiscord

#: Short enough for a test, and still a pause.
QUICK = Pauses(first_seconds=0.02, longest_seconds=0.1, identify_seconds=0.02, intents_seconds=0.02)


@asynccontextmanager
async def logged_in(
    discord: LoopbackDiscord, bot: Bot, **options: Any
) -> AsyncIterator[DiscordRest]:
    """HTTP alone, for one bot."""
    rest = DiscordRest(bot.token, discord.api_base, **options)
    try:
        await rest.login()
        yield rest
    finally:
        await rest.close()


class Listener:
    """A client that runs in the background and keeps what it hears."""

    def __init__(
        self,
        discord: LoopbackDiscord,
        bot: Bot,
        pauses: Pauses = QUICK,
        sink: Callable[[InboundMessage], None] | None = None,
        **options: Any,
    ) -> None:
        self.heard: asyncio.Queue[InboundMessage] = asyncio.Queue()
        self.commands: list[InboundCommand] = []
        self.answer: Callable[[InboundCommand], Awaitable[str | CommandAnswer]] = self._stopped
        self.invalid: list[int] = []
        self.connections = 0
        self.missed = 0
        self.client = DiscordClient(
            bot.token,
            discord.api_base,
            sink or self.heard.put_nowait,
            self._answer,
            pauses=pauses,
            on_connected=self._count,
            on_missed=self._count_missed,
            on_invalid=self.invalid.append,
            **options,
        )
        self.stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def health(self) -> Health:
        """What the client says of itself."""
        return self.client.health()

    async def start(self) -> None:
        """Log in and run, without waiting for the gateway."""
        await self.client.login()
        self._running = spawn("listener", self.client.run(self.stopping))

    async def stop(self, *, raises: bool = True) -> None:
        """Stop and close, as the application does; raise what `run` raised, if wanted."""
        self.stopping.set()
        if self._running is not None:
            _, slow = await asyncio.wait({self._running}, timeout=60)
            await end(self._running if slow else None)
        await self.client.close()
        if raises and self._running is not None:
            self._running.result()

    async def ended(self) -> BaseException | None:
        """Wait until `run` has ended by itself; how."""
        assert self._running is not None
        await asyncio.wait({self._running}, timeout=60)
        return self._running.exception()

    async def ready(self) -> None:
        """Wait until it hears."""
        await until(lambda: self.health.ready)

    async def next_message(self, within: float = 60.0) -> InboundMessage:
        """The next message it hears."""
        async with asyncio.timeout(within):
            return await self.heard.get()

    async def _answer(self, command: InboundCommand) -> CommandAnswer:
        self.commands.append(command)
        answer = await self.answer(command)
        return CommandAnswer(answer) if isinstance(answer, str) else answer

    async def _stopped(self, _command: InboundCommand) -> str:
        return "stopped"

    def _count(self) -> None:
        self.connections += 1

    def _count_missed(self) -> None:
        self.missed += 1


@asynccontextmanager
async def listening(
    discord: LoopbackDiscord, bot: Bot, pauses: Pauses = QUICK, **options: Any
) -> AsyncIterator[Listener]:
    """A client of the bot that hears its gateway; stopped at the end."""
    listener = Listener(discord, bot, pauses, **options)
    try:
        await listener.start()
        await listener.ready()
        yield listener
    finally:
        await listener.stop()


async def until(probe: Callable[[], object], within: float = 60.0) -> None:
    """Wait for a state that tells nobody when it changes; TimeoutError after `within`."""
    async with asyncio.timeout(within):
        while not probe():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.005)
