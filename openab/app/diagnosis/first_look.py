"""Who a token is and where it is invited, before there is a configuration."""

from dataclasses import dataclass

from openab.channels.discord.guilds import GuildAccess, guild_access, guild_ids
from openab.channels.discord.rest import DiscordRest, Identity

_CALL_SECONDS = 10.0
#: More servers than that are answered for by `all`.
_MOST_GUILDS = 10


@dataclass(frozen=True, slots=True)
class Looked:
    """The account, and the first servers that it is in."""

    identity: Identity
    guilds: tuple[GuildAccess, ...]


async def first_look(token: str, api_base: str) -> Looked:
    """Verify the token. Raises TokenRefused, or as the channel port says if Discord cannot be asked."""
    rest = DiscordRest(token, api_base)
    try:
        identity = await rest.login(_CALL_SECONDS)
        found = await guild_ids(rest, _CALL_SECONDS)
        guilds = [
            await guild_access(rest, identity.account, guild, _CALL_SECONDS)
            for guild in found[:_MOST_GUILDS]
        ]
        return Looked(identity, tuple(guilds))
    finally:
        await rest.close()
