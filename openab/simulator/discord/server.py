"""The loopback Discord as a whole: one port for REST, gateway and files, and the way to its world."""

import secrets
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from aiohttp import web

from openab.simulator.discord import happenings, permissions, posting, threads
from openab.simulator.discord.calls import Services
from openab.simulator.discord.clock import Clock
from openab.simulator.discord.faults import Faults
from openab.simulator.discord.gateway import Gateway
from openab.simulator.discord.interactions import Interactions
from openab.simulator.discord.journal import Journal
from openab.simulator.discord.limits import Limits, Nonces
from openab.simulator.discord.people import Bot, Person, WebhookActor
from openab.simulator.discord.records import (
    TEXT_CHANNEL,
    Application,
    Channel,
    Guild,
    Message,
    Role,
    User,
    Webhook,
)
from openab.simulator.discord.rest import PREFIX, Rest
from openab.simulator.discord.signals import PATIENCE
from openab.simulator.discord.sockets import Socket
from openab.simulator.discord.world import World

Found = TypeVar("Found")


class LoopbackDiscord:
    """A Discord on 127.0.0.1; serves while its `async with` block runs.

    People, foreign bots, faults and the journal are used from the same event loop; clients may be
    anywhere on the machine and may die at any moment.
    """

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self.clock = Clock()
        self.world = World(self.clock)
        self.journal = Journal(self.clock, self.world.changed)
        self.faults = Faults(self.world.changed)
        self.gateway = Gateway(self.world, self.journal, self.faults)
        self.limits = Limits(self.clock)
        self.nonces = Nonces(self.clock)
        self.interactions = Interactions(self.world)
        self._runner: web.AppRunner | None = None
        self._sockets: set[Socket] = set()
        self._everybody: list[str] = []
        self.guild = self.add_guild("Loopback")

    async def __aenter__(self) -> Self:
        """Open the port."""
        services = Services(self.world, self.limits, self.nonces, self.interactions, self.gateway)
        application = web.Application(client_max_size=64 << 20)
        application.add_routes(Rest(services, self.journal, self.faults).routes())
        application.router.add_get("/", self._connect)
        path = "/attachments/{channel_id}/{attachment_id}/{filename}"
        application.router.add_get(path, self._file)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.world.cdn = f"http://127.0.0.1:{self._port}"
        self.gateway.address = self.gateway_url
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every socket and the port; hanging requests end."""
        self.faults.clear()
        for socket in list(self._sockets):
            socket.cut()
        if self._runner is not None:
            await self._runner.cleanup()
        if self.journal.broken and error is None:
            raise ExceptionGroup("the loopback Discord itself failed", self.journal.broken)

    @property
    def port(self) -> int:
        """The port, once open."""
        return self._port

    @property
    def api_base(self) -> str:
        """What `[discord].api_base` is set to."""
        return f"http://127.0.0.1:{self._port}{PREFIX}"

    @property
    def gateway_url(self) -> str:
        """Where IDENTIFY and RESUME are served."""
        return f"ws://127.0.0.1:{self._port}/"

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        refusal = self.faults.take_refused_connection()
        if refusal is not None:
            self.journal.connected(None, "connection_refused", status=refusal)
            if refusal == 0 and request.transport is not None:
                request.transport.abort()
            return web.Response(status=refusal or 503)
        socket = Socket(request, self.world, self.gateway)
        self._sockets.add(socket)
        try:
            return await socket.serve(self.journal, self.faults)
        finally:
            self._sockets.discard(socket)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file = self.world.attachments.get(request.match_info["attachment_id"])
        if file is None:
            return web.Response(status=404)
        headers = {"Content-Type": file.content_type}
        return web.Response(body=file.content, headers=headers)

    def add_guild(self, name: str, *, everybody: bool = True) -> Guild:
        """A guild; everybody there is so far joins it unless told otherwise."""
        world = self.world
        owner = world.add_user(User(world.snowflakes.next(), f"{name} owner"))
        guild = Guild(world.snowflakes.next(), name, owner.id)
        allowed = permissions.bits(permissions.DEFAULT)
        guild.roles[guild.id] = Role(guild.id, "@everyone", allowed)
        guild.member_ids.append(owner.id)
        world.guilds[guild.id] = guild
        for user_id in self._everybody if everybody else ():
            self.join_guild(guild, user_id)
        return guild

    def join_guild(self, guild: Guild, user_id: str) -> None:
        """Let an account into a guild; a bot gets its managed role and GUILD_CREATE."""
        guild.member_ids.append(user_id)
        user = self.world.users[user_id]
        if user.application is None:
            return
        role_id, allowed = self.world.snowflakes.next(), permissions.bits(permissions.DEFAULT)
        guild.roles[role_id] = Role(
            role_id, user.name, allowed, bot_id=user_id, member_ids={user_id}
        )
        happenings.guild_changed(self.world, "GUILD_CREATE", guild.id, only=user_id)

    def role_mention(self, bot: Bot, guild: Guild | None = None) -> str:
        """How a message mentions the bot's managed role, as people's autocompletion often does."""
        roles = (guild or self.guild).roles.values()
        return next(f"<@&{role.id}>" for role in roles if role.bot_id == bot.id)

    def add_role(self, guild: Guild, name: str, *members: str, mentionable: bool = True) -> Role:
        """A role of a guild."""
        role = Role(self.world.snowflakes.next(), name, mentionable=mentionable)
        role.member_ids.update(members)
        guild.roles[role.id] = role
        return role

    def add_bot(
        self,
        name: str,
        *,
        token: str | None = None,
        message_content: bool = True,
        guild: Guild | None = None,
    ) -> Bot:
        """A bot's account in the guild; clients log in with its token.

        `message_content=False`: the privileged intent is not switched on; asking for it closes 4014.
        """
        made = token or f"loopback.{name}.{secrets.token_urlsafe(16)}"
        user = self._add_user(name, Application(made, message_content), guild)
        return Bot(self.world, self.interactions, user)

    def add_person(self, name: str, *, guild: Guild | None = None) -> Person:
        """A human account in the guild."""
        return Person(self.world, self.interactions, self._add_user(name, None, guild))

    def _add_user(self, name: str, application: Application | None, guild: Guild | None) -> User:
        user = User(self.world.snowflakes.next(), name, application)
        self.world.add_user(user)
        self._everybody.append(user.id)
        self.join_guild(guild or self.guild, user.id)
        return user

    def add_channel(self, name: str, *, guild: Guild | None = None) -> Channel:
        """A text channel of the guild."""
        home = guild or self.guild
        channel = Channel(self.world.snowflakes.next(), TEXT_CHANNEL, name, home.id)
        self.world.channels[channel.id] = channel
        happenings.channel_changed(self.world, "CHANNEL_CREATE", channel)
        return channel

    def delete_channel(self, channel_id: str) -> None:
        """Delete a channel or thread: from then on it is 10003."""
        threads.delete(self.world, self.world.channel(channel_id))

    def open_dm(self, person: Person, bot: Bot) -> Channel:
        """The direct conversation of two accounts."""
        return posting.open_dm(self.world, person.id, bot.id)

    def add_webhook(self, channel_id: str, name: str) -> WebhookActor:
        """A webhook that posts into a channel."""
        world = self.world
        identity, token = world.snowflakes.next(), secrets.token_urlsafe(48)
        guild_id = world.channel(channel_id).guild_id or ""
        webhook = Webhook(identity, token, channel_id, guild_id, name, "0")
        world.webhooks[webhook.id] = webhook
        return WebhookActor(world, webhook)

    def webhooks(self, channel_id: str) -> list[Webhook]:
        """The webhooks of a channel that are not deleted, the oldest first."""
        known = self.world.webhooks.values()
        return [one for one in known if one.channel_id == channel_id and not one.deleted]

    def rotate_webhook(self, webhook_id: str) -> None:
        """Somebody gives a webhook another secret: the one before is 50027 from then on."""
        self.world.webhooks[webhook_id].token = secrets.token_urlsafe(48)

    def delete_webhook(self, webhook_id: str) -> None:
        """Somebody deletes a webhook: from then on it is 10015."""
        self.world.webhooks[webhook_id].deleted = True

    def grant(self, user_id: str, channel_id: str, *names: str) -> None:
        """Give permissions in a channel (its threads have them, too)."""
        channel = self.world.channel(channel_id)
        channel.granted.setdefault(user_id, set()).update(permissions.known(names))
        channel.denied.get(user_id, set()).difference_update(names)
        happenings.channel_changed(self.world, "CHANNEL_UPDATE", channel)

    def deny(self, user_id: str, channel_id: str, *names: str) -> None:
        """Take permissions in a channel (and its threads) away."""
        channel = self.world.channel(channel_id)
        channel.denied.setdefault(user_id, set()).update(permissions.known(names))
        channel.granted.get(user_id, set()).difference_update(names)
        happenings.channel_changed(self.world, "CHANNEL_UPDATE", channel)

    def messages(self, channel_id: str, *, system: bool = False) -> list[Message]:
        """What people see in a channel now, in order; system messages only when asked for."""
        channel = self.world.channels[channel_id]
        standing = (one for one in channel.messages.values() if not one.deleted)
        return [one for one in standing if system or not one.is_system]

    def every_message(self, channel_id: str) -> list[Message]:
        """Every message there ever was in a channel, deleted ones included."""
        return list(self.world.channels[channel_id].messages.values())

    def threads(self, channel_id: str) -> list[Channel]:
        """The threads of a channel, oldest first."""
        channels = self.world.channels.values()
        return [one for one in channels if one.thread and one.parent_id == channel_id]

    def wait_message(
        self, channel_id: str, predicate: Callable[[Message], bool], timeout: float = PATIENCE
    ) -> Awaitable[Message]:
        """Wait until a visible message fits, by its post, an edit, a deletion or a reaction.

        The channel may come into being while waiting (a thread's id is its starter message's).
        """

        def probe() -> Message | None:
            if channel_id not in self.world.channels:
                return None
            return next(filter(predicate, self.messages(channel_id)), None)

        return self.wait_until(probe, timeout, lambda: self.picture(channel_id))

    def wait_messages(
        self, channel_id: str, predicate: Callable[[list[Message]], bool], timeout: float = PATIENCE
    ) -> Awaitable[list[Message]]:
        """Wait until all the visible messages of a channel fit together."""

        def probe() -> list[Message] | None:
            known = channel_id in self.world.channels
            shown = self.messages(channel_id) if known else []
            return shown if predicate(shown) else None

        return self.wait_until(probe, timeout, lambda: self.picture(channel_id))

    def wait_thread(self, starter: Message, timeout: float = PATIENCE) -> Awaitable[Channel]:
        """Wait for the thread that is opened from a message."""
        return self.wait_until(lambda: self.world.channels.get(starter.id), timeout)

    def wait_until(
        self,
        probe: Callable[[], Found | None],
        timeout: float = PATIENCE,
        picture: Callable[[], str] | None = None,
    ) -> Awaitable[Found]:
        """Wait until `probe` is truthy; it is asked again whenever world or journal change."""
        shown = picture or self.journal.tail
        return self.world.changed.until(probe, within=timeout, picture=shown)

    def wait_connected(self, bot: Bot, timeout: float = PATIENCE) -> Awaitable[bool]:
        """Wait until a client of the bot has a session."""
        return self.wait_until(lambda: bool(self.gateway.of_bot(bot.id)), timeout)

    def picture(self, channel_id: str) -> str:
        """A channel's visible messages in one line, for a failing test's message."""
        if channel_id not in self.world.channels:
            return "no such channel"
        shown = self.messages(channel_id)
        return " | ".join(f"{one.author.name}: {one.content[:80]!r}" for one in shown) or "silence"
