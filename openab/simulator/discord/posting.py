"""Rules for messages: create, edit, delete, react (Discord API documentation)."""

from dataclasses import dataclass, field

from openab.simulator.discord import happenings, mentions, threads
from openab.simulator.discord.errors import Json, invalid_form, refused
from openab.simulator.discord.records import (
    COMPONENTS_V2,
    DEFAULT_MESSAGE,
    DM_CHANNEL,
    EPHEMERAL,
    LOADING,
    REPLY,
    SUPPRESS_EMBEDS,
    SUPPRESS_NOTIFICATIONS,
    Attachment,
    Channel,
    Edit,
    Message,
    User,
)
from openab.simulator.discord.world import World

#: Code points, create and edit (staff, discord-api-docs#1315).
MAX_CONTENT = 2000
_SETTABLE_FLAGS = SUPPRESS_EMBEDS | SUPPRESS_NOTIFICATIONS | COMPONENTS_V2
#: Interactions and webhooks parse users only unless told otherwise.
USERS_ONLY = frozenset({"users"})
_ALL_KINDS = frozenset({"users", "roles", "everyone"})


@dataclass
class Draft:
    """What somebody wants to post; `default_parse` holds when `allowed_mentions` is absent."""

    content: str = ""
    flags: int = 0
    nonce: str | int | None = None
    allowed_mentions: Json | None = None
    reference: Json | None = None
    components: list[Json] = field(default_factory=list)
    embeds: list[Json] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    default_parse: frozenset[str] = _ALL_KINDS
    type: int = DEFAULT_MESSAGE
    webhook_id: str | None = None
    application_id: str | None = None
    interaction: Json | None = None
    ephemeral_for: str | None = None
    is_loading: bool = False


def trimmed(content: str) -> str:
    """The content as Discord keeps it: without white space at its ends, at most 2000 code points."""
    if len(content) > MAX_CONTENT:
        # Over 4000 the text names 4000 (discord-api-docs#2941).
        limit = 4000 if len(content) > 4000 else MAX_CONTENT
        text = f"Must be {limit} or fewer in length."
        raise invalid_form("content", "BASE_TYPE_MAX_LENGTH", text)
    return content.strip()


def create(world: World, channel: Channel, author: User, draft: Draft) -> Message:
    """Post a message: checks its form, un-archives its thread, computes pings, tells everybody."""
    content = trimmed(draft.content)
    rule = mentions.allowed(draft.allowed_mentions, default=draft.default_parse)
    _not_empty(content, draft)
    reference, target = _reference(world, channel, author, draft.reference)
    threads.wake(world, channel, author)
    found = mentions.find(world, channel, author, content, rule)
    reply_pings = target is not None and rule.replied_user
    message = Message(
        id=world.snowflakes.next(),
        channel_id=channel.id,
        author=author,
        content=content,
        created_at=world.clock.wall(),
        type=REPLY if target else draft.type,
        flags=_flags(draft),
        nonce=draft.nonce,
        allowed_mentions=draft.allowed_mentions,
        mention_ids=_mention_ids(found.user_ids, target if reply_pings else None),
        mention_role_ids=found.role_ids,
        mention_everyone=found.everyone,
        reference=reference,
        referenced=target,
        components=draft.components,
        embeds=draft.embeds,
        attachments=draft.attachments,
        webhook_id=draft.webhook_id,
        application_id=draft.application_id,
        interaction=draft.interaction,
        ephemeral_for=draft.ephemeral_for,
    )
    message.pings = mentions.pinged(world, channel, message, reply_pings=reply_pings)
    if not draft.is_loading:
        message.edits.append(Edit(content, message.created_at))
    _enter(world, channel, message)
    return message


def _mention_ids(user_ids: list[str], replied: Message | None) -> list[str]:
    return list(dict.fromkeys([*user_ids, *([replied.author.id] if replied else [])]))


def _flags(draft: Draft) -> int:
    flags = draft.flags & _SETTABLE_FLAGS
    flags |= EPHEMERAL if draft.ephemeral_for else 0
    return flags | (LOADING if draft.is_loading else 0)


def _not_empty(content: str, draft: Draft) -> None:
    if draft.is_loading or content or draft.embeds or draft.attachments:
        return
    if not (draft.components and draft.flags & COMPONENTS_V2):
        raise refused(50006)


def _reference(
    world: World, channel: Channel, author: User, given: Json | None
) -> tuple[Json | None, Message | None]:
    """The reply's target in this channel; a missing one is dropped only if the author said so."""
    if not given:
        return None, None
    if str(given.get("channel_id") or channel.id) != channel.id:
        text = "Cannot reply to a message in a different channel"
        raise invalid_form("message_reference", "REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL", text)
    if not world.may(author.id, channel, "read_message_history"):
        raise refused(160002)
    target = channel.messages.get(str(given["message_id"]))
    if target is None or target.deleted:
        if given.get("fail_if_not_exists", True):
            raise invalid_form("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return None, None
    if target.is_system:
        text = "Cannot reply to a system message"
        raise invalid_form("message_reference", "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", text)
    written: Json = {"type": 0, "channel_id": channel.id, "message_id": target.id}
    if channel.guild_id:
        written["guild_id"] = channel.guild_id
    return written, target


def _enter(world: World, channel: Channel, message: Message) -> None:
    for file in message.attachments:
        file.url = f"{world.cdn}/attachments/{channel.id}/{file.id}/{file.filename}"
        world.attachments[file.id] = file
    if message.ephemeral_for:
        world.ephemerals[message.id] = message
        world.changed.notify()
        return
    channel.messages[message.id] = message
    channel.last_message_id = message.id
    if channel.thread:
        channel.thread.total_sent += 1
        threads.join_by_message(world, channel, message)
    happenings.message_created(world, message)


def edit(world: World, message: Message, changes: Json) -> None:
    """Change what `changes` names; rebuilds mentions under its own `allowed_mentions`.

    Nobody is notified: `pings` stays what it was. Flags other than SUPPRESS_EMBEDS stay, too.
    """
    channel = world.channels[message.channel_id]
    if channel.thread and channel.thread.archived:
        raise refused(50083)
    content = trimmed(changes["content"] or "") if "content" in changes else message.content
    rule = mentions.allowed(changes.get("allowed_mentions"))
    embeds = changes.get("embeds") or [] if "embeds" in changes else message.embeds
    _stays_something(message, content, embeds, changes)
    message.components = list(changes.get("components", message.components) or [])
    message.embeds = embeds
    if "flags" in changes:
        kept = message.flags & ~SUPPRESS_EMBEDS
        message.flags = kept | (int(changes["flags"] or 0) & SUPPRESS_EMBEDS)
    if "content" in changes:
        _rewrite(world, message, content, rule)
    _tell_update(world, message)


def _stays_something(message: Message, content: str, embeds: list[Json], changes: Json) -> None:
    components = changes.get("components", message.components)
    v2 = components and message.flags & COMPONENTS_V2
    if not (content or embeds or message.attachments or v2):
        raise refused(50006)


def _rewrite(world: World, message: Message, content: str, rule: mentions.Allowed) -> None:
    channel = world.channels[message.channel_id]
    found = mentions.find(world, channel, message.author, content, rule)
    replied = message.referenced if rule.replied_user else None
    message.mention_ids = _mention_ids(found.user_ids, replied)
    message.mention_role_ids, message.mention_everyone = found.role_ids, found.everyone
    now = world.clock.wall()
    message.content = content
    message.edits.append(Edit(content, now))
    # The first filling of a deferred answer is no edit to people.
    message.edited_at = message.edited_at if message.flags & LOADING else now
    message.flags &= ~LOADING


def _tell_update(world: World, message: Message) -> None:
    if message.ephemeral_for:
        world.changed.notify()
        return
    happenings.message_updated(world, message)


def delete(world: World, message: Message) -> None:
    """Remove a message, in an archived thread, too; it stays in the record, marked."""
    message.deleted = True
    world.ephemerals.pop(message.id, None)
    if message.ephemeral_for:
        world.changed.notify()
        return
    happenings.message_deleted(world, message)


def react(world: World, message: Message, user_id: str, emoji: str) -> None:
    """Add one reaction; a second time is done already. Twenty different ones are the most."""
    _may_change_reactions(world, message)
    if emoji.isascii() and ":" not in emoji:
        raise refused(10014)
    users = message.reactions.get(emoji)
    if users is None and len(message.reactions) >= 20:
        raise refused(30010)
    if users and user_id in users:
        return
    message.reactions.setdefault(emoji, []).append(user_id)
    happenings.reacted(world, "MESSAGE_REACTION_ADD", message, user_id, emoji)


def unreact(world: World, message: Message, user_id: str, emoji: str) -> None:
    """Take one reaction away; none there is 10014."""
    _may_change_reactions(world, message)
    users = message.reactions.get(emoji, [])
    if user_id not in users:
        raise refused(10014)
    users.remove(user_id)
    if not users:
        del message.reactions[emoji]
    happenings.reacted(world, "MESSAGE_REACTION_REMOVE", message, user_id, emoji)


def _may_change_reactions(world: World, message: Message) -> None:
    channel = world.channels[message.channel_id]
    if channel.thread and channel.thread.archived:
        raise refused(50083)


def open_dm(world: World, first: str, second: str) -> Channel:
    """The direct conversation of two users, made when there is none."""
    pair = {first, second}
    for channel in world.channels.values():
        if channel.is_dm and set(channel.recipient_ids) == pair:
            return channel
    channel = Channel(world.snowflakes.next(), DM_CHANNEL, "", recipient_ids=[first, second])
    world.channels[channel.id] = channel
    return channel
