"""Tells the world's listeners what happened, as gateway events (Discord API documentation)."""

from openab.simulator.discord import message_shapes, shapes
from openab.simulator.discord.errors import Json
from openab.simulator.discord.records import Channel, Message
from openab.simulator.discord.world import Viewer, World, WorldEvent

GUILDS, GUILD_MESSAGES, GUILD_REACTIONS = 1 << 0, 1 << 9, 1 << 10
DM_MESSAGES, DM_REACTIONS, MESSAGE_CONTENT = 1 << 12, 1 << 13, 1 << 15


def message_created(world: World, message: Message) -> None:
    """MESSAGE_CREATE."""
    _message(world, "MESSAGE_CREATE", message)


def message_updated(world: World, message: Message) -> None:
    """MESSAGE_UPDATE: the full message, mentions included."""
    _message(world, "MESSAGE_UPDATE", message)


def _message(world: World, name: str, message: Message) -> None:
    channel = world.channels[message.channel_id]
    created = name == "MESSAGE_CREATE"

    def render(viewer: Viewer) -> Json:
        return message_shapes.gateway_message(world, message, viewer, with_nonce=created)

    intent = DM_MESSAGES if channel.is_dm else GUILD_MESSAGES
    world.emit(WorldEvent(name, render, intent, channel, channel.guild_id))


def message_deleted(world: World, message: Message) -> None:
    """MESSAGE_DELETE."""
    channel = world.channels[message.channel_id]
    body: Json = {"id": message.id, "channel_id": channel.id}
    if channel.guild_id:
        body["guild_id"] = channel.guild_id
    intent = DM_MESSAGES if channel.is_dm else GUILD_MESSAGES
    event = WorldEvent("MESSAGE_DELETE", lambda _: dict(body), intent, channel, channel.guild_id)
    world.emit(event)


def reacted(world: World, name: str, message: Message, user_id: str, emoji: str) -> None:
    """MESSAGE_REACTION_ADD or MESSAGE_REACTION_REMOVE."""
    channel = world.channels[message.channel_id]
    body: Json = {
        "user_id": user_id,
        "channel_id": channel.id,
        "message_id": message.id,
        "emoji": message_shapes.emoji(emoji),
        "burst": False,
        "type": 0,
    }
    if name == "MESSAGE_REACTION_ADD":
        body["message_author_id"] = message.author.id
    if channel.guild_id:
        body["guild_id"] = channel.guild_id
        guild = world.guilds[channel.guild_id]
        if name == "MESSAGE_REACTION_ADD":
            body["member"] = shapes.member(guild, world.users[user_id], with_user=True)
    intent = DM_REACTIONS if channel.is_dm else GUILD_REACTIONS
    world.emit(WorldEvent(name, lambda _: dict(body), intent, channel, channel.guild_id))


def channel_changed(world: World, name: str, channel: Channel, **extra: object) -> None:
    """CHANNEL_CREATE/UPDATE/DELETE and THREAD_CREATE/UPDATE/DELETE."""

    def render(viewer: Viewer) -> Json:
        return shapes.channel(world, channel, viewer) | extra

    world.emit(WorldEvent(name, render, GUILDS, channel, channel.guild_id))


def thread_joined(world: World, thread: Channel, user_id: str) -> None:
    """THREAD_MEMBERS_UPDATE with one added member."""
    state = thread.thread
    if state is None:
        raise ValueError(f"{thread.id} is no thread")
    body = {
        "id": thread.id,
        "guild_id": thread.guild_id,
        "member_count": min(len(state.members), 50),
        "added_members": [shapes.thread_member(thread, user_id)],
    }
    event = WorldEvent("THREAD_MEMBERS_UPDATE", lambda _: body, GUILDS, thread, thread.guild_id)
    world.emit(event)


def guild_changed(world: World, name: str, guild_id: str, *, only: str | None = None) -> None:
    """GUILD_CREATE for one bot that was just added."""
    guild = world.guilds[guild_id]

    def render(viewer: Viewer) -> Json:
        return shapes.guild(world, guild, viewer)

    world.emit(WorldEvent(name, render, GUILDS, None, guild_id, only))


def interaction_made(world: World, application_id: str, body: Json) -> None:
    """INTERACTION_CREATE, for one application only; it needs no intent."""
    world.emit(WorldEvent("INTERACTION_CREATE", lambda _: body, only=application_id))
