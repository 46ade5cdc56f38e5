"""Discord threads over HTTP: open one on a message, see what state it is in, take it out of the archive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from discord.http import Route

from openab.channels.discord.bodies import clean
from openab.channels.discord.rest import DiscordRest
from openab.domain.ids import MessageRef, PlatformId
from openab.ports.channel import ChannelRejected, ChannelUnreachable, DeliveryUnknown, Refusal

ONE_DAY_MINUTES = 1440
_LONGEST_TITLE = 100
_FALLBACK_TITLE = "openab"


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """What Discord tells about a thread. One that is forbidden to us is not told as gone."""

    exists: bool
    archived: bool = False
    locked: bool = False
    owner: PlatformId | None = None
    parent: PlatformId | None = None
    #: We are a member of it.
    member: bool = False


async def open_thread(
    rest: DiscordRest,
    trigger: MessageRef,
    title: str,
    seconds: float,
    permit: Callable[[], bool] | None = None,
) -> PlatformId:
    """Open a thread on the message; its id is the message's. Raises as the channel port says."""
    route = Route(
        "POST",
        "/channels/{channel_id}/messages/{message_id}/threads",
        channel_id=trigger.conversation_id,
        message_id=trigger.message_id,
    )
    body = {"name": _name(title), "auto_archive_duration": ONE_DAY_MINUTES}
    answer = await rest.call(route, json_body=body, seconds=seconds, permit=permit)
    return id_of(answer)


async def unarchive(
    rest: DiscordRest,
    thread: PlatformId,
    seconds: float,
    permit: Callable[[], bool] | None = None,
) -> None:
    """Take the thread out of the archive; doing it twice is harmless. LOCKED or FORBIDDEN if it is locked."""
    route = Route("PATCH", "/channels/{channel_id}", channel_id=thread)
    await rest.call(route, json_body={"archived": False}, seconds=seconds, permit=permit)


async def join_thread(rest: DiscordRest, thread: PlatformId, seconds: float) -> None:
    """Become a member; doing it twice is harmless. Raises as the channel port says."""
    route = Route("PUT", "/channels/{channel_id}/thread-members/@me", channel_id=thread)
    await rest.call(route, seconds=seconds)


async def fetch_channel(rest: DiscordRest, channel: PlatformId, seconds: float) -> Any:
    """The raw channel or thread; raises as the channel port says."""
    found = await rest.call(
        Route("GET", "/channels/{channel_id}", channel_id=channel), seconds=seconds
    )
    if not isinstance(found, Mapping):
        raise ChannelUnreachable("Discord tells nothing readable about the channel")
    return found


async def fetch_thread_facts(rest: DiscordRest, thread: PlatformId, seconds: float) -> ThreadFacts:
    """What Discord tells about a thread; only a definite answer that it is gone makes `exists` False."""
    try:
        raw = await fetch_channel(rest, thread, seconds)
    except ChannelRejected as error:
        if error.refusal is Refusal.CONVERSATION_GONE:
            return ThreadFacts(exists=False)
        raise
    metadata = raw.get("thread_metadata") or {}
    return ThreadFacts(
        exists=True,
        archived=bool(metadata.get("archived")),
        locked=bool(metadata.get("locked")),
        owner=optional_id(raw.get("owner_id")),
        parent=optional_id(raw.get("parent_id")),
        member="member" in raw,
    )


def id_of(answer: Any) -> PlatformId:
    """The id of what was made; without one it is made all the same, only not known to us."""
    if isinstance(answer, Mapping) and answer.get("id"):
        return PlatformId(str(answer["id"]))
    raise DeliveryUnknown("Discord did it, but its answer names no id")


def optional_id(value: object) -> PlatformId | None:
    """An id as Discord gives it, or None."""
    return PlatformId(str(value)) if value else None


def _name(title: str) -> str:
    return clean(title).strip()[:_LONGEST_TITLE].strip() or _FALLBACK_TITLE
