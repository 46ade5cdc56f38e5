"""What the bot may do in a channel, what it lacks, and the address that invites it with just that (pure)."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

_ADMINISTRATOR = 1 << 3
_VIEW = 1 << 10
_EVERYTHING = (1 << 53) - 1
#: What openab needs, by the names people see in Discord.
NEEDED: Mapping[str, int] = {
    "View Channels": _VIEW,
    "Send Messages": 1 << 11,
    "Send Messages in Threads": 1 << 38,
    "Create Public Threads": 1 << 35,
    "Read Message History": 1 << 16,
    "Add Reactions": 1 << 6,
}
#: What shows sub-agents' tasks under their own names; without it the bot says them itself.
_MANAGE_WEBHOOKS = 1 << 29
_AUTHORIZE = "https://discord.com/oauth2/authorize"


def effective_permissions(
    guild: Mapping[str, Any], member: Mapping[str, Any], channel: Mapping[str, Any]
) -> int:
    """The member's permission bits in the channel, from the raw guild, member and channel.

    For a thread give its parent: threads have no overwrites of their own.
    """
    user_id = str(member["user"]["id"])
    if user_id == str(guild.get("owner_id")):
        return _EVERYTHING
    guild_id = str(guild["id"])
    roles = {str(role) for role in member.get("roles", ())}
    granted = _guild_wide(guild, roles | {guild_id})
    if granted & _ADMINISTRATOR:
        return _EVERYTHING
    overwrites = list(channel.get("permission_overwrites", ()))
    for targets in ({guild_id}, roles - {guild_id}, {user_id}):
        granted = _overwritten(granted, overwrites, targets)
    # Who cannot see a channel can do nothing in it.
    return granted if granted & _VIEW else 0


def missing(permissions: int) -> tuple[str, ...]:
    """The names of what openab needs and has not, in Discord's own words."""
    return tuple(name for name, bit in NEEDED.items() if not permissions & bit)


def may_make_webhooks(permissions: int) -> bool:
    """Whether sub-agents can be shown under their own names."""
    return bool(permissions & _MANAGE_WEBHOOKS)


def may_view(permissions: int) -> bool:
    """Whether the channel can be seen at all."""
    return bool(permissions & _VIEW)


def invite_url(application_id: str) -> str:
    """Where somebody with the right to do so adds the bot to a server, with exactly what it needs."""
    wanted = {
        "client_id": application_id,
        "scope": "bot applications.commands",
        "permissions": str(sum(NEEDED.values())),
    }
    return f"{_AUTHORIZE}?{urlencode(wanted)}"


def _guild_wide(guild: Mapping[str, Any], roles: set[str]) -> int:
    granted = 0
    for role in guild.get("roles", ()):
        if str(role["id"]) in roles:
            granted |= int(role["permissions"])
    return granted


def _overwritten(granted: int, overwrites: Iterable[Mapping[str, Any]], targets: set[str]) -> int:
    """Discord's rule for one storey of overwrites: first everything denied, then everything allowed."""
    denied = allowed = 0
    for overwrite in overwrites:
        if str(overwrite["id"]) in targets:
            denied |= int(overwrite["deny"])
            allowed |= int(overwrite["allow"])
    return (granted & ~denied) | allowed
