"""REST routes of channels and threads (Discord API documentation)."""

from typing import Any

from openab.simulator.discord import happenings, shapes, threads
from openab.simulator.discord.calls import Answer, Call, Route
from openab.simulator.discord.errors import Json, refused
from openab.simulator.discord.records import Channel


def get_channel(call: Call) -> Answer:
    """GET."""
    return Answer(200, shapes.channel(call.world, call.channel(), call.viewer))


def modify_channel(call: Call) -> Answer:
    """PATCH: archive, lock, rename; a channel is renamed at most twice in ten minutes (observed)."""
    channel = call.channel()
    if channel.is_dm:
        raise refused(50003)
    if channel.thread is None:
        call.demand(channel, ["manage_channels"])
    if call.fields.get("name") not in {None, channel.name}:
        threads.checked_name(call.fields["name"])
        call.services.limits.take_inner(call.me.id, "rename_channel", channel.id)
    if channel.thread:
        threads.modify(call.world, channel, call.me, call.fields)
    elif "name" in call.fields:
        channel.name = threads.checked_name(call.fields["name"])
        happenings.channel_changed(call.world, "CHANNEL_UPDATE", channel)
    return Answer(200, shapes.channel(call.world, channel, call.viewer))


def delete_channel(call: Call) -> Answer:
    """DELETE: everything in it answers 10003 from then on."""
    channel = call.channel()
    call.demand(channel, ["manage_threads" if channel.thread else "manage_channels"])
    threads.delete(call.world, channel)
    return Answer(200, shapes.channel(call.world, channel, call.viewer))


def start_thread_from_message(call: Call) -> Answer:
    """POST on a message; the thread's id is the message's."""
    channel = call.channel("create_public_threads", "read_message_history")
    return _start(call, channel, starter_id=call.params["message_id"])


def start_thread(call: Call) -> Answer:
    """POST without a message; only public threads are served here."""
    return _start(call, call.channel("create_public_threads"), starter_id=None)


def _start(call: Call, parent: Channel, *, starter_id: str | None) -> Answer:
    name = threads.checked_name(call.fields.get("name"))
    minutes = threads.checked_auto_archive(call.fields.get("auto_archive_duration") or 1440)
    starter = call.world.message(parent, starter_id) if starter_id else None
    thread = threads.start(call.world, parent, call.me, name, starter=starter, minutes=minutes)
    return Answer(201, shapes.channel(call.world, thread, call.viewer))


def join_thread(call: Call) -> Answer:
    """PUT @me or another user."""
    threads.join(call.world, call.channel(), _member_id(call))
    return Answer()


def leave_thread(call: Call) -> Answer:
    """DELETE @me."""
    threads.leave(call.world, call.channel(), _member_id(call))
    return Answer()


def get_thread_member(call: Call) -> Answer:
    """GET of one member; not one is 10013."""
    thread, user_id = _thread(call), _member_id(call)
    if thread.thread is None or user_id not in thread.thread.members:
        raise refused(10013)
    return Answer(200, shapes.thread_member(thread, user_id))


def list_thread_members(call: Call) -> Answer:
    """GET of all members."""
    thread = _thread(call)
    members = thread.thread.members if thread.thread else {}
    return Answer(200, [shapes.thread_member(thread, one) for one in members])


def _thread(call: Call) -> Channel:
    channel = call.channel()
    if channel.thread is None:
        raise refused(50024)
    return channel


def _member_id(call: Call) -> str:
    who = call.params["user_id"]
    return call.me.id if who == "@me" else who


def active_threads(call: Call) -> Answer:
    """GET of a guild's active threads."""
    guild_id = call.guild().id
    visible = (
        one
        for one in call.world.threads_of(guild_id, archived=False)
        if call.world.sees(call.me.id, one)
    )
    return Answer(200, _list(call, sorted(visible, key=lambda one: -int(one.id))))


def archived_threads(call: Call) -> Answer:
    """GET of a channel's archived public threads, latest archived first."""
    parent, limit = call.channel("read_message_history"), call.count()
    found = [
        one
        for one in call.world.threads_of(parent.guild_id or "", archived=True)
        if one.parent_id == parent.id and _is_before(one, call.request.query.get("before"))
    ]
    found.sort(key=_archived_at, reverse=True)
    return Answer(200, _list(call, found[:limit]) | {"has_more": len(found) > limit})


def _archived_at(thread: Channel) -> str:
    return thread.thread.archived_at.isoformat() if thread.thread else ""


def _is_before(thread: Channel, before: str | None) -> bool:
    return before is None or _archived_at(thread) < before


def _list(call: Call, found: list[Channel]) -> Json:
    mine = [one for one in found if one.thread and call.me.id in one.thread.members]
    return {
        "threads": [shapes.channel(call.world, one, call.viewer) for one in found],
        "members": [shapes.thread_member(one, call.me.id) for one in mine],
    }


_CHANNEL = "/channels/{channel_id}"
_MEMBERS = _CHANNEL + "/thread-members"
_ROWS: list[tuple[str, str, str, Any]] = [
    ("GET", _CHANNEL, "get_channel", get_channel),
    ("PATCH", _CHANNEL, "modify_channel", modify_channel),
    ("DELETE", _CHANNEL, "delete_channel", delete_channel),
    (
        "POST",
        _CHANNEL + "/messages/{message_id}/threads",
        "start_thread",
        start_thread_from_message,
    ),
    ("POST", _CHANNEL + "/threads", "start_thread_without_message", start_thread),
    ("PUT", _MEMBERS + "/{user_id}", "join_thread", join_thread),
    ("DELETE", _MEMBERS + "/{user_id}", "leave_thread", leave_thread),
    ("GET", _MEMBERS + "/{user_id}", "get_thread_member", get_thread_member),
    ("GET", _MEMBERS, "list_thread_members", list_thread_members),
    ("GET", "/guilds/{guild_id}/threads/active", "active_threads", active_threads),
    ("GET", _CHANNEL + "/threads/archived/public", "archived_threads", archived_threads),
]
ROUTES = [Route(*row) for row in _ROWS]
