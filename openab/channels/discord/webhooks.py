"""Our webhook of a channel: found or made, and posted through under a persona's name; its secret is never kept."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from discord.http import Route

from openab.channels.discord.bodies import clean, payload
from openab.channels.discord.rest import DiscordRest
from openab.channels.discord.threads import id_of
from openab.domain.ids import PlatformId, snowflake
from openab.domain.outbound import MessageBody
from openab.ports.channel import ChannelBusy, ChannelRejected, ChannelUnreachable, Refusal

#: With the application that made it, this tells our webhook from others.
NAME = "openab"
LONGEST_PERSONA = 80
#: A webhook with a credential of its own; the others cannot be posted through.
_INCOMING = 1
_INVALID_CREDENTIAL = 50027
_RETRY_SECONDS = 1.0
_HOOKS = "/channels/{channel_id}/webhooks"
#: What Discord takes in nobody's name.
_REFUSED_CHARACTERS = re.compile(r"[@#:`\x00-\x1f\x7f]")
_REFUSED_WORDS = re.compile(r"clyde|discord", re.IGNORECASE)
_REFUSED_NAMES = frozenset({"everyone", "here"})


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a persona speaks: in a thread, by the webhook of the channel above it."""

    thread: PlatformId
    parent: PlatformId
    webhook: PlatformId


async def find(rest: DiscordRest, parent: PlatformId, seconds: float) -> PlatformId | None:
    """Our oldest webhook of the channel; one that was made right before a crash is found, too."""
    found = await rest.call(Route("GET", _HOOKS, channel_id=parent), seconds=seconds)
    if not isinstance(found, list):
        raise ChannelUnreachable("Discord's webhooks cannot be read")
    ours = [PlatformId(str(raw["id"])) for raw in found if _is_ours(rest, raw)]
    return min(ours, key=snowflake, default=None)


async def make(
    rest: DiscordRest, parent: PlatformId, seconds: float, permit: Callable[[], bool] | None = None
) -> PlatformId:
    """Make one; raises as the channel port says, WEBHOOK_LIMIT and FORBIDDEN among it."""
    route = Route("POST", _HOOKS, channel_id=parent)
    made = await rest.call(route, json_body={"name": NAME}, seconds=seconds, permit=permit)
    return id_of(made)


async def post(
    rest: DiscordRest,
    stand: Stand,
    body: MessageBody,
    seconds: float,
    permit: Callable[[], bool] | None = None,
) -> PlatformId:
    """One post, with the credential that is valid now; raises as the channel port says."""
    began = time.monotonic()
    credential = await _credential(rest, stand, seconds)
    # No parameter is named webhook_token: discord.py would write it into its own log.
    route = Route(
        "POST", "/webhooks/{webhook_id}/{secret}", webhook_id=stand.webhook, secret=credential
    )
    try:
        answer = await rest.call(
            route,
            json_body=_persona_payload(body),
            query={"wait": "true", "thread_id": stand.thread},
            seconds=max(seconds - (time.monotonic() - began), 0.0),
            permit=permit,
        )
    except ChannelRejected as error:
        if error.code == _INVALID_CREDENTIAL:
            # It was changed between our look and our post.
            raise ChannelBusy("the webhook has another credential now", _RETRY_SECONDS) from error
        raise
    return id_of(answer)


def persona_name(name: str) -> str:
    """A name as Discord takes it: at most 80 characters, without what it refuses in names."""
    words = _REFUSED_CHARACTERS.sub(" ", clean(name))
    words = _REFUSED_WORDS.sub(lambda found: f"{found[0][:2]}-{found[0][2:]}", words)
    shown = " ".join(words.split())[:LONGEST_PERSONA].strip()
    return NAME if not shown or shown.lower() in _REFUSED_NAMES else shown


def _persona_payload(body: MessageBody) -> dict[str, Any]:
    # A webhook's message cannot reply, and a persona pings nobody.
    made = payload(replace(body, reply_to=None, mention=None))
    return {**made, "username": persona_name(body.persona)}


async def _credential(rest: DiscordRest, stand: Stand, seconds: float) -> str:
    route = Route("GET", "/webhooks/{webhook_id}", webhook_id=stand.webhook)
    raw = await rest.call(route, seconds=seconds)
    if not isinstance(raw, Mapping):
        raise ChannelUnreachable("Discord's webhook cannot be read")
    if str(raw.get("channel_id")) != stand.parent or not raw.get("token"):
        # Somebody moved it: posting by it would look as if the thread were gone.
        raise ChannelRejected(Refusal.WEBHOOK_GONE, "the webhook does not serve this channel")
    return str(raw["token"])


def _is_ours(rest: DiscordRest, raw: Mapping[str, Any]) -> bool:
    identity = rest.identity
    if identity is None or raw.get("type") != _INCOMING or raw.get("name") != NAME:
        return False
    maker = raw.get("user") or {}
    is_made_by_us = str(raw.get("application_id")) == identity.application_id or (
        str(maker.get("id")) == identity.account
    )
    return is_made_by_us and bool(raw.get("token"))
