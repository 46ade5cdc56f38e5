"""Which servers the bot is in, and what it lacks in their text channels; for the doctor and the set-up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discord.http import Route

from openab.channels.discord.access import Access
from openab.channels.discord.permissions import (
    effective_permissions,
    may_make_webhooks,
    may_view,
    missing,
)
from openab.channels.discord.rest import DiscordRest
from openab.domain.ids import AccountId, PlatformId
from openab.ports.channel import ChannelUnreachable

#: A text channel and an announcement channel.
_TEXT_TYPES = frozenset({0, 5})


@dataclass(frozen=True, slots=True)
class GuildAccess:
    """A server, and those of its text channels that the bot sees, in the order people see them."""

    guild: PlatformId
    name: str
    channels: tuple[Access, ...]


async def guild_ids(rest: DiscordRest, seconds: float) -> tuple[PlatformId, ...]:
    """The servers the bot is in, the first 200. Raises as the channel port says."""
    found = await rest.call(Route("GET", "/users/@me/guilds"), seconds=seconds)
    return tuple(PlatformId(str(each["id"])) for each in _checked(found, list))


async def guild_access(
    rest: DiscordRest, account: AccountId, guild_id: PlatformId, seconds: float
) -> GuildAccess:
    """Look at one server; three requests of `seconds` each. Raises as the channel port says."""

    async def get(path: str, kind: type, **ids: str) -> Any:
        route = Route("GET", f"/guilds/{{guild_id}}{path}", guild_id=guild_id, **ids)
        return _checked(await rest.call(route, seconds=seconds), kind)

    guild = await get("", dict)
    member = await get("/members/{user_id}", dict, user_id=account)
    channels = await get("/channels", list)
    texts = [each for each in channels if each.get("type") in _TEXT_TYPES]
    texts.sort(key=lambda each: (int(each.get("position", 0)), int(each["id"])))
    seen = (_access(guild, member, each) for each in texts)
    return GuildAccess(guild_id, str(guild.get("name", "")), tuple(filter(None, seen)))


def _access(
    guild: Mapping[str, Any], member: Mapping[str, Any], channel: Mapping[str, Any]
) -> Access | None:
    granted = effective_permissions(guild, member, channel)
    if not may_view(granted):
        return None
    name = str(channel.get("name", ""))
    return Access(
        PlatformId(str(channel["id"])), name, missing(granted), may_make_webhooks(granted)
    )


def _checked(found: Any, kind: type) -> Any:
    if not isinstance(found, kind):
        raise ChannelUnreachable("Discord's answer cannot be read")
    return found
