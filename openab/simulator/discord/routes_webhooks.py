"""REST routes of interactions and webhooks, which share their addresses (Discord API documentation)."""

import secrets
from typing import Any

from openab.simulator.discord import forms, message_shapes, posting, shapes
from openab.simulator.discord.calls import Answer, Call, Route, flag
from openab.simulator.discord.errors import Json, invalid_form, refused
from openab.simulator.discord.interactions import UPDATE, Callback
from openab.simulator.discord.posting import USERS_ONLY, Draft
from openab.simulator.discord.records import Message, User, Webhook
from openab.simulator.discord.world import Viewer


def answer_interaction(call: Call) -> Answer:
    """POST callback: the first answer, due in 3 s, once; without a token."""
    kind, given = int(call.fields.get("type") or 0), call.fields.get("data") or {}
    draft = forms.draft(call.world, given, call.uploads)
    services = call.services.interactions
    made = services.answer(
        call.params["interaction_id"], call.params["interaction_token"], kind, draft
    )
    if kind == UPDATE and made.source:
        posting.edit(call.world, made.source, forms.changes(given))
    services.record(made, Callback(kind, given))
    message_id = made.original.id if made.original else None
    if not flag(call, "with_response"):
        return Answer(204, None, message_id)
    return Answer(200, _callback_shape(call, made.id, kind, made.original), message_id)


def _callback_shape(call: Call, interaction_id: str, kind: int, original: Message | None) -> Json:
    interaction: Json = {"id": interaction_id, "type": 2}
    resource: Json = {"type": kind}
    if original is not None:
        interaction["response_message_id"] = original.id
        interaction["response_message_loading"] = kind == 5
        interaction["response_message_ephemeral"] = original.ephemeral_for is not None
        if kind in {4, 7}:
            resource["message"] = _shape(call, original)
    return {"interaction": interaction, "resource": resource}


def _shape(call: Call, message: Message) -> Json:
    return message_shapes.message(call.world, message, Viewer(message.author.id))


def _webhook(call: Call) -> Webhook | None:
    """The webhook of the path; None: its id is an application's."""
    identity = call.params["webhook_id"]
    if identity in call.world.users and identity not in call.world.webhooks:
        return None
    found = call.world.webhooks.get(identity)
    if found is None or found.deleted:
        raise refused(10015)
    if found.token != call.params["token"]:
        raise refused(50027)
    return found


def execute_webhook(call: Call) -> Answer:
    """POST: a webhook's message, or an interaction's follow-up."""
    draft = forms.draft(call.world, call.fields, call.uploads)
    draft.default_parse = USERS_ONLY
    found = _webhook(call)
    if found is None:
        services = call.services.interactions
        made = services.of_token(call.params["webhook_id"], call.params["token"])
        message = services.followup(made, draft)
        return Answer(200, _shape(call, message), message.id)
    message = _post_as_webhook(call, found, draft)
    if not flag(call, "wait"):
        return Answer(204, None, message.id)
    return Answer(200, _shape(call, message), message.id)


def _post_as_webhook(call: Call, found: Webhook, draft: Draft) -> Message:
    thread_id = call.request.query.get("thread_id")
    channel = call.world.channel(thread_id or found.channel_id)
    if thread_id and channel.parent_id != found.channel_id:
        raise refused(10003)
    draft.webhook_id, draft.nonce = found.id, None
    draft.application_id = found.application_id
    name = _checked_name("username", call.fields.get("username") or found.name)
    return posting.create(call.world, channel, User(found.id, name, webhook=True), draft)


def _checked_name(field: str, name: object) -> str:
    """1 to 80 characters, and nobody is called like Discord or its helper (50035)."""
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= 80:
        text = "Must be between 1 and 80 in length."
        raise invalid_form(field, "BASE_TYPE_BAD_LENGTH", text)
    if any(word in name.lower() for word in ("clyde", "discord")):
        text = f'{field.capitalize()} cannot contain "discord"'
        raise invalid_form(field, "USERNAME_INVALID_CONTAINS", text)
    return name.strip()


def _message(call: Call) -> Message:
    found, message_id = _webhook(call), call.params["message_id"]
    if found is None:
        services = call.services.interactions
        made = services.of_token(call.params["webhook_id"], call.params["token"])
        return services.message(made, message_id)
    channel = call.world.channel(call.request.query.get("thread_id") or found.channel_id)
    message = call.world.message(channel, message_id)
    if message.webhook_id != found.id:
        raise refused(50005)
    return message


def get_webhook_message(call: Call) -> Answer:
    """GET."""
    return Answer(200, _shape(call, _message(call)))


def edit_webhook_message(call: Call) -> Answer:
    """PATCH; `@original` is the first answer, filled in when it was deferred."""
    message = _message(call)
    posting.edit(call.world, message, forms.changes(call.fields))
    return Answer(200, _shape(call, message), message.id)


def delete_webhook_message(call: Call) -> Answer:
    """DELETE."""
    message = _message(call)
    posting.delete(call.world, message)
    return Answer(message_id=message.id)


def create_webhook(call: Call) -> Answer:
    """POST; 15 per channel (30007), a name of 1 to 80 characters."""
    channel = call.channel("manage_webhooks")
    if len(_of_channel(call, channel.id)) >= 15:
        raise refused(30007)
    name = _checked_name("name", call.fields.get("name"))
    identity, token = call.world.snowflakes.next(), secrets.token_urlsafe(48)
    guild_id, me = channel.guild_id or "", call.me.id
    made = Webhook(identity, token, channel.id, guild_id, name, me, application_id=me)
    call.world.webhooks[made.id] = made
    return Answer(200, shapes.webhook(call.world, made, me))


def _of_channel(call: Call, channel_id: str) -> list[Webhook]:
    hooks = call.world.webhooks.values()
    return [one for one in hooks if one.channel_id == channel_id and not one.deleted]


def list_webhooks(call: Call) -> Answer:
    """GET of a channel's webhooks."""
    channel = call.channel("manage_webhooks")
    found = _of_channel(call, channel.id)
    return Answer(200, [shapes.webhook(call.world, one, call.me.id) for one in found])


def _known_webhook(call: Call) -> Webhook:
    """The webhook of the path, for a bot that may manage its channel's."""
    found = call.world.webhooks.get(call.params["webhook_id"])
    if found is None or found.deleted:
        raise refused(10015)
    call.demand(call.world.channel(found.channel_id), ["manage_webhooks"])
    return found


def get_known_webhook(call: Call) -> Answer:
    """GET with a bot's token."""
    return Answer(200, shapes.webhook(call.world, _known_webhook(call), call.me.id))


def delete_known_webhook(call: Call) -> Answer:
    """DELETE with a bot's token."""
    _known_webhook(call).deleted = True
    return Answer()


def get_webhook(call: Call) -> Answer:
    """GET with its token."""
    found = _webhook(call)
    if found is None:
        raise refused(10015)
    return Answer(200, shapes.webhook(call.world, found))


def delete_webhook(call: Call) -> Answer:
    """DELETE with its token."""
    found = _webhook(call)
    if found is None:
        raise refused(10015)
    found.deleted = True
    return Answer()


_HOOK = "/webhooks/{webhook_id}/{token}"
_HOOK_MESSAGE = _HOOK + "/messages/{message_id}"
_CALLBACK = "/interactions/{interaction_id}/{interaction_token}/callback"
_OPEN: list[tuple[str, str, str, Any]] = [
    ("POST", _CALLBACK, "answer_interaction", answer_interaction),
    ("POST", _HOOK, "execute_webhook", execute_webhook),
    ("GET", _HOOK, "get_webhook", get_webhook),
    ("DELETE", _HOOK, "delete_webhook", delete_webhook),
    ("GET", _HOOK_MESSAGE, "get_webhook_message", get_webhook_message),
    ("PATCH", _HOOK_MESSAGE, "edit_webhook_message", edit_webhook_message),
    ("DELETE", _HOOK_MESSAGE, "delete_webhook_message", delete_webhook_message),
]
ROUTES = [
    *[Route(*row, needs_token=False) for row in _OPEN],
    Route("POST", "/channels/{channel_id}/webhooks", "create_webhook", create_webhook),
    Route("GET", "/channels/{channel_id}/webhooks", "list_webhooks", list_webhooks),
    Route("GET", "/webhooks/{webhook_id}", "get_known_webhook", get_known_webhook),
    Route("DELETE", "/webhooks/{webhook_id}", "delete_known_webhook", delete_known_webhook),
]
