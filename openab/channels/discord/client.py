"""The Discord account as the application sees it: log in, stay connected, know whether it hears."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from discord.http import Route

from openab.channels.discord import addressing
from openab.channels.discord.events import Events
from openab.channels.discord.gateway import USUAL_HEARTBEAT_SECONDS, Line
from openab.channels.discord.history import DiscordHistory
from openab.channels.discord.interactions import Answer, Interactions
from openab.channels.discord.joining import Joiner, Wants
from openab.channels.discord.outbound import DiscordChannel
from openab.channels.discord.place_states import DiscordPlaces
from openab.channels.discord.places import Places
from openab.channels.discord.rest import DiscordRest, Identity, TokenRefused
from openab.channels.discord.supervision import Ended, Ending, Pauses, ended
from openab.domain.errors import OpenabError
from openab.domain.ids import PlatformId
from openab.domain.message import InboundMessage, InboundReaction
from openab.ports.channel import ChannelUnreachable
from openab.ports.places import PlaceChanged
from openab.ports.tasks import spawn

_CONNECT_SECONDS = 60.0
_LOOK_SECONDS = 10.0
_DRAIN_SECONDS = 2.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the account hears Discord. `reason` says in words what is the matter, or `connected`."""

    ready: bool
    reason: str
    #: Seconds since the last frame of the gateway; None while there is no connection.
    last_frame_age: float | None
    heartbeat_interval: float
    #: Events that could not be read and messages whose channel could not be found, since the start.
    lost_events: int = 0
    #: IDENTIFYs sent, since the start.
    identifies: int = 0


def _unheard(*_what: object) -> None:
    """Nobody listens."""


def _wants_none(_thread: PlatformId, _parent: PlatformId | None) -> bool:
    """No thread is joined unasked."""
    return False


class DiscordClient:
    """One account. `login`, then `run`; `channel` works after `login` alone; `close` at the end.

    `sink` gets every message in the gateway's order and must only put it somewhere; `answer` decides
    what a command's author reads. `on_connected` is called whenever events flow after some may have
    been missed, `on_missed` when one was told and could not be read for want of an answer,
    `on_identify` for each IDENTIFY, `on_invalid` and `on_skew` as DiscordRest says.
    `on_place` is told, in one order with the messages, when a thread or channel is archived, opened
    again, locked or gone. With `on_reaction` people's reactions are heard, too, in one order with the messages;
    `wants_thread` says which threads are joined unasked.
    """

    def __init__(
        self,
        token: str,
        api_base: str,
        sink: Callable[[InboundMessage], None],
        answer: Answer,
        *,
        pauses: Pauses | None = None,
        on_identify: Callable[[], None] = _unheard,
        on_connected: Callable[[], None] = _unheard,
        on_missed: Callable[[], None] = _unheard,
        on_invalid: Callable[[int], None] = _unheard,
        on_skew: Callable[[float], None] = _unheard,
        on_reaction: Callable[[InboundReaction], None] | None = None,
        on_place: Callable[[PlaceChanged], None] = _unheard,
        wants_thread: Wants = _wants_none,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rest = DiscordRest(
            token, api_base, on_invalid=on_invalid, on_skew=on_skew, clock=clock
        )
        #: Sends; usable as soon as `login` has succeeded.
        self.channel = DiscordChannel(self.rest)
        #: Asks what became of a thread or channel; usable as soon as `login` has succeeded.
        self.places = DiscordPlaces(self.rest)
        self._token = token
        self._sink = sink
        self._answer = answer
        self._pauses = pauses or Pauses()
        self._on_identify = on_identify
        self._on_connected = on_connected
        self._on_missed = on_missed
        self._on_reaction = on_reaction
        self._on_place = on_place
        self._wants_thread = wants_thread
        self._clock = clock
        self._places = Places()
        self._identity: Identity | None = None
        self._history: DiscordHistory | None = None
        self._line: Line | None = None
        self._reason = "not connected yet"
        self._lost_events = 0
        self._identifies = 0
        self._answering: set[asyncio.Task[None]] = set()

    async def login(self, seconds: float = 10.0) -> Identity:
        """Verify the token. Raises TokenRefused, or Transient when Discord cannot be asked now."""
        self._identity = await self.rest.login(seconds)
        self._history = DiscordHistory(
            self.rest, self._identity.account, self._places, on_lost=self._count_lost
        )
        return self._identity

    @property
    def history(self) -> DiscordHistory:
        """What was said while we did not listen; there after `login`, readable while connected."""
        if self._history is None:
            raise ChannelUnreachable("not logged in to Discord")
        return self._history

    async def close(self) -> None:
        """Close the HTTP session; `run` must have ended."""
        await self.rest.close()

    def health(self) -> Health:
        """What is known now; asks nobody."""
        line = self._line
        age = line.frame_age if line else None
        interval = line.heartbeat_seconds if line else USUAL_HEARTBEAT_SECONDS
        silent = age is not None and age > 2 * interval
        ready = line is not None and line.connected and not silent
        reason = f"no frame for {age:.0f} s" if silent else self._reason
        return Health(
            ready=ready,
            reason="connected" if ready else reason,
            last_frame_age=age,
            heartbeat_interval=interval,
            lost_events=self._lost_events,
            identifies=self._identifies,
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Stay connected until `stopping`. Raises TokenRefused; everything else is survived."""
        identity = self._identity or await self.login()
        joiner = Joiner(self.rest, identity.account, self._wants_thread)
        events = self._events(identity, joiner)
        tasks = {
            spawn("discord-pump", events.pump()),
            spawn("discord-joiner", joiner.run()),
        }
        try:
            await self._supervise(events, tasks, stopping)
            # What came before the connection ended does not come again by itself.
            await events.drained(_DRAIN_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            # Not one after the other: the error of one would leave the next to nobody.
            await asyncio.wait(tasks)
            await self._end_answers()

    def _events(self, identity: Identity, joiner: Joiner) -> Events:
        interactions = Interactions(
            self.rest, identity.account, identity.application_id, self._answer, self._places
        )
        return Events(
            self.rest,
            identity.account,
            self._places,
            self._sink,
            history=self.history,
            on_ready=self._on_connected,
            on_interaction=lambda raw: self._serve(interactions, raw),
            on_lost=self._count_lost,
            on_missed=self._on_missed,
            joiner=joiner,
            on_reaction=self._on_reaction,
            on_place=self._on_place,
        )

    async def _supervise(
        self, events: Events, tasks: "set[asyncio.Task[None]]", stopping: asyncio.Event
    ) -> None:
        failures = 0
        while True:
            began = self._clock()
            how = await self._live(events, tasks, stopping)
            if how is None:
                return
            self._reason = how.reason
            if how.ending is Ending.TOKEN_REFUSED:
                log.error("gateway_token_refused")
                raise TokenRefused(how.reason)
            failures = self._pauses.failures(failures, self._clock() - began)
            await self._pause(how, failures, stopping)

    async def _live(
        self, events: Events, tasks: "set[asyncio.Task[None]]", stopping: asyncio.Event
    ) -> Ended | None:
        """One connection from beginning to end; None when it ended because we are stopping."""
        line = self._line = self._new_line(events)
        speaking = spawn("discord-gateway", self._connect(line))
        deaf = spawn("discord-deafness", line.deaf())
        halted = spawn("discord-halt", stopping.wait())
        try:
            await asyncio.wait(
                {speaking, deaf, halted, *tasks}, return_when=asyncio.FIRST_COMPLETED
            )
            for needed in tasks:
                if needed.done():
                    # Only a bug, for instance in `sink`, ends one; deaf is worse than dead.
                    needed.result()
            return None if halted.done() else _how(speaking, deaf)
        finally:
            self._line = None
            for task in (speaking, deaf, halted):
                task.cancel()
            await asyncio.wait({speaking, deaf, halted})
            await line.shut()

    def _new_line(self, events: Events) -> Line:
        return Line(
            events.parsers(),
            on_identify=self._count_identify,
            on_unreadable=self._count_lost,
            identify_pause_seconds=self._pauses.identify_seconds,
            clock=self._clock,
        )

    async def _connect(self, line: Line) -> None:
        async with asyncio.timeout(_CONNECT_SECONDS):
            found = await self.rest.call(Route("GET", "/gateway"), seconds=_LOOK_SECONDS)
            addressing.use_gateway(_address(found))
            await line.login(self._token)
        await line.connect()

    async def _pause(self, how: Ended, failures: int, stopping: asyncio.Event) -> None:
        seconds = self._pauses.after(failures)
        log.warning(
            "gateway_lost",
            reason=how.reason,
            ending=how.ending,
            failures=failures,
            retry_seconds=seconds,
        )
        await _unless(stopping, seconds)
        while how.ending is Ending.INTENTS_REFUSED and not stopping.is_set():
            # Asking costs nothing; an IDENTIFY that is refused again costs one of the day's thousand.
            if await self._allows_content():
                return
            await _unless(stopping, self._pauses.intents_seconds)

    async def _allows_content(self) -> bool:
        try:
            return await self.rest.application_allows_content(_LOOK_SECONDS)
        except OpenabError as error:
            log.warning("intents_not_asked", error=str(error))
            return False

    def _serve(self, interactions: Interactions, raw: Mapping[str, Any]) -> None:
        task = spawn("discord-interaction", interactions.serve(raw))
        self._answering.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: "asyncio.Task[None]") -> None:
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("interaction_unreadable", error=repr(error))
            self._count_lost()

    async def _end_answers(self) -> None:
        for task in self._answering:
            task.cancel()
        if self._answering:
            await asyncio.wait(self._answering)

    def _count_lost(self) -> None:
        self._lost_events += 1

    def _count_identify(self) -> None:
        self._identifies += 1
        self._on_identify()


def _how(speaking: "asyncio.Task[None]", deaf: "asyncio.Task[str]") -> Ended:
    if not speaking.done():
        return Ended(Ending.LOST, deaf.result())
    if speaking.cancelled():
        return Ended(Ending.LOST, "the gateway connection was cancelled")
    return ended(speaking.exception())


def _address(found: Any) -> str:
    if isinstance(found, Mapping) and isinstance(found.get("url"), str):
        return str(found["url"])
    raise ChannelUnreachable("Discord names no gateway address")


async def _unless(stopping: asyncio.Event, seconds: float) -> None:
    """Wait `seconds`, or until stopping."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
