"""A REST call as a route sees it, and what a route answers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openab.simulator.discord.errors import Json, invalid_form, refused
from openab.simulator.discord.forms import Upload
from openab.simulator.discord.gateway import Gateway
from openab.simulator.discord.interactions import Interactions
from openab.simulator.discord.journal import Request
from openab.simulator.discord.limits import Limits, Nonces
from openab.simulator.discord.records import Channel, Guild, Message, User
from openab.simulator.discord.world import Viewer, World


@dataclass(frozen=True)
class Services:
    """What routes work with."""

    world: World
    limits: Limits
    nonces: Nonces
    interactions: Interactions
    gateway: Gateway


@dataclass(frozen=True)
class Answer:
    """Status and body; `message_id` and `nonce_hit` are for the journal."""

    status: int = 204
    body: Any = None
    message_id: str | None = None
    nonce_hit: bool = False


@dataclass
class Call:
    """One request, read and authenticated."""

    services: Services
    request: Request
    params: Mapping[str, str]
    bot: User | None = None
    uploads: list[Upload] = field(default_factory=list)

    @property
    def world(self) -> World:
        """The world the request is about."""
        return self.services.world

    @property
    def fields(self) -> Json:
        """The body as an object."""
        return self.request.fields

    @property
    def me(self) -> User:
        """The bot whose token was sent."""
        if self.bot is None:
            raise LookupError("this route is served without a token")
        return self.bot

    @property
    def viewer(self) -> Viewer:
        """How the asking bot may see messages."""
        return self.world.viewer(self.me.id)

    def guild(self) -> Guild:
        """The guild of the path: 10004, or 50001 when the bot is not in it."""
        guild = self.world.guilds.get(self.params["guild_id"])
        if guild is None:
            raise refused(10004)
        if self.me.id not in guild.member_ids:
            raise refused(50001)
        return guild

    def channel(self, *needed: str) -> Channel:
        """The channel of the path: 10003, 50001 when it cannot be seen, 50013 without the rights."""
        channel = self.world.channel(self.params["channel_id"])
        self.demand(channel, needed)
        return channel

    def demand(self, channel: Channel, needed: Iterable[str]) -> None:
        """Refuse unless the bot sees the channel and has these rights there."""
        has = self.world.permissions(self.me.id, channel)
        if "view_channel" not in has:
            raise refused(50001)
        if not set(needed) <= has:
            raise refused(50013)

    def message(self, channel: Channel) -> Message:
        """The message of the path."""
        return self.world.message(channel, self.params["message_id"])

    def count(self, default: int = 50, most: int = 100) -> int:
        """The query's `limit`."""
        written = self.request.query.get("limit", str(default))
        if not written.isdigit() or not 1 <= int(written) <= most:
            text = f"int value should be between 1 and {most}."
            raise invalid_form("limit", "NUMBER_TYPE_MAX", text)
        return int(written)


Run = Callable[[Call], Answer]


@dataclass(frozen=True)
class Route:
    """One served path; `name` is its word in the journal and for faults."""

    method: str
    template: str
    name: str
    run: Run
    needs_token: bool = True


def flag(call: Call, name: str) -> bool:
    """A query's yes or no."""
    return call.request.query.get(name, "").lower() in {"true", "1"}
