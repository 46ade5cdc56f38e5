"""What sort of place each channel id is; Discord's messages do not say it themselves."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openab.channels.discord.threads import optional_id
from openab.domain.ids import PlatformId
from openab.domain.message import Place

_THREAD_TYPES = frozenset({10, 11, 12})
_DIRECT_TYPES = frozenset({1, 3})


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """A channel, thread or direct conversation. `parent` and `owner` are a thread's only."""

    place: Place
    parent: PlatformId | None = None
    owner: PlatformId | None = None


DIRECT = PlaceFacts(Place.DM)


def place_facts(raw: Mapping[str, Any]) -> PlaceFacts:
    """The facts in a raw channel; what has thread metadata is a thread, whatever its type says."""
    if raw.get("thread_metadata") is not None or raw.get("type") in _THREAD_TYPES:
        return PlaceFacts(
            Place.THREAD, optional_id(raw.get("parent_id")), optional_id(raw.get("owner_id"))
        )
    return DIRECT if raw.get("type") in _DIRECT_TYPES else PlaceFacts(Place.CHANNEL)


class Places:
    """The places heard of; the least recently used are forgotten beyond `most`."""

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._known: OrderedDict[PlatformId, PlaceFacts] = OrderedDict()

    def learn(self, raw: Mapping[str, Any]) -> PlaceFacts:
        """Remember a raw channel. A partial one that lacks a thread's owner takes none away."""
        channel_id, facts = PlatformId(str(raw["id"])), place_facts(raw)
        before = self._known.get(channel_id)
        if before is not None and facts.place is before.place:
            facts = PlaceFacts(
                facts.place, facts.parent or before.parent, facts.owner or before.owner
            )
        self._known[channel_id] = facts
        self._known.move_to_end(channel_id)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return facts

    def find(self, channel_id: PlatformId) -> PlaceFacts | None:
        """The facts, if they are known."""
        facts = self._known.get(channel_id)
        if facts is not None:
            self._known.move_to_end(channel_id)
        return facts

    def forget(self, channel_id: PlatformId) -> None:
        """The channel is gone."""
        self._known.pop(channel_id, None)
