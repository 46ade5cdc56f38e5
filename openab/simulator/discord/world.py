"""The state of the loopback Discord: its tables, permissions and events; pure, no sockets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from openab.simulator.discord import permissions
from openab.simulator.discord.clock import Clock, Snowflakes
from openab.simulator.discord.errors import Json, refused
from openab.simulator.discord.records import Attachment, Channel, Guild, Message, User, Webhook
from openab.simulator.discord.signals import Signal


@dataclass(frozen=True)
class Viewer:
    """For whom a shape is drawn; without content rights most contents are blank."""

    user_id: str
    sees_content: bool = True


@dataclass(frozen=True)
class WorldEvent:
    """Something happened that a gateway tells; `render` draws it for one viewer."""

    name: str
    render: Callable[[Viewer], Json]
    intent: int = 0
    channel: Channel | None = None
    guild_id: str | None = None
    only: str | None = None


class World:
    """All tables, the permissions, and the one place where events are emitted."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.snowflakes = Snowflakes(self.clock)
        self.changed = Signal()
        self.users: dict[str, User] = {}
        self.guilds: dict[str, Guild] = {}
        self.channels: dict[str, Channel] = {}
        self.webhooks: dict[str, Webhook] = {}
        self.attachments: dict[str, Attachment] = {}
        #: Messages only one person sees; no channel lists them.
        self.ephemerals: dict[str, Message] = {}
        #: Off, as documented: bots that see the channel get its public threads' events.
        self.threads_need_membership = False
        self.cdn = "http://127.0.0.1"
        self._listeners: list[Callable[[WorldEvent], None]] = []

    def subscribe(self, listener: Callable[[WorldEvent], None]) -> None:
        """Call `listener` with every event, in order, at once."""
        self._listeners.append(listener)

    def emit(self, event: WorldEvent) -> None:
        """Tell the listeners and wake the waiters."""
        for listener in self._listeners:
            listener(event)
        self.changed.notify()

    def user_of_token(self, token: str) -> User | None:
        """The bot that owns the token."""
        bots = (user for user in self.users.values() if user.application)
        return next(
            (bot for bot in bots if bot.application and bot.application.token == token), None
        )

    def channel(self, channel_id: str) -> Channel:
        """The channel, or Discord's 10003."""
        channel = self.channels.get(channel_id)
        if channel is None or channel.deleted:
            raise refused(10003)
        return channel

    def message(self, channel: Channel, message_id: str) -> Message:
        """The message as long as it stands, or Discord's 10008."""
        message = channel.messages.get(message_id)
        if message is None or message.deleted:
            raise refused(10008)
        return message

    def parent(self, channel: Channel) -> Channel:
        """Where permissions come from: a thread's parent, else the channel itself."""
        return self.channels[channel.parent_id] if channel.thread and channel.parent_id else channel

    def permissions(self, user_id: str, channel: Channel) -> set[str]:
        """What the user may do there."""
        home = self.parent(channel)
        if home.is_dm:
            return set(permissions.DEFAULT) if user_id in home.recipient_ids else set()
        if user_id not in self.guilds[home.guild_id or ""].member_ids:
            return set()
        granted, denied = home.granted.get(user_id, ()), home.denied.get(user_id, ())
        names = set(permissions.DEFAULT).union(granted).difference(denied)
        return names if "view_channel" in names else set()

    def may(self, user_id: str, channel: Channel, name: str) -> bool:
        """Whether the user has one permission there."""
        return name in self.permissions(user_id, channel)

    def sees(self, user_id: str, channel: Channel) -> bool:
        """Whether the user sees the channel."""
        return self.may(user_id, channel, "view_channel")

    def threads_of(self, guild_id: str, *, archived: bool) -> Iterator[Channel]:
        """A guild's threads that are archived, or those that are active."""
        for channel in self.channels.values():
            state = channel.thread
            if state is None or channel.guild_id != guild_id or channel.deleted:
                continue
            if state.archived is archived:
                yield channel

    def viewer(self, user_id: str) -> Viewer:
        """How REST shows things to a bot: content only with the privileged intent's flag."""
        application = self.users[user_id].application
        return Viewer(user_id, application is None or application.message_content)

    def add_user(self, user: User) -> User:
        """Enter an account."""
        self.users[user.id] = user
        return user

    def everyone(self, channel: Channel) -> set[str]:
        """Everybody who sees the channel."""
        home = self.parent(channel)
        members: list[Any] = home.recipient_ids
        if home.guild_id:
            members = self.guilds[home.guild_id].member_ids
        return {member for member in members if self.sees(member, channel)}
