"""Slash commands, registered for the whole application and only when their definitions have changed."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from discord.http import Route

from openab.channels.discord.rest import DiscordRest
from openab.domain.ids import PlatformId

_SLASH_COMMAND = 1
_GUILD, _BOT_DM = 0, 1
_INSTALLED_IN_GUILDS = [0]
_STRING = 3
#: Discord's limits.
_MOST_CHOICES = 25
_LONGEST_STRING = 6000
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


@dataclass(frozen=True, slots=True)
class Offer:
    """What the configuration lets people do besides; without it the commands are not there."""

    #: Conversations can be bound to sessions.
    bindings: bool = False
    #: Whom a task can be given to.
    agents: tuple[str, ...] = ()


def definitions(offer: Offer = Offer()) -> list[dict[str, Any]]:
    """The commands as Discord wants them."""
    made = [_command(name, description) for name, description in DESCRIPTIONS.items()]
    if offer.bindings:
        made += _about_bindings()
    if offer.agents:
        made.append(_spawn(offer.agents))
    return sorted(made, key=lambda each: str(each["name"]))


def definitions_digest(offer: Offer = Offer()) -> str:
    """Changes exactly when a definition does."""
    written = json.dumps(definitions(offer), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


async def register_commands(
    rest: DiscordRest,
    application: PlatformId,
    offer: Offer = Offer(),
    *,
    known_digest: Callable[[], Awaitable[str | None]],
    store_digest: Callable[[str], Awaitable[None]],
    seconds: float = 10.0,
) -> bool:
    """Replace the application's commands by ours; False if they are the same already.

    Raises as the channel port says; doing it twice is harmless, so doubt needs no more than a repetition.
    """
    digest = definitions_digest(offer)
    if await known_digest() == digest:
        return False
    route = Route("PUT", "/applications/{application_id}/commands", application_id=application)
    await rest.call(route, json_body=definitions(offer), seconds=seconds)
    await store_digest(digest)
    log.info("slash_commands_registered", digest=digest)
    return True


def _command(
    name: str,
    description: str,
    *options: dict[str, Any],
    contexts: tuple[int, ...] = (_GUILD, _BOT_DM),
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": name,
        "type": _SLASH_COMMAND,
        "description": description,
        "contexts": list(contexts),
        "integration_types": _INSTALLED_IN_GUILDS,
    }
    # A command without options is written as it always was: its digest stays.
    return made | ({"options": list(options)} if options else {})


def _text(name: str, description: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "type": _STRING, "description": description, "required": required}


def _about_bindings() -> Iterator[dict[str, Any]]:
    yield _command(
        "focus",
        "Let this thread talk to another session from now on",
        _text(
            "session",
            "Its thread (link, id or #mention), its key, or a sub-agent's name",
            required=True,
        ),
    )
    yield _command("unfocus", "Let this thread talk to its own session again")
    yield _command(
        "session",
        "Show what this thread is bound to, or change how long",
        _text("idle", "End it after so much silence: 90m, 24h, 2d, or off"),
        _text("max-age", "End it at this age: 90m, 24h, 2d, or off"),
    )


def _spawn(agents: tuple[str, ...]) -> dict[str, Any]:
    agent = _text("agent", "Who does it", required=True)
    # Discord offers choices or takes what is typed, not both: with more names than fit, it is typed.
    if len(agents) <= _MOST_CHOICES:
        agent["choices"] = [{"name": name, "value": name} for name in agents]
    task = _text("task", "What it shall do", required=True) | {"max_length": _LONGEST_STRING}
    return _command(
        "spawn",
        "Give a task to a sub-agent, in a thread of its own",
        agent,
        task,
        contexts=(_GUILD,),
    )
