"""Whether a thread or channel is open, archived, locked or gone: told by events, or asked of Discord."""

from collections.abc import Mapping
from typing import Any

import structlog

from openab.channels.discord.inbound import DISCORD
from openab.channels.discord.rest import DiscordRest
from openab.channels.discord.threads import fetch_thread_facts, optional_id
from openab.domain.errors import OpenabError
from openab.domain.ids import AccountId, ConversationRef, PlatformId
from openab.ports.places import PlaceChanged, PlaceState

log = structlog.get_logger()
#: What an answer of another shape than ours raises.
_MISSHAPEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class DiscordPlaces:
    """Fulfils `openab.ports.places.Places`; one request a question."""

    def __init__(self, rest: DiscordRest) -> None:
        self._rest = rest

    async def state(self, conversation: ConversationRef, seconds: float) -> PlaceState:
        """As the port says; what is forbidden to us may well be there."""
        place = conversation.conversation_id
        try:
            facts = await fetch_thread_facts(self._rest, place, seconds)
        except (OpenabError, *_MISSHAPEN) as error:
            log.info("place_not_known", conversation=place, error=str(error))
            return PlaceState.UNKNOWN
        if not facts.exists:
            return PlaceState.GONE
        return _state(archived=facts.archived, locked=facts.locked)


def thread_changed(raw: Mapping[str, Any], account: AccountId) -> PlaceChanged:
    """A raw THREAD_UPDATE. Raises KeyError or TypeError if it has not the shape of one."""
    told = raw["thread_metadata"]
    state = _state(archived=bool(told["archived"]), locked=bool(told.get("locked")))
    return PlaceChanged(_ref(raw, account), state)


def place_deleted(raw: Mapping[str, Any], account: AccountId) -> PlaceChanged:
    """A raw THREAD_DELETE or CHANNEL_DELETE. Raises KeyError if it has not the shape of one."""
    return PlaceChanged(_ref(raw, account), PlaceState.GONE)


def _state(*, archived: bool, locked: bool) -> PlaceState:
    if archived:
        return PlaceState.ARCHIVED
    return PlaceState.LOCKED if locked else PlaceState.OPEN


def _ref(raw: Mapping[str, Any], account: AccountId) -> ConversationRef:
    place = PlatformId(str(raw["id"]))
    # A channel's own parent is a category, which is no conversation.
    is_thread = "thread_metadata" in raw or raw.get("type") in {10, 11, 12}
    parent = optional_id(raw.get("parent_id")) if is_thread else None
    return ConversationRef(DISCORD, account, place, parent)
