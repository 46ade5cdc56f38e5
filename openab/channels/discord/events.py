"""What is done with each gateway event: places are learnt, messages put in order, interactions answered."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from openab.channels.discord.gateway import MISSHAPEN, Parsers
from openab.channels.discord.history import DiscordHistory
from openab.channels.discord.inbound import inbound_message, inbound_reaction
from openab.channels.discord.joining import Joiner
from openab.channels.discord.place_states import place_deleted, thread_changed
from openab.channels.discord.places import DIRECT, PlaceFacts, Places
from openab.channels.discord.rest import DiscordRest
from openab.channels.discord.threads import fetch_channel
from openab.domain.errors import OpenabError, Transient
from openab.domain.ids import AccountId, PlatformId
from openab.domain.message import InboundMessage, InboundReaction
from openab.ports.places import PlaceChanged

#: Seconds to wait before each further look at a channel that could not be read.
_LOOKS = (0.0, 1.0, 3.0)
_LOOK_SECONDS = 5.0

log = structlog.get_logger()

#: Translates a payload; the call of the sink comes after that has gone well.
_Passes = Callable[[Mapping[str, Any], PlaceFacts], Callable[[], None]]


def _nobody_asks(_change: PlaceChanged) -> None:
    """Nobody minds what becomes of places."""


class Events:
    """Turns the events of one account into calls of `sink`, in the gateway's order.

    The parsers only remember and put; `pump`, one task, resolves unknown channels and calls the
    sinks, so a look-up holds up the events behind it instead of letting them overtake. Without
    `on_reaction` reactions are not heard.
    """

    def __init__(
        self,
        rest: DiscordRest,
        account: AccountId,
        places: Places,
        sink: Callable[[InboundMessage], None],
        *,
        history: DiscordHistory,
        on_ready: Callable[[], None],
        on_interaction: Callable[[Mapping[str, Any]], None],
        on_lost: Callable[[], None],
        on_missed: Callable[[], None],
        joiner: Joiner,
        on_reaction: Callable[[InboundReaction], None] | None = None,
        on_place: Callable[[PlaceChanged], None] = _nobody_asks,
    ) -> None:
        self._rest = rest
        self._account = account
        self._places = places
        self._sink = sink
        self._history = history
        self._on_ready = on_ready
        self._on_interaction = on_interaction
        self._on_lost = on_lost
        self._on_missed = on_missed
        self._joiner = joiner
        self._on_reaction = on_reaction
        self._on_place = on_place
        #: Each payload with what is made of it, in wire order.
        self._arrived: asyncio.Queue[tuple[_Passes, Mapping[str, Any]]] = asyncio.Queue()

    def parsers(self) -> Parsers:
        """What each gateway event does.

        MESSAGE_UPDATE is not among them: an edit is never input, and other bots' live messages
        would be most of the traffic. Nor is RESUMED: Discord has told all that was missed before it,
        or refuses to resume, and discord.py identifies anew.
        """
        return {
            "READY": self._begin,
            "MESSAGE_CREATE": self._take_message,
            **self._reaction_parsers(),
            "INTERACTION_CREATE": self._on_interaction,
            "GUILD_CREATE": self._learn_guild,
            "GUILD_DELETE": self._history.forget_guild,
            "THREAD_LIST_SYNC": self._learn_threads,
            **dict.fromkeys(_MADE_OR_CHANGED, self._learn),
            "THREAD_CREATE": self._learn_thread,
            "THREAD_UPDATE": self._change_thread,
            **dict.fromkeys(_DELETED, self._forget),
        }

    def _reaction_parsers(self) -> Parsers:
        on_reaction = self._on_reaction
        if on_reaction is None:
            return {}

        def passes(raw: Mapping[str, Any], facts: PlaceFacts) -> Callable[[], None]:
            reaction = inbound_reaction(raw, self._account, facts)
            return lambda: on_reaction(reaction)

        return {"MESSAGE_REACTION_ADD": lambda raw: self._arrived.put_nowait((passes, raw))}

    async def pump(self) -> None:
        """Pass the events on, one after the other, until cancelled."""
        while True:
            passes, raw = await self._arrived.get()
            try:
                on = passes(raw, await self._facts(raw))
            except (OpenabError, *MISSHAPEN) as error:
                log.exception("event_lost", message_id=str(raw.get("id") or raw.get("message_id")))
                self._on_lost()
                if isinstance(error, Transient):
                    # It could be read if Discord answered: it stays in history.
                    self._on_missed()
            else:
                on()
            self._arrived.task_done()

    async def drained(self, seconds: float) -> None:
        """Wait until all that came is passed on; after `seconds` the rest stays in history."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.join()
        except TimeoutError:
            log.warning("events_not_drained", events=self._arrived.qsize())

    def _pass_message(self, raw: Mapping[str, Any], facts: PlaceFacts) -> Callable[[], None]:
        roles = self._history.roles_of(raw.get("guild_id"))
        message = inbound_message(raw, self._account, facts, managed_roles=roles)
        return lambda: self._sink(message)

    async def _facts(self, raw: Mapping[str, Any]) -> PlaceFacts:
        if raw.get("guild_id") is None:
            return DIRECT
        channel_id = PlatformId(str(raw["channel_id"]))
        # Only threads that were archived when we connected are not known yet.
        return self._places.find(channel_id) or await self._look_up(channel_id)

    async def _look_up(self, channel_id: PlatformId) -> PlaceFacts:
        failure: Transient | None = None
        for pause in _LOOKS:
            await asyncio.sleep(pause)
            try:
                return self._places.learn(
                    await fetch_channel(self._rest, channel_id, _LOOK_SECONDS)
                )
            except Transient as error:
                failure = error
        raise failure or Transient("the channel was not looked up")

    def _take_message(self, raw: Mapping[str, Any]) -> None:
        self._arrived.put_nowait((self._pass_message, raw))
        self._history.note_message(raw)

    def _begin(self, raw: Mapping[str, Any]) -> None:
        self._history.begin(raw)
        self._on_ready()

    def _learn_guild(self, raw: Mapping[str, Any]) -> None:
        self._learn_threads(raw)
        self._history.learn_guild(raw)

    def _learn_threads(self, raw: Mapping[str, Any]) -> None:
        for channel in (*raw.get("channels", ()), *raw.get("threads", ())):
            if isinstance(channel, Mapping):
                self._places.learn(channel)
        self._joiner.see(raw.get("threads", ()), raw.get("members", ()))

    def _learn_thread(self, raw: Mapping[str, Any]) -> None:
        self._learn(raw)
        self._joiner.see((raw,))

    def _change_thread(self, raw: Mapping[str, Any]) -> None:
        self._learn_thread(raw)
        self._pass_place(thread_changed(raw, self._account))

    def _pass_place(self, change: PlaceChanged) -> None:
        """In one order with the messages: what was said before the change was said in the other state."""
        told: Mapping[str, Any] = {"id": change.conversation.conversation_id}
        self._arrived.put_nowait((lambda _raw, _facts: lambda: self._on_place(change), told))

    def _learn(self, raw: Mapping[str, Any]) -> None:
        self._places.learn(raw)
        self._history.learn_room(raw)

    def _forget(self, raw: Mapping[str, Any]) -> None:
        self._places.forget(PlatformId(str(raw["id"])))
        self._history.forget_room(raw)
        self._pass_place(place_deleted(raw, self._account))


_MADE_OR_CHANGED = ("CHANNEL_CREATE", "CHANNEL_UPDATE")
_DELETED = ("CHANNEL_DELETE", "THREAD_DELETE")
