"""REST routes of messages and reactions (Discord API documentation)."""

from typing import Any

from openab.simulator.discord import forms, message_shapes, posting, shapes
from openab.simulator.discord.calls import Answer, Call, Route
from openab.simulator.discord.errors import Json, refused
from openab.simulator.discord.records import Channel, Message


def _shape(call: Call, message: Message) -> Json:
    shape = message_shapes.message(call.world, message, call.viewer)
    return shape | ({"nonce": message.nonce} if message.nonce is not None else {})


def create_message(call: Call) -> Answer:
    """POST: a known nonce answers the earlier message, or 10008 when that was deleted."""
    channel = call.channel()
    call.demand(channel, ["send_messages_in_threads" if channel.thread else "send_messages"])
    draft = forms.draft(call.world, call.fields, call.uploads)
    if call.fields.get("enforce_nonce"):
        earlier = call.services.nonces.find(call.me.id, channel.id, draft.nonce)
        if earlier is not None:
            return _earlier(call, earlier)
    message = posting.create(call.world, channel, call.me, draft)
    call.services.nonces.remember(message)
    return Answer(200, _shape(call, message), message.id)


def _earlier(call: Call, message: Message) -> Answer:
    call.request.nonce_hit = True
    call.request.message_id = message.id
    if message.deleted:
        raise refused(10008)
    return Answer(200, _shape(call, message), message.id, nonce_hit=True)


def list_messages(call: Call) -> Answer:
    """GET: newest first; without READ_MESSAGE_HISTORY an empty list."""
    channel, limit = call.channel(), call.count()
    if not call.world.may(call.me.id, channel, "read_message_history"):
        return Answer(200, [])
    messages = [one for one in channel.messages.values() if not one.deleted]
    messages.sort(key=lambda one: int(one.id), reverse=True)
    page = _page(messages, call.request.query, limit)
    return Answer(200, [message_shapes.message(call.world, one, call.viewer) for one in page])


def _page(messages: list[Message], query: dict[str, str], limit: int) -> list[Message]:
    if "around" in query:
        middle = int(query["around"])
        newer = [one for one in messages if int(one.id) > middle][-(limit // 2) :]
        older = [one for one in messages if int(one.id) <= middle]
        return (newer if limit > 1 else []) + older[: limit - limit // 2]
    if "after" in query:
        # The oldest ones after the id, newest of them first.
        return [one for one in messages if int(one.id) > int(query["after"])][-limit:]
    if "before" in query:
        messages = [one for one in messages if int(one.id) < int(query["before"])]
    return messages[:limit]


def get_message(call: Call) -> Answer:
    """GET of one."""
    channel = call.channel("read_message_history")
    return Answer(200, message_shapes.message(call.world, call.message(channel), call.viewer))


def edit_message(call: Call) -> Answer:
    """PATCH: own messages only; old ones only so often (30046)."""
    channel = call.channel()
    message = call.message(channel)
    if message.author.id != call.me.id or message.is_system:
        raise refused(50005)
    changes = forms.changes(call.fields)
    _spend_old_edit(call, message)
    posting.edit(call.world, message, changes)
    return Answer(200, message_shapes.message(call.world, message, call.viewer), message.id)


def _spend_old_edit(call: Call, message: Message) -> None:
    limits = call.services.limits
    age = (call.world.clock.wall() - message.created_at).total_seconds()
    if not limits.enabled or age <= limits.old_message_seconds:
        return
    if message.old_edits >= limits.old_message_edits:
        raise refused(30046)
    message.old_edits += 1


def delete_message(call: Call) -> Answer:
    """DELETE: own ones, or any with MANAGE_MESSAGES."""
    channel = call.channel()
    message = call.message(channel)
    if message.author.id != call.me.id:
        if channel.is_dm:
            raise refused(50003)
        call.demand(channel, ["manage_messages"])
    posting.delete(call.world, message)
    return Answer(message_id=message.id)


def add_reaction(call: Call) -> Answer:
    """PUT @me."""
    message = _reactable(call)
    emoji = call.params["emoji"]
    if emoji not in message.reactions:
        call.demand(call.world.channels[message.channel_id], ["add_reactions"])
    posting.react(call.world, message, call.me.id, emoji)
    return Answer(message_id=message.id)


def remove_reaction(call: Call) -> Answer:
    """DELETE @me, or somebody else's with MANAGE_MESSAGES."""
    message = _reactable(call)
    who = call.params["user_id"]
    user_id = call.me.id if who == "@me" else who
    if user_id != call.me.id:
        call.demand(call.world.channels[message.channel_id], ["manage_messages"])
    posting.unreact(call.world, message, user_id, call.params["emoji"])
    return Answer(message_id=message.id)


def clear_reactions(call: Call) -> Answer:
    """DELETE of all reactions."""
    message = call.message(call.channel("manage_messages"))
    for emoji, users in list(message.reactions.items()):
        for user_id in list(users):
            posting.unreact(call.world, message, user_id, emoji)
    return Answer(message_id=message.id)


def list_reactions(call: Call) -> Answer:
    """GET: who reacted with one emoji."""
    users = _reactable(call).reactions.get(call.params["emoji"], [])
    return Answer(200, [shapes.user(call.world.users[one]) for one in users][: call.count(25)])


def _reactable(call: Call) -> Message:
    return call.message(call.channel("read_message_history"))


def typing(call: Call) -> Answer:
    """POST: nothing changes."""
    channel: Channel = call.channel()
    call.demand(channel, ["send_messages_in_threads" if channel.thread else "send_messages"])
    return Answer()


_MESSAGES = "/channels/{channel_id}/messages"
_MESSAGE = _MESSAGES + "/{message_id}"
_REACTIONS = _MESSAGE + "/reactions"
_ROWS: list[tuple[str, str, str, Any]] = [
    ("POST", _MESSAGES, "create_message", create_message),
    ("GET", _MESSAGES, "list_messages", list_messages),
    ("GET", _MESSAGE, "get_message", get_message),
    ("PATCH", _MESSAGE, "edit_message", edit_message),
    ("DELETE", _MESSAGE, "delete_message", delete_message),
    ("PUT", _REACTIONS + "/{emoji}/@me", "add_reaction", add_reaction),
    ("DELETE", _REACTIONS + "/{emoji}/{user_id}", "remove_reaction", remove_reaction),
    ("DELETE", _REACTIONS, "clear_reactions", clear_reactions),
    ("GET", _REACTIONS + "/{emoji}", "list_reactions", list_reactions),
    ("POST", "/channels/{channel_id}/typing", "typing", typing),
]
ROUTES = [Route(*row) for row in _ROWS]
