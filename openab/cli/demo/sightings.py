"""Everything that people in the loopback Discord can see happen, in order, with its moment."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from openab.simulator.discord import LoopbackDiscord, Message
from openab.simulator.discord.world import Viewer, WorldEvent

#: A live message or a notice: never an answer, and never input for a bot.
PRESENTATION = "-# "
#: What a notice says that belongs to a hand-off, and stays.
_HANDED_OVER = "-# 🤝"
_SYSTEM_TYPES = (18, 21)


class Change(StrEnum):
    """What happened."""

    CREATED = "writes"
    EDITED = "edits"
    DELETED = "deletes"
    REACTED = "reacts"
    UNREACTED = "takes back"
    OPENED = "opens"


@dataclass(frozen=True, slots=True)
class Sighting:
    """One visible change. `content`: the text, the emoji, or the thread's name."""

    at: float
    change: Change
    channel_id: str
    message_id: str
    author_id: str
    content: str

    @property
    def is_text(self) -> bool:
        """Whether a message was written, changed or taken away."""
        return self.change in {Change.CREATED, Change.EDITED, Change.DELETED}


_NAMES = {
    "MESSAGE_CREATE": Change.CREATED,
    "MESSAGE_UPDATE": Change.EDITED,
    "MESSAGE_DELETE": Change.DELETED,
    "MESSAGE_REACTION_ADD": Change.REACTED,
    "MESSAGE_REACTION_REMOVE": Change.UNREACTED,
    "THREAD_CREATE": Change.OPENED,
}


class Watch:
    """Sees the world with one person's eyes from the moment it is made."""

    def __init__(self, discord: LoopbackDiscord, viewer_id: str) -> None:
        self.sightings: list[Sighting] = []
        self._clock = discord.clock
        self._viewer = Viewer(viewer_id)
        self._shown: dict[str, tuple[str, str]] = {}
        self._listeners: list[Callable[[Sighting], None]] = []
        discord.world.subscribe(self._hear)

    def tell(self, listener: Callable[[Sighting], None]) -> None:
        """Call `listener` with every sighting from now on."""
        self._listeners.append(listener)

    def _hear(self, event: WorldEvent) -> None:
        change = _NAMES.get(event.name)
        seen = self._sighting(change, event.render(self._viewer)) if change else None
        if seen is None:
            return
        self.sightings.append(seen)
        for listener in self._listeners:
            listener(seen)

    def _sighting(self, change: Change, body: dict[str, Any]) -> Sighting | None:
        if change in {Change.CREATED, Change.EDITED}:
            return self._message(change, body)
        if change is Change.DELETED:
            author, _ = self._shown.pop(body["id"], ("", ""))
            return self._made(change, body["channel_id"], body["id"], author, "")
        if change is Change.OPENED:
            return self._made(change, body["id"], body["id"], body["owner_id"], body["name"])
        emoji = body["emoji"]["name"]
        return self._made(change, body["channel_id"], body["message_id"], body["user_id"], emoji)

    def _message(self, change: Change, body: dict[str, Any]) -> Sighting | None:
        """None where nothing became visible: a system message, an update that kept the text."""
        author, content = body["author"]["id"], body["content"]
        known = self._shown.get(body["id"])
        if body["type"] in _SYSTEM_TYPES or (known and known[1] == content):
            return None
        self._shown[body["id"]] = (author, content)
        return self._made(change, body["channel_id"], body["id"], author, content)

    def _made(
        self, change: Change, channel_id: str, message_id: str, author_id: str, content: str
    ) -> Sighting:
        now = self._clock.monotonic()
        return Sighting(now, change, channel_id, message_id, author_id, content)


def live_messages(shown: Iterable[Message]) -> list[Message]:
    """The placeholders and notices among messages that must not stay."""
    live = (one for one in shown if one.content.startswith(PRESENTATION))
    return [one for one in live if not one.content.startswith(_HANDED_OVER)]
