"""The records of the loopback Discord's tables: accounts, guilds, channels, messages."""

from dataclasses import dataclass, field
from datetime import datetime

from openab.simulator.discord.errors import Json

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
    #: The bot that made it; None: a person did.
    application_id: str | None = None
    deleted: bool = False
