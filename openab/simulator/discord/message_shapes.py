"""JSON shapes of messages, reactions and files (Discord API documentation; observed, discord.py 2.7.1)."""

from typing import Any

from openab.simulator.discord import shapes
from openab.simulator.discord.errors import Json
from openab.simulator.discord.records import HAS_THREAD, Attachment, Message
from openab.simulator.discord.world import Viewer, World


def attachment(file: Attachment) -> Json:
    """A file; its address serves its bytes."""
    return {
        "id": file.id,
        "filename": file.filename,
        "size": len(file.content),
        "content_type": file.content_type,
        "url": file.url,
        "proxy_url": file.url,
    }


def emoji(written: str) -> Json:
    """An emoji from the form used in addresses: a character, or `name:id`."""
    name, _, identity = written.partition(":")
    return {"id": identity or None, "name": name}


def may_read(message: Message, viewer: Viewer, *, is_dm: bool) -> bool:
    """Without the intent only own messages, DMs and messages that mention us have content."""
    mentioned = viewer.user_id in message.mention_ids
    return viewer.sees_content or is_dm or mentioned or message.author.id == viewer.user_id


def message(world: World, found: Message, viewer: Viewer, *, nested: bool = False) -> Json:
    """A message as `viewer` gets it over REST; nested ones carry no reference of their own."""
    home = world.channels[found.channel_id]
    readable = may_read(found, viewer, is_dm=home.is_dm)
    shape: Json = {
        "id": found.id,
        "channel_id": found.channel_id,
        "type": found.type,
        "author": shapes.user(found.author),
        "timestamp": found.created_at.isoformat(),
        "edited_timestamp": found.edited_at.isoformat() if found.edited_at else None,
        "flags": found.flags,
        "tts": False,
        "pinned": False,
        "mention_everyone": found.mention_everyone,
        "mentions": [shapes.user(world.users[one]) for one in found.mention_ids],
        "mention_roles": list(found.mention_role_ids),
        "content": found.content if readable else "",
        "embeds": list(found.embeds) if readable else [],
        "components": list(found.components) if readable else [],
        "attachments": [attachment(file) for file in found.attachments] if readable else [],
        "reactions": reactions(found, viewer),
    }
    shape |= _origin(found)
    if found.reference and not nested:
        shape |= _reference(world, found, viewer)
    if found.flags & HAS_THREAD and found.id in world.channels:
        shape["thread"] = shapes.channel(world, world.channels[found.id], viewer)
    return shape


def _origin(found: Message) -> Json:
    parts: dict[str, Any] = {
        "webhook_id": found.webhook_id,
        "application_id": found.application_id,
        "interaction_metadata": found.interaction,
    }
    return {key: value for key, value in parts.items() if value is not None}


def _reference(world: World, found: Message, viewer: Viewer) -> Json:
    target = found.referenced
    gone = target is None or target.deleted
    return {
        "message_reference": found.reference,
        "referenced_message": None
        if gone or target is None
        else message(world, target, viewer, nested=True),
    }


def reactions(found: Message, viewer: Viewer) -> list[Json]:
    """Reaction counts; each needs `me` (observed, discord.py 2.7.1)."""
    return [
        {
            "emoji": emoji(written),
            "count": len(users),
            "count_details": {"burst": 0, "normal": len(users)},
            "me": viewer.user_id in users,
            "me_burst": False,
            "burst_colors": [],
        }
        for written, users in found.reactions.items()
    ]


def gateway_message(world: World, found: Message, viewer: Viewer, *, with_nonce: bool) -> Json:
    """A message as MESSAGE_CREATE and MESSAGE_UPDATE carry it; the author's own echo has the nonce."""
    shape = message(world, found, viewer)
    home = world.channels[found.channel_id]
    if home.guild_id:
        shape["guild_id"] = home.guild_id
        if not found.author.webhook:
            shape["member"] = shapes.member(world.guilds[home.guild_id], found.author)
    if with_nonce and found.nonce is not None and found.author.id == viewer.user_id:
        shape["nonce"] = found.nonce
    return shape
