"""Asks Discord what the bot lacks in a channel; for the doctor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discord.http import Route

from openab.channels.discord.permissions import effective_permissions, may_make_webhooks, missing
from openab.channels.discord.places import place_facts
from openab.channels.discord.rest import DiscordRest
from openab.channels.discord.threads import fetch_channel, optional_id
from openab.domain.ids import AccountId, PlatformId
from openab.domain.message import Place
from openab.ports.channel import ChannelUnreachable


@dataclass(frozen=True, slots=True)
class Access:
    """What the bot lacks in one channel, in Discord's own words; empty when all is well."""

    channel: PlatformId
    channel_name: str
    missing: tuple[str, ...]
    #: Sub-agents can be shown under their own names.
    has_personas: bool = True


async def channel_access(
    rest: DiscordRest, account: AccountId, channel: PlatformId, seconds: float
) -> Access:
    """Look at the channel's, the guild's and our own rights; three requests of `seconds` each.

    Raises as the channel port says; FORBIDDEN when not even the channel can be seen.
    """
    raw = await fetch_channel(rest, channel, seconds)
    name, facts, guild_id = str(raw.get("name", "")), place_facts(raw), raw.get("guild_id")
    if guild_id is None:
        return Access(channel, name, ())
    if facts.place is Place.THREAD and (parent := optional_id(raw.get("parent_id"))):
        raw = await fetch_channel(rest, parent, seconds)
    guild = await _fetch(rest, Route("GET", "/guilds/{guild_id}", guild_id=guild_id), seconds)
    member = await _fetch(
        rest,
        Route("GET", "/guilds/{guild_id}/members/{user_id}", guild_id=guild_id, user_id=account),
        seconds,
    )
    granted = effective_permissions(guild, member, raw)
    return Access(channel, name, missing(granted), may_make_webhooks(granted))


async def _fetch(rest: DiscordRest, route: Route, seconds: float) -> Mapping[str, Any]:
    found = await rest.call(route, seconds=seconds)
    if not isinstance(found, Mapping):
        raise ChannelUnreachable("Discord's answer cannot be read")
    return found
