"""What the gates are told: the configuration's part, and the database's part."""

from dataclasses import dataclass
from enum import StrEnum

from openab.domain.ids import AccountId


class BotMode(StrEnum):
    """Which messages of other bots may be input."""

    OFF = "off"
    MENTIONS = "mentions"
    #: Without a mention too, in threads that we take part in; a run of one bot's is one input.
    ALL = "all"


class UserMode(StrEnum):
    """When a person has to mention the bot. In a channel they always have to."""

    INVOLVED = "involved"
    MENTIONS = "mentions"
    #: As `involved`, until another bot has spoken in the thread.
    MULTIBOT_MENTIONS = "multibot-mentions"


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """The configuration's part. A list that is None lets everybody in."""

    account: AccountId
    allowed_channels: frozenset[str] | None = None
    allowed_users: frozenset[str] | None = None
    bot_mode: BotMode = BotMode.OFF
    trusted_bots: frozenset[str] = frozenset()
    allow_dm: bool = False
    user_mode: UserMode = UserMode.MULTIBOT_MENTIONS
    #: A mention of one of these roles is a mention of us.
    own_roles: frozenset[str] = frozenset()
    #: A mention of one of these is meant for other bots; if there are any, so is a bot's own mention.
    peer_roles: frozenset[str] = frozenset()
    #: Bot turns in a row, after which a person has to speak.
    max_bot_turns: int = 100


@dataclass(frozen=True, slots=True)
class ConversationFacts:
    """The database's part: what is known of the conversation, this message counted already."""

    #: The bot owns the thread or has posted in it.
    is_involved: bool = False
    is_closed: bool = False
    has_other_bot: bool = False
    #: Bots have spoken as often as they may before a person speaks.
    is_capped: bool = False
    #: Other bots' messages since a person spoke.
    bot_messages: int = 0
    #: A turn that began with the same bot's message waits for the rest of its run.
    has_open_run: bool = False
