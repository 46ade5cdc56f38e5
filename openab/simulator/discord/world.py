"""The state of the loopback Discord: users, guilds, channels and messages; pure, no sockets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from openab.simulator.discord import permissions
from openab.simulator.discord.clock import Clock, Snowflakes
from openab.simulator.discord.errors import Json, refused
from openab.simulator.discord.signals import Signal

TEXT_CHANNEL, DM_CHANNEL, PUBLIC_THREAD = 0, 1, 11
DEFAULT_MESSAGE, THREAD_CREATED, REPLY, CHAT_INPUT, THREAD_STARTER = 0, 18, 19, 20, 21
SUPPRESS_EMBEDS, HAS_THREAD, EPHEMERAL, LOADING = 1 << 2, 1 << 5, 1 << 6, 1 << 7
SUPPRESS_NOTIFICATIONS, COMPONENTS_V2 = 1 << 12, 1 << 15


@dataclass(eq=False)
class Application:
    """A bot's application: its token, what it may ask for, its commands."""

    token: str
    message_content: bool = True
    #: Guild id ("" for global) → commands as Discord returns them.
    commands: dict[str, list[Json]] = field(default_factory=dict)


@dataclass(eq=False)
class User:
    """An account: a person, a bot (it has an application) or a webhook's face."""

    id: str
    name: str
    application: Application | None = None
    webhook: bool = False

    @property
    def is_bot(self) -> bool:
        """Whether messages of this account carry `bot: true`."""
        return self.application is not None or self.webhook


@dataclass(eq=False)
class Role:
    """A guild's role; a bot's managed role names its bot."""

    id: str
    name: str
    permissions: int = 0
    mentionable: bool = False
    bot_id: str | None = None
    member_ids: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Guild:
    """A server."""

    id: str
    name: str
    owner_id: str
    roles: dict[str, Role] = field(default_factory=dict)
    member_ids: list[str] = field(default_factory=list)


@dataclass(eq=False)
class ThreadState:
    """What only a thread has."""

    owner_id: str
    created_at: datetime
    archived_at: datetime
    archived: bool = False
    locked: bool = False
    auto_archive_minutes: int = 1440
    #: Member id → when they joined.
    members: dict[str, datetime] = field(default_factory=dict)
    total_sent: int = 0


@dataclass(eq=False)
class Attachment:
    """A file of a message."""

    id: str
    filename: str
    content: bytes
    content_type: str
    url: str = ""


@dataclass(frozen=True)
class Edit:
    """One edit of a message's content: what it became, and when."""

    content: str
    at: datetime


@dataclass(eq=False)
class Message:
    """A message with its whole past; `pings` is fixed at creation, since edits notify nobody."""

    id: str
    channel_id: str
    author: User
    content: str
    created_at: datetime
    type: int = DEFAULT_MESSAGE
    flags: int = 0
    nonce: str | int | None = None
    allowed_mentions: Json | None = None
    mention_ids: list[str] = field(default_factory=list)
    mention_role_ids: list[str] = field(default_factory=list)
    mention_everyone: bool = False
    #: User ids that were notified by this message.
    pings: frozenset[str] = frozenset()
    reference: Json | None = None
    referenced: "Message | None" = None
    components: list[Json] = field(default_factory=list)
    embeds: list[Json] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    #: Emoji → the ids of those who reacted, in order.
    reactions: dict[str, list[str]] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    edited_at: datetime | None = None
    old_edits: int = 0
    deleted: bool = False
    webhook_id: str | None = None
    application_id: str | None = None
    interaction: Json | None = None
    ephemeral_for: str | None = None

    @property
    def is_system(self) -> bool:
        """Whether Discord wrote it (a thread was made, a thread's starter)."""
        return self.type in {THREAD_CREATED, THREAD_STARTER}

    @property
    def contents(self) -> list[str]:
        """Every content this message has shown, first to last."""
        return [edit.content for edit in self.edits] or [self.content]


@dataclass(eq=False)
class Channel:
    """A text channel, a DM or a thread."""

    id: str
    type: int
    name: str
    guild_id: str | None = None
    parent_id: str | None = None
    recipient_ids: list[str] = field(default_factory=list)
    thread: ThreadState | None = None
    messages: dict[str, Message] = field(default_factory=dict)
    granted: dict[str, set[str]] = field(default_factory=dict)
    denied: dict[str, set[str]] = field(default_factory=dict)
    last_message_id: str | None = None
    deleted: bool = False

    @property
    def is_dm(self) -> bool:
        """Whether it is a direct conversation."""
        return self.type == DM_CHANNEL


@dataclass(eq=False)
class Webhook:
    """A channel's webhook with its secret token."""

    id: str
    token: str
    channel_id: str
    guild_id: str
    name: str
    creator_id: str
    deleted: bool = False


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
