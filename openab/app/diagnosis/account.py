"""Is the bot's account in order: token, intents, rights in its channels, clock, other processes."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from openab.app.account_lock import AccountLock, AccountTaken
from openab.app.diagnosis.report import Found, failure, warning, well
from openab.app.values import DISCORD
from openab.channels.discord.access import Access, channel_access
from openab.channels.discord.guilds import guild_access, guild_ids
from openab.channels.discord.permissions import invite_url
from openab.channels.discord.rest import DiscordRest, Identity, TokenRefused
from openab.config.discord import Discord
from openab.domain.errors import OpenabError
from openab.domain.ids import AccountId, PlatformId
from openab.storage.trouble import of_os

_CALL_SECONDS = 10.0
_MOST_SKEW_SECONDS = 5.0
#: More would take minutes, and say the same.
_MOST_GUILDS, _MOST_CHANNELS = 10, 100


def portal(application: PlatformId) -> str:
    """The page where the privileged intents are switched on."""
    return f"https://discord.com/developers/applications/{application}/bot"


async def account(discord: Discord, home: Path) -> AsyncIterator[Found]:
    """Everything that Discord can tell, one line each."""
    skews: list[float] = []
    rest = DiscordRest(discord.bot_token.reveal(), discord.api_base, on_skew=skews.append)
    try:
        identity = await rest.login(_CALL_SECONDS)
    except TokenRefused:
        told = "Discord does not accept the token"
        yield failure("token", told, "reset it in the developer portal, and put the new one in")
        return
    except OpenabError as error:
        told = f"{discord.api_base} cannot be asked: {error}"
        yield failure("Discord", told, "look at the network, a proxy, and [discord].api_base")
        return
    else:
        yield well("token", f"it is {identity.name} ({identity.account})")
        yield _content(identity)
        async for found in _rights(
            rest, identity, discord.channels, has_sub_agents=_has_sub_agents(discord)
        ):
            yield found
        yield _clock(skews)
        yield _served_already(home, identity)
    finally:
        await rest.close()


def everybody(discord: Discord) -> Iterator[Found]:
    """Lists that let everybody in, which should be meant."""
    if discord.users is None:
        told = "everybody in its channels may give the agent work"
        yield warning("people", told, "list their ids in [discord].allowed_users")
    elif discord.users:
        yield well("people", f"{len(discord.users)} may give the agent work")
    if discord.channels is None:
        told = "it listens in every channel that it sees"
        yield warning("channels", told, "list the ids in [discord].allowed_channels")


def _content(identity: Identity) -> Found:
    if identity.message_content:
        return well("message content", "the intent is switched on")
    told = "the Message Content Intent is off, so the gateway refuses the bot (4014)"
    remedy = f"switch it on at {portal(identity.application_id)}"
    return failure("message content", told, remedy)


def _has_sub_agents(discord: Discord) -> bool:
    bindings = discord.thread_bindings
    return bindings.enabled and bindings.spawn_subagent_sessions


async def _rights(
    rest: DiscordRest,
    identity: Identity,
    channels: frozenset[PlatformId] | None,
    *,
    has_sub_agents: bool,
) -> AsyncIterator[Found]:
    if channels is None:
        async for found in _everywhere(rest, identity, has_sub_agents=has_sub_agents):
            yield found
        return
    for channel in sorted(channels, key=int)[:_MOST_CHANNELS]:
        for found in await _listed(rest, identity, channel, has_sub_agents=has_sub_agents):
            yield found
    if len(channels) > _MOST_CHANNELS:
        yield _not_all(len(channels) - _MOST_CHANNELS, "channels")


async def _listed(
    rest: DiscordRest,
    identity: Identity,
    channel: PlatformId,
    *,
    has_sub_agents: bool,
) -> list[Found]:
    try:
        access = await channel_access(rest, identity.account, channel, _CALL_SECONDS)
    except OpenabError as error:
        remedy = f"invite the bot there, or correct the id: {invite_url(identity.application_id)}"
        return [failure("permissions", f"channel {channel} cannot be seen: {error}", remedy)]
    faceless = [access] if has_sub_agents and not access.has_personas else []
    return [_permitted(access), *map(_faceless, faceless)]


async def _everywhere(
    rest: DiscordRest,
    identity: Identity,
    *,
    has_sub_agents: bool,
) -> AsyncIterator[Found]:
    try:
        guilds = await guild_ids(rest, _CALL_SECONDS)
    except OpenabError as error:
        yield failure("permissions", f"its servers cannot be told: {error}", "try again")
        return
    if not guilds:
        remedy = f"invite it: {invite_url(identity.application_id)}"
        yield failure("permissions", "the bot is in no server", remedy)
    for guild in guilds[:_MOST_GUILDS]:
        for found in await _guild(rest, identity.account, guild, has_sub_agents=has_sub_agents):
            yield found
    if len(guilds) > _MOST_GUILDS:
        yield _not_all(len(guilds) - _MOST_GUILDS, "servers")


async def _guild(
    rest: DiscordRest,
    account: AccountId,
    guild: PlatformId,
    *,
    has_sub_agents: bool,
) -> list[Found]:
    try:
        seen = await guild_access(rest, account, guild, _CALL_SECONDS)
    except OpenabError as error:
        return [failure("permissions", f"server {guild} cannot be looked at: {error}", "try again")]
    if not seen.channels:
        remedy = "give the bot's role View Channels where it should answer"
        return [failure("permissions", f"{seen.name}: the bot sees no text channel", remedy)]
    lacking = [each for each in seen.channels if each.missing]
    faceless = [each for each in seen.channels if has_sub_agents and not each.has_personas]
    told_faceless = [_faceless(each) for each in faceless[:_MOST_CHANNELS]]
    if not lacking:
        count = len(seen.channels)
        told = f"{seen.name}: all, in {count} channel{'' if count == 1 else 's'}"
        return [well("permissions", told), *told_faceless]
    return [*(_lacking(each, warning) for each in lacking[:_MOST_CHANNELS]), *told_faceless]


def _permitted(access: Access) -> Found:
    if access.missing:
        return _lacking(access, failure)
    return well("permissions", f"#{access.channel_name} ({access.channel}): all")


def _faceless(access: Access) -> Found:
    told = f"#{access.channel_name} ({access.channel}): the bot itself shows sub-agents' tasks"
    return warning("personas", told, "grant it Manage Webhooks to show them under their own names")


def _lacking(access: Access, level: Callable[[str, str, str], Found]) -> Found:
    told = f"#{access.channel_name} ({access.channel}) lacks {', '.join(access.missing)}"
    return level("permissions", told, "grant it to the bot's role, there or in the whole server")


def _not_all(count: int, noun: str) -> Found:
    return warning("permissions", f"{count} more {noun} were not looked at", "list fewer")


def _clock(skews: list[float]) -> Found:
    if not skews:
        return warning("clock", "Discord's answers carry no date to compare with", "use NTP")
    # Whole seconds and the way to Discord count in; the smallest is the nearest to the truth.
    skew = min(skews, key=abs)
    if abs(skew) <= _MOST_SKEW_SECONDS:
        return well("clock", f"within {_MOST_SKEW_SECONDS:.0f} s of Discord's")
    told = f"{abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} Discord's: no hand-offs"
    return warning("clock", told, "set this machine's clock by NTP")


def _served_already(home: Path, identity: Identity) -> Found:
    part, folder = "other processes", home / "locks"
    if folder.is_dir():
        try:
            with AccountLock(folder, DISCORD, identity.account):
                return well(part, "none on this machine serves the account")
        except AccountTaken as taken:
            return well(part, f"{taken}: a second openab run would end at once")
        except OSError as error:
            return failure(part, f"{folder}: {error.strerror}", of_os(error.errno).remedy)
    return well(part, "none on this machine serves the account")
