"""What people and bots say to us: a message, an interaction, and the sender record that agents read."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from openab.domain.ids import ConversationRef, PlatformId

SENDER_SCHEMA = "openab.sender.v1"
_LONGEST_KEY = 64
_OPENER = re.compile(r"<(?=/?sender_context)", re.IGNORECASE)


class AuthorKind(StrEnum):
    """Who speaks; a webhook counts as a bot."""

    HUMAN = "human"
    BOT = "bot"
    WEBHOOK = "webhook"
    #: This account itself.
    SELF = "self"


class Place(StrEnum):
    """What sort of conversation it is. A thread is a channel with thread metadata, nothing else."""

    CHANNEL = "channel"
    THREAD = "thread"
    DM = "dm"


class MessageKind(StrEnum):
    """Only default messages and replies are ever input."""

    DEFAULT = "default"
    REPLY = "reply"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Author:
    """Who said it."""

    id: PlatformId
    name: str
    #: Guild nickname, else global display name, else `name`.
    display_name: str
    kind: AuthorKind
    role_ids: frozenset[PlatformId] = frozenset()

    @property
    def is_other_bot(self) -> bool:
        """A bot or webhook that is not us."""
        return self.kind in {AuthorKind.BOT, AuthorKind.WEBHOOK}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message; its content is not fetched here."""

    name: str
    content_type: str
    size: int
    url: str


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """One message as the channel reported it, live or from history."""

    conversation: ConversationRef
    place: Place
    message_id: PlatformId
    author: Author
    text: str
    sent_at: datetime
    kind: MessageKind = MessageKind.DEFAULT
    #: User ids written literally in the text (`<@id>`, `<@!id>`); a reply-ping is no mention.
    mentioned_users: frozenset[PlatformId] = frozenset()
    #: Role ids written literally in the text.
    mentioned_roles: frozenset[PlatformId] = frozenset()
    #: Those of the mentioned users that are other bots.
    mentioned_bots: frozenset[PlatformId] = frozenset()
    #: The roles that the network made for this account; people's autocompletion often picks one.
    managed_roles: frozenset[PlatformId] = frozenset()
    #: SUPPRESS_NOTIFICATIONS.
    silent: bool = False
    edited: bool = False
    from_history: bool = False
    #: The nonce of our own message, where the echo carries it.
    nonce: str | None = None
    attachments: tuple[Attachment, ...] = ()
    #: Who opened the thread, where it is one.
    thread_owner: PlatformId | None = None


@dataclass(frozen=True, slots=True)
class InboundReaction:
    """Somebody put an emoji on a message."""

    conversation: ConversationRef
    place: Place
    #: The message that was reacted to.
    message_id: PlatformId
    author: Author
    emoji: str
    reacted_at: datetime
    #: A server's own emoji, of which `emoji` is the name.
    is_custom: bool = False
    #: Who wrote the message, where the network tells.
    message_author: PlatformId | None = None
    #: Who opened the thread, where it is one.
    thread_owner: PlatformId | None = None

    @property
    def key(self) -> str:
        """What makes it single, in at most 64 characters: one person's one emoji on one message."""
        stem = f"{self.message_id}:{self.author.id}:"
        written = stem + self.emoji
        if len(written) <= _LONGEST_KEY:
            return written
        return stem + hashlib.sha256(self.emoji.encode(errors="surrogatepass")).hexdigest()[:16]


class CommandKind(StrEnum):
    """What a person can ask of the broker itself."""

    #: Stop one turn; a button's argument names which.
    CANCEL = "cancel"
    CANCEL_ALL = "cancel-all"
    #: Go on with the turn that a restart interrupted; a button's argument is `TURN:ATTEMPT`.
    CONTINUE = "continue"
    RESET = "reset"
    MODELS = "models"
    AGENTS = "agents"
    USAGE = "usage"
    SESSIONS = "sessions"
    #: Give a task to a sub-agent.
    SPAWN = "spawn"
    #: Bind the conversation to a session that there is.
    FOCUS = "focus"
    UNFOCUS = "unfocus"
    #: Show what the conversation is bound to, or change how long.
    SESSION = "session"
    #: A menu's option was picked; its argument names the option, `values` holds the pick.
    CHOOSE = "config"
    #: Another page of a menu or list; its argument is `WHAT:PAGE`.
    PAGE = "page"
    #: An answer to an agent's question; its argument is `TURN:QUESTION:OPTION`, the last two numbers.
    PERMIT = "permit"
    #: What could not be delivered is to be sent again; its argument names the delivery or the turn.
    RESEND = "resend"


@dataclass(frozen=True, slots=True)
class InboundCommand:
    """A slash command or button press; `interaction_id` makes it single, the adapter answers it."""

    conversation: ConversationRef
    place: Place
    interaction_id: PlatformId
    author: Author
    kind: CommandKind
    #: For a button: what stands in its custom id behind `openab:KIND:`.
    argument: str = ""
    #: For a slash command: what was filled in, by name.
    options: Mapping[str, str] = field(default_factory=dict)
    #: For a menu: what was picked.
    values: tuple[str, ...] = ()


def sender_record(message: InboundMessage) -> Mapping[str, object]:
    """The eleven keys of `openab.sender.v1`. In a thread `channel_id` is the parent, `thread_id` the thread."""
    ref = message.conversation
    in_thread = message.place is Place.THREAD
    return {
        "schema": SENDER_SCHEMA,
        "sender_id": message.author.id,
        "sender_name": message.author.name,
        "display_name": message.author.display_name,
        "channel": ref.channel,
        "channel_id": (ref.parent_conversation_id or ref.conversation_id)
        if in_thread
        else ref.conversation_id,
        "thread_id": ref.conversation_id if in_thread else None,
        "is_bot": message.author.kind is not AuthorKind.HUMAN,
        "timestamp": message.sent_at.isoformat().replace("+00:00", "Z"),
        "message_id": message.message_id,
        "receiver_id": ref.account,
    }


def sender_block(record: Mapping[str, object]) -> str:
    """The record as the text block that opens each arrival; `<` is escaped so that nothing in it closes the block."""
    line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f"<sender_context>\n{line}\n</sender_context>"


def defuse(text: str) -> str:
    """Make a forged `<sender_context>` in anybody's text harmless: its `<` becomes `&lt;`."""
    return _OPENER.sub("&lt;", text)
