"""Raw Discord payloads, translated to what the domain knows (pure)."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from openab.channels.discord.bodies import SUPPRESS_NOTIFICATIONS
from openab.channels.discord.places import PlaceFacts
from openab.channels.discord.threads import optional_id
from openab.domain.ids import AccountId, ChannelName, ConversationRef, PlatformId
from openab.domain.message import (
    Attachment,
    Author,
    AuthorKind,
    CommandKind,
    InboundCommand,
    InboundMessage,
    InboundReaction,
    MessageKind,
)

DISCORD = ChannelName("discord")
_USER = re.compile(r"<@!?(\d{1,20})>")
_ROLE = re.compile(r"<@&(\d{1,20})>")
_KINDS = {0: MessageKind.DEFAULT, 19: MessageKind.REPLY}
_COMMAND = 2
_COMPONENT = 3
_SLASH_COMMANDS = {
    kind.value: kind
    for kind in (
        CommandKind.CANCEL,
        CommandKind.CANCEL_ALL,
        CommandKind.CONTINUE,
        CommandKind.RESET,
        CommandKind.MODELS,
        CommandKind.AGENTS,
        CommandKind.USAGE,
        CommandKind.SESSIONS,
        CommandKind.SPAWN,
        CommandKind.FOCUS,
        CommandKind.UNFOCUS,
        CommandKind.SESSION,
    )
}
_COMPONENTS = {
    "stop": CommandKind.CANCEL,
    "continue": CommandKind.CONTINUE,
    "permit": CommandKind.PERMIT,
    "resend": CommandKind.RESEND,
    "config": CommandKind.CHOOSE,
    "page": CommandKind.PAGE,
}


def inbound_message(
    raw: Mapping[str, Any],
    account: AccountId,
    facts: PlaceFacts,
    *,
    from_history: bool = False,
    managed_roles: frozenset[PlatformId] = frozenset(),
) -> InboundMessage:
    """One raw message. Raises KeyError, TypeError or ValueError if it has not the shape of one."""
    text: str = raw["content"]
    nonce = raw.get("nonce")
    # From the text alone: Discord's own list also names the author of what is replied to.
    users = frozenset(map(PlatformId, _USER.findall(text)))
    return InboundMessage(
        conversation=_conversation(raw["channel_id"], account, facts),
        place=facts.place,
        message_id=PlatformId(str(raw["id"])),
        author=_author(raw["author"], raw, account),
        text=text,
        sent_at=datetime.fromisoformat(raw["timestamp"]),
        kind=_KINDS.get(raw["type"], MessageKind.SYSTEM),
        mentioned_users=users,
        mentioned_roles=frozenset(map(PlatformId, _ROLE.findall(text))),
        mentioned_bots=users & _bots_among(raw.get("mentions", ()), account),
        managed_roles=managed_roles,
        silent=bool(raw.get("flags", 0) & SUPPRESS_NOTIFICATIONS),
        edited=raw.get("edited_timestamp") is not None,
        from_history=from_history,
        nonce=None if nonce is None else str(nonce),
        attachments=tuple(map(_attachment, raw.get("attachments", ()))),
        thread_owner=facts.owner,
    )


def inbound_reaction(
    raw: Mapping[str, Any], account: AccountId, facts: PlaceFacts
) -> InboundReaction:
    """One raw reaction. Raises KeyError, TypeError or ValueError if it has not the shape of one."""
    emoji = raw["emoji"]
    # In a direct message Discord names the reacting person's id alone.
    user = (raw.get("member") or {}).get("user") or {
        "id": raw["user_id"],
        "username": str(raw["user_id"]),
    }
    return InboundReaction(
        conversation=_conversation(raw["channel_id"], account, facts),
        place=facts.place,
        message_id=PlatformId(str(raw["message_id"])),
        author=_author(user, raw, account),
        emoji=str(emoji.get("name") or ""),
        reacted_at=datetime.now(UTC),
        is_custom=emoji.get("id") is not None,
        message_author=optional_id(raw.get("message_author_id")),
        thread_owner=facts.owner,
    )


def managed_roles_of(guild: Mapping[str, Any], account: AccountId) -> frozenset[PlatformId]:
    """The roles of a raw guild that Discord made for this bot."""
    return frozenset(
        PlatformId(str(role["id"]))
        for role in guild.get("roles", ())
        if str((role.get("tags") or {}).get("bot_id")) == account
    )


def inbound_command(
    raw: Mapping[str, Any], account: AccountId, facts: PlaceFacts
) -> InboundCommand | None:
    """One raw interaction, or None for a command or button that we do not know (any more)."""
    asked = _asked(raw)
    if asked is None:
        return None
    kind, argument = asked
    member = raw.get("member")
    return InboundCommand(
        conversation=_conversation(raw["channel_id"], account, facts),
        place=facts.place,
        interaction_id=PlatformId(str(raw["id"])),
        author=_author(member["user"] if member else raw["user"], raw, account),
        kind=kind,
        argument=argument,
        options=_options(raw),
        values=_values(raw),
    )


def _options(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """What was filled in behind a slash command."""
    options = (raw.get("data") or {}).get("options")
    if not isinstance(options, list):
        return {}
    return {str(one.get("name")): str(one["value"]) for one in options if "value" in one}


def _values(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """What was picked from a menu."""
    values = (raw.get("data") or {}).get("values")
    return tuple(map(str, values)) if isinstance(values, list) else ()


def _asked(raw: Mapping[str, Any]) -> tuple[CommandKind, str] | None:
    detail = raw.get("data") or {}
    if raw["type"] == _COMMAND:
        kind = _SLASH_COMMANDS.get(detail.get("name", ""))
        return None if kind is None else (kind, "")
    if raw["type"] != _COMPONENT:
        return None
    owner, _, rest = str(detail.get("custom_id", "")).partition(":")
    name, _, argument = rest.partition(":")
    kind = _COMPONENTS.get(name) if owner == "openab" else None
    return None if kind is None else (kind, argument)


def _bots_among(mentions: Iterable[Any], account: AccountId) -> frozenset[PlatformId]:
    """The other bots among the users that Discord names."""
    bots = (str(user.get("id")) for user in mentions if user.get("bot"))
    return frozenset(PlatformId(bot) for bot in bots if bot != account)


def _conversation(channel_id: Any, account: AccountId, facts: PlaceFacts) -> ConversationRef:
    return ConversationRef(DISCORD, account, PlatformId(str(channel_id)), facts.parent)


def _author(user: Mapping[str, Any], raw: Mapping[str, Any], account: AccountId) -> Author:
    member = raw.get("member") or {}
    name = str(user["username"])
    return Author(
        id=PlatformId(str(user["id"])),
        name=name,
        display_name=member.get("nick") or user.get("global_name") or name,
        kind=_author_kind(user, raw, account),
        role_ids=frozenset(PlatformId(str(role)) for role in member.get("roles", ())),
    )


def _author_kind(user: Mapping[str, Any], raw: Mapping[str, Any], account: AccountId) -> AuthorKind:
    if str(user["id"]) == account:
        return AuthorKind.SELF
    webhook = raw.get("webhook_id")
    # An interaction answer comes through its application's webhook, but the bot itself says it.
    if webhook is not None and str(webhook) != str(raw.get("application_id")):
        return AuthorKind.WEBHOOK
    return AuthorKind.BOT if user.get("bot") else AuthorKind.HUMAN


def _attachment(raw: Mapping[str, Any]) -> Attachment:
    return Attachment(
        name=str(raw["filename"]),
        content_type=str(raw.get("content_type") or ""),
        size=int(raw.get("size", 0)),
        url=str(raw["url"]),
    )
