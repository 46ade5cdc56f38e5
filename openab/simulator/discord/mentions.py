"""Who a message mentions and notifies under `allowed_mentions` (Discord API documentation)."""

import re
from dataclasses import dataclass, field

from openab.simulator.discord.errors import Json, invalid_form
from openab.simulator.discord.records import SUPPRESS_NOTIFICATIONS, Channel, Message, User
from openab.simulator.discord.world import World

_USER = re.compile(r"<@!?(\d{1,20})>")
_ROLE = re.compile(r"<@&(\d{1,20})>")
_EVERYONE = re.compile(r"@(everyone|here)")
_KINDS = ("users", "roles", "everyone")


@dataclass(frozen=True)
class Allowed:
    """What may be parsed, read from a body's `allowed_mentions`."""

    parse: frozenset[str] = frozenset(_KINDS)
    users: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    replied_user: bool = True


@dataclass(frozen=True)
class Mentions:
    """What a content mentions, once everything not allowed is taken away."""

    user_ids: list[str] = field(default_factory=list)
    role_ids: list[str] = field(default_factory=list)
    everyone: bool = False


def allowed(given: Json | None, *, default: frozenset[str] = frozenset(_KINDS)) -> Allowed:
    """Read `allowed_mentions`; absent means `default` and a pinging reply, present means only it.

    Refused with 50035: unknown words, more than 100 ids, `parse` and a list for the same kind.
    """
    if given is None:
        return Allowed(parse=default)
    parse = frozenset(given.get("parse") or ())
    if unknown := parse - set(_KINDS):
        choices = "('roles', 'users', 'everyone')"
        text = f"Value {sorted(unknown)} must be one of {choices}."
        raise invalid_form("allowed_mentions.parse", "BASE_TYPE_CHOICES", text)
    users, roles = (_listed(given, kind, parse) for kind in ("users", "roles"))
    return Allowed(parse, users, roles, replied_user=bool(given.get("replied_user", False)))


def _listed(given: Json, kind: str, parse: frozenset[str]) -> frozenset[str]:
    ids = [str(item) for item in given.get(kind) or ()]
    if ids and kind in parse:
        text = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
        raise invalid_form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)
    if len(ids) > 100:
        text = "Must be 100 or fewer in length."
        raise invalid_form(f"allowed_mentions.{kind}", "BASE_TYPE_MAX_LENGTH", text)
    return frozenset(ids)


def find(world: World, channel: Channel, author: User, content: str, rule: Allowed) -> Mentions:
    """The mentions in `content` that `rule` lets live.

    Code blocks shelter nothing here: stricter than Discord's clients, so that no test passes
    because a live mention happened to stand in a fence.
    """
    users = [found for found in dict.fromkeys(_USER.findall(content)) if found in world.users]
    roles = list(dict.fromkeys(_ROLE.findall(content)))
    return Mentions(
        [user for user in users if "users" in rule.parse or user in rule.users],
        [role for role in roles if _role_lives(world, channel, author, role, rule)],
        "everyone" in rule.parse
        and bool(_EVERYONE.search(content))
        and _may_mention_all(world, channel, author),
    )


def _may_mention_all(world: World, channel: Channel, author: User) -> bool:
    # A webhook speaks with @everyone's rights.
    return author.webhook or world.may(author.id, channel, "mention_everyone")


def _role_lives(world: World, channel: Channel, author: User, role_id: str, rule: Allowed) -> bool:
    if "roles" not in rule.parse and role_id not in rule.roles:
        return False
    role = world.guilds[channel.guild_id].roles.get(role_id) if channel.guild_id else None
    return role is not None and (role.mentionable or _may_mention_all(world, channel, author))


def pinged(
    world: World, channel: Channel, message: Message, *, reply_pings: bool
) -> frozenset[str]:
    """Who is notified by a new message: nobody if silent, never its author, only who sees it."""
    if message.flags & SUPPRESS_NOTIFICATIONS:
        return frozenset()
    seers = world.everyone(channel)
    targets = set(message.mention_ids)
    if channel.guild_id:
        roles = world.guilds[channel.guild_id].roles
        targets |= {m for role in message.mention_role_ids for m in roles[role].member_ids}
    if message.mention_everyone:
        targets |= seers
    if reply_pings and message.referenced:
        targets.add(message.referenced.author.id)
    return frozenset((targets & seers) - {message.author.id})
