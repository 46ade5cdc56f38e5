"""A type per kind of id, and the references that are made of them.

Platform ids (Discord snowflakes) are decimal strings end to end: they do not fit a float, and
nothing but the channel's adapter may look inside them, except for their order (`snowflake`).
"""

from dataclasses import dataclass
from typing import NewType

#: A chat network's name, for instance `discord`.
ChannelName = NewType("ChannelName", str)
#: The bot's own user id on a channel.
AccountId = NewType("AccountId", str)
#: An id made by the chat network: message, user, thread, channel, role, interaction.
PlatformId = NewType("PlatformId", str)
#: A row of `conversations`.
ConversationId = NewType("ConversationId", str)
#: A row of `turns`.
TurnId = NewType("TurnId", str)
#: A row of `deliveries`.
DeliveryId = NewType("DeliveryId", str)
#: `channel:account:conversation[:agent]`.
SessionKey = NewType("SessionKey", str)
#: A row of `bindings`.
BindingId = NewType("BindingId", str)
#: A row of `spawns`.
SpawnId = NewType("SpawnId", str)
#: One life of a broker process.
WorkerId = NewType("WorkerId", str)
#: One life of an agent host.
Incarnation = NewType("Incarnation", str)
#: The id an agent gave to its session.
AcpSessionId = NewType("AcpSessionId", str)


@dataclass(frozen=True, slots=True)
class ConversationRef:
    """Where people talk. Identity is (channel, account, conversation_id); the parent is a fact about it."""

    channel: ChannelName
    account: AccountId
    conversation_id: PlatformId
    parent_conversation_id: PlatformId | None = None

    def session_key(self, agent: str | None = None) -> SessionKey:
        """The key of the session that `agent` (None: the default agent) has here."""
        key = f"{self.channel}:{self.account}:{self.conversation_id}"
        return SessionKey(f"{key}:{agent}" if agent else key)


def named_agent(key: SessionKey) -> str | None:
    """Which of the named agents a session is of; None: the default agent's."""
    parts = key.split(":", 3)
    return parts[3] if len(parts) > 3 else None


def home_of(key: SessionKey) -> PlatformId | None:
    """The conversation that a session began in, as its key names it; None: it names none."""
    parts = key.split(":", 3)
    return PlatformId(parts[2]) if len(parts) > 2 and parts[2].isdecimal() else None


@dataclass(frozen=True, slots=True)
class MessageRef:
    """One message on the chat network: the channel or thread it stands in, and its id there."""

    conversation_id: PlatformId
    message_id: PlatformId


def snowflake(value: str) -> int:
    """The ordering number of a platform id (Discord: 42 bits of milliseconds, then a counter)."""
    return int(value)
