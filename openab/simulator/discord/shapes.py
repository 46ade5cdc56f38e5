"""JSON shapes of Discord objects (Discord API documentation; keys that discord.py 2.7.1 needs)."""

from openab.simulator.discord import permissions
from openab.simulator.discord.clock import snowflake_time
from openab.simulator.discord.errors import Json
from openab.simulator.discord.records import Channel, Guild, Role, User, Webhook
from openab.simulator.discord.world import Viewer, World

#: Application flags: gateway message content, full or limited.
MESSAGE_CONTENT_FLAG = 1 << 18


def user(account: User) -> Json:
    """A user object."""
    return {
        "id": account.id,
        "username": account.name,
        "global_name": None if account.is_bot else account.name,
        "discriminator": "0000" if account.is_bot else "0",
        "avatar": None,
        "bot": account.is_bot,
        "public_flags": 0,
        "flags": 0,
    }


def application(account: User) -> Json:
    """A bot's application, as `GET /oauth2/applications/@me` shows it to itself."""
    owned = account.application
    flags = MESSAGE_CONTENT_FLAG if owned and owned.message_content else 0
    return {
        "id": account.id,
        "name": account.name,
        "icon": None,
        "description": "",
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "flags": flags,
        "owner": user(User("1", "owner")),
        "team": None,
        "bot": user(account),
    }


def member(guild: Guild, account: User, *, with_user: bool = False) -> Json:
    """A guild member; `roles` is a list of id strings without @everyone."""
    roles = [role.id for role in guild.roles.values() if account.id in role.member_ids]
    shape: Json = {
        "roles": roles,
        "nick": None,
        "avatar": None,
        "joined_at": snowflake_time(guild.id).isoformat(),
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        "communication_disabled_until": None,
    }
    return shape | {"user": user(account)} if with_user else shape


def role(found: Role, position: int) -> Json:
    """A role; discord.py 2.7.1 needs `colors`."""
    shape: Json = {
        "id": found.id,
        "name": found.name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": position,
        "permissions": str(found.permissions),
        "managed": found.bot_id is not None,
        "mentionable": found.mentionable,
        "flags": 0,
    }
    return shape | {"tags": {"bot_id": found.bot_id}} if found.bot_id else shape


def channel(world: World, found: Channel, viewer: Viewer | None = None) -> Json:
    """A text channel, DM or thread."""
    if found.is_dm:
        return _dm(world, found, viewer)
    shape: Json = {
        "id": found.id,
        "type": found.type,
        "guild_id": found.guild_id,
        "name": found.name,
        "parent_id": found.parent_id,
        "last_message_id": found.last_message_id,
        "rate_limit_per_user": 0,
        "flags": 0,
    }
    return shape | (_thread(found, viewer) if found.thread else _text_channel(found))


def _dm(world: World, found: Channel, viewer: Viewer | None) -> Json:
    me = viewer.user_id if viewer else None
    others = [user(world.users[one]) for one in found.recipient_ids if one != me]
    return {
        "id": found.id,
        "type": found.type,
        "last_message_id": found.last_message_id,
        "recipients": others,
        "flags": 0,
    }


def _text_channel(found: Channel) -> Json:
    people = sorted(set(found.granted) | set(found.denied))
    overwrites = [
        {
            "id": one,
            "type": 1,
            "allow": str(permissions.bits(found.granted.get(one, ()))),
            "deny": str(permissions.bits(found.denied.get(one, ()))),
        }
        for one in people
    ]
    return {"position": 0, "permission_overwrites": overwrites, "nsfw": False, "topic": None}


def _thread(found: Channel, viewer: Viewer | None) -> Json:
    state = found.thread
    if state is None:
        raise ValueError(f"{found.id} is no thread")
    shape: Json = {
        "owner_id": state.owner_id,
        "message_count": state.total_sent,
        "total_message_sent": state.total_sent,
        "member_count": min(len(state.members), 50),
        "thread_metadata": {
            "archived": state.archived,
            "auto_archive_duration": state.auto_archive_minutes,
            "archive_timestamp": state.archived_at.isoformat(),
            "locked": state.locked,
            "create_timestamp": state.created_at.isoformat(),
        },
    }
    if viewer and viewer.user_id in state.members:
        shape["member"] = thread_member(found, viewer.user_id)
    return shape


def thread_member(found: Channel, user_id: str) -> Json:
    """One member of a thread."""
    if found.thread is None:
        raise ValueError(f"{found.id} is no thread")
    joined = found.thread.members[user_id]
    return {"id": found.id, "user_id": user_id, "join_timestamp": joined.isoformat(), "flags": 0}


def guild(world: World, found: Guild, viewer: Viewer) -> Json:
    """A whole guild as GUILD_CREATE tells it: visible channels, active threads only."""
    channels = [
        one
        for one in world.channels.values()
        if one.guild_id == found.id and not one.deleted and world.sees(viewer.user_id, one)
    ]
    me = world.users[viewer.user_id]
    shape = _guild_settings(found) | {
        "roles": [role(one, place) for place, one in enumerate(found.roles.values())],
        "channels": [channel(world, one, viewer) for one in channels if not one.thread],
        "threads": [
            channel(world, one, viewer)
            for one in channels
            if one.thread and not one.thread.archived
        ],
        "members": [member(found, me, with_user=True)],
        "member_count": len(found.member_ids),
        "joined_at": snowflake_time(found.id).isoformat(),
        "large": False,
        "unavailable": False,
    }
    empty = ("voice_states", "presences", "stage_instances", "guild_scheduled_events")
    return shape | {key: [] for key in (*empty, "soundboard_sounds")}


def _guild_settings(found: Guild) -> Json:
    nothing = (
        *("icon", "splash", "discovery_splash", "banner", "description", "vanity_url_code"),
        *("afk_channel_id", "system_channel_id", "rules_channel_id", "public_updates_channel_id"),
        *("safety_alerts_channel_id", "application_id", "widget_channel_id", "max_presences"),
    )
    shape: Json = dict.fromkeys(nothing)
    return shape | {
        "id": found.id,
        "name": found.name,
        "owner_id": found.owner_id,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "premium_progress_bar_enabled": False,
        "system_channel_flags": 0,
        "preferred_locale": "en-US",
        "afk_timeout": 300,
        "max_members": 500000,
        "max_video_channel_users": 25,
        "widget_enabled": False,
        "features": [],
        "emojis": [],
        "stickers": [],
    }


def webhook(world: World, found: Webhook, viewer_id: str | None = None) -> Json:
    """A webhook; its token is shown to whoever knows it, and to bots unless another one made it."""
    shape: Json = {
        "id": found.id,
        "type": 1,
        "channel_id": found.channel_id,
        "guild_id": found.guild_id,
        "name": found.name,
        "avatar": None,
        "application_id": found.application_id,
    }
    if found.creator_id in world.users and viewer_id is not None:
        shape["user"] = user(world.users[found.creator_id])
    if viewer_id is None or found.application_id in {None, viewer_id}:
        shape["token"] = found.token
    return shape
