"""REST routes of the bot itself, guilds, DMs, commands and the gateway's address (Discord API documentation)."""

from typing import Any

from openab.simulator.discord import posting, shapes
from openab.simulator.discord.calls import Answer, Call, Route
from openab.simulator.discord.errors import Json, invalid_form, refused


def gateway(call: Call) -> Answer:
    """GET /gateway: no token needed."""
    return Answer(200, {"url": call.services.gateway.address})


def gateway_bot(call: Call) -> Answer:
    """GET /gateway/bot with the IDENTIFY budget (1000 a day)."""
    used = call.services.gateway.identifies.get(call.me.id, 0)
    limit = {
        "total": 1000,
        "remaining": max(0, 1000 - used),
        "reset_after": 86_400_000,
        "max_concurrency": 1,
    }
    address = call.services.gateway.address
    return Answer(200, {"url": address, "shards": 1, "session_start_limit": limit})


def me(call: Call) -> Answer:
    """GET /users/@me."""
    return Answer(200, shapes.user(call.me) | {"verified": True, "mfa_enabled": False})


def application(call: Call) -> Answer:
    """GET of one's own application with its flags."""
    return Answer(200, shapes.application(call.me))


def get_user(call: Call) -> Answer:
    """GET of anybody."""
    found = call.world.users.get(call.params["user_id"])
    if found is None:
        raise refused(10013)
    return Answer(200, shapes.user(found))


def my_guilds(call: Call) -> Answer:
    """GET /users/@me/guilds."""
    guilds = [one for one in call.world.guilds.values() if call.me.id in one.member_ids]
    return Answer(
        200,
        [
            {"id": one.id, "name": one.name, "icon": None, "owner": False, "features": []}
            | {"permissions": str(next(iter(one.roles.values())).permissions)}
            for one in guilds
        ],
    )


def open_dm(call: Call) -> Answer:
    """POST /users/@me/channels."""
    recipient = str(call.fields.get("recipient_id", ""))
    if recipient not in call.world.users:
        raise refused(10013)
    channel = posting.open_dm(call.world, call.me.id, recipient)
    return Answer(200, shapes.channel(call.world, channel, call.viewer))


def get_guild(call: Call) -> Answer:
    """GET of a guild."""
    return Answer(200, shapes.guild(call.world, call.guild(), call.viewer))


def guild_channels(call: Call) -> Answer:
    """GET of a guild's channels, without threads."""
    shape = shapes.guild(call.world, call.guild(), call.viewer)
    return Answer(200, shape["channels"])


def guild_roles(call: Call) -> Answer:
    """GET of a guild's roles."""
    shape = shapes.guild(call.world, call.guild(), call.viewer)
    return Answer(200, shape["roles"])


def guild_member(call: Call) -> Answer:
    """GET of one member; not one is 10007."""
    guild, who = call.guild(), call.params["user_id"]
    user_id = call.me.id if who == "@me" else who
    if user_id not in guild.member_ids:
        raise refused(10007)
    account = call.world.users[user_id]
    return Answer(200, shapes.member(guild, account, with_user=True))


def list_commands(call: Call) -> Answer:
    """GET of the registered commands, global or of a guild."""
    return Answer(200, _commands(call).get(_scope(call), []))


def put_commands(call: Call) -> Answer:
    """Bulk PUT: the body is the whole list from now on."""
    given = call.request.body
    if not isinstance(given, list):
        raise invalid_form("commands", "BASE_TYPE_BAD_TYPE", "Only iterables may be used.")
    if len(given) > 100:
        raise invalid_form("commands", "BASE_TYPE_MAX_LENGTH", "Must be 100 or fewer in length.")
    before = {one["name"]: one["id"] for one in _commands(call).get(_scope(call), [])}
    made = [_command(call, one, before.get(one.get("name"))) for one in given]
    _commands(call)[_scope(call)] = made
    return Answer(200, made)


def add_command(call: Call) -> Answer:
    """POST: add one, or replace the one with its name."""
    known = _commands(call).setdefault(_scope(call), [])
    made = _command(call, call.fields, None)
    known[:] = [one for one in known if one["name"] != made["name"]] + [made]
    return Answer(201, made)


def _commands(call: Call) -> dict[str, list[Json]]:
    mine = call.me.application
    if mine is None or call.params["application_id"] != call.me.id:
        raise refused(50001)
    return mine.commands


def _scope(call: Call) -> str:
    return call.params.get("guild_id", "")


def _command(call: Call, given: Json, known_id: str | None) -> Json:
    name = str(given.get("name") or "")
    if not 1 <= len(name) <= 32:
        text = "Must be between 1 and 32 in length."
        raise invalid_form("name", "BASE_TYPE_BAD_LENGTH", text)
    identity = known_id or call.world.snowflakes.next()
    defaults = {"type": 1, "description": "", "options": [], "default_member_permissions": None}
    fixed = {"id": identity, "application_id": call.me.id, "version": identity}
    guild = {"guild_id": _scope(call)} if _scope(call) else {}
    return defaults | given | fixed | guild


_COMMANDS = "/applications/{application_id}/commands"
_GUILD_COMMANDS = "/applications/{application_id}/guilds/{guild_id}/commands"
_ROWS: list[tuple[str, str, str, Any]] = [
    ("GET", "/gateway/bot", "gateway_bot", gateway_bot),
    ("GET", "/users/@me", "me", me),
    ("GET", "/users/@me/guilds", "my_guilds", my_guilds),
    ("POST", "/users/@me/channels", "open_dm", open_dm),
    ("GET", "/users/{user_id}", "get_user", get_user),
    ("GET", "/oauth2/applications/@me", "application", application),
    ("GET", "/applications/@me", "application", application),
    ("GET", "/guilds/{guild_id}", "get_guild", get_guild),
    ("GET", "/guilds/{guild_id}/channels", "guild_channels", guild_channels),
    ("GET", "/guilds/{guild_id}/roles", "guild_roles", guild_roles),
    ("GET", "/guilds/{guild_id}/members/{user_id}", "guild_member", guild_member),
    ("GET", _COMMANDS, "list_commands", list_commands),
    ("PUT", _COMMANDS, "put_commands", put_commands),
    ("POST", _COMMANDS, "add_command", add_command),
    ("GET", _GUILD_COMMANDS, "list_commands", list_commands),
    ("PUT", _GUILD_COMMANDS, "put_commands", put_commands),
    ("POST", _GUILD_COMMANDS, "add_command", add_command),
]
ROUTES = [
    Route("GET", "/gateway", "gateway", gateway, needs_token=False),
    *[Route(*row) for row in _ROWS],
]
