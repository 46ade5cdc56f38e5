"""Slash commands, registered for the whole application and only when their definitions have changed."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from discord.http import Route

from openab.channels.discord.rest import DiscordRest
from openab.domain.ids import PlatformId

_SLASH_COMMAND = 1
_GUILD_AND_BOT_DM = [0, 1]
_INSTALLED_IN_GUILDS = [0]
#: Each command and what people read beside it.
DESCRIPTIONS = {
    "cancel": "Stop the request that is running in this conversation",
    "cancel-all": "Stop what runs here and take back every request of yours that waits",
    "continue": "Go on with the request that a restart interrupted in this conversation",
    "reset": "End this conversation's session: the agent forgets everything",
    "models": "Choose the model that the agent uses here",
    "agents": "Choose the agent or mode that is used here",
    "usage": "Show what this conversation's session has used so far",
    "sessions": "List the sessions of this bot",
}

log = structlog.get_logger()


def definitions() -> list[dict[str, Any]]:
    """The commands as Discord wants them."""
    return [
        {
            "name": name,
            "type": _SLASH_COMMAND,
            "description": description,
            "contexts": _GUILD_AND_BOT_DM,
            "integration_types": _INSTALLED_IN_GUILDS,
        }
        for name, description in sorted(DESCRIPTIONS.items())
    ]


def definitions_digest() -> str:
    """Changes exactly when a definition does."""
    written = json.dumps(definitions(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


async def register_commands(
    rest: DiscordRest,
    application: PlatformId,
    *,
    known_digest: Callable[[], Awaitable[str | None]],
    store_digest: Callable[[str], Awaitable[None]],
    seconds: float = 10.0,
) -> bool:
    """Replace the application's commands by ours; False if they are the same already.

    Raises as the channel port says; doing it twice is harmless, so doubt needs no more than a repetition.
    """
    digest = definitions_digest()
    if await known_digest() == digest:
        return False
    route = Route("PUT", "/applications/{application_id}/commands", application_id=application)
    await rest.call(route, json_body=definitions(), seconds=seconds)
    await store_digest(digest)
    log.info("slash_commands_registered", digest=digest)
    return True
