"""May this message start a turn? Ordered checks, each with its own reason word; one verdict.

Pure: what the database and the configuration know comes in as values. The order is OpenAB's, with
its defects mended (other bots are noted before this is asked; a stranger who did not address the
bot is not told off; edits and presentation messages are never input).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from openab.domain.commands import text_command
from openab.domain.ids import AccountId, PlatformId
from openab.domain.message import AuthorKind, CommandKind, InboundMessage, MessageKind, Place
from openab.domain.outbound import is_presentation


class Disposition(StrEnum):
    """What becomes of an event."""

    TURN = "turn"
    COMMAND = "command"
    IGNORED = "ignored"
    #: Somebody addressed the bot who may not: they are told by a reaction.
    REFUSED = "refused"
    ECHO = "echo"


class BotMode(StrEnum):
    """Which messages of other bots may be input."""

    OFF = "off"
    MENTIONS = "mentions"


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """The configuration's part. A list that is None lets everybody in."""

    account: AccountId
    allowed_channels: frozenset[str] | None = None
    allowed_users: frozenset[str] | None = None
    bot_mode: BotMode = BotMode.OFF
    trusted_bots: frozenset[str] = frozenset()
    allow_dm: bool = False


@dataclass(frozen=True, slots=True)
class ConversationFacts:
    """The database's part: what is known of the conversation before this message."""

    #: The bot owns the thread or has posted in it.
    is_involved: bool = False
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision, and why; `reason` is a constant word that `openab why` explains."""

    disposition: Disposition
    reason: str
    command: CommandKind | None = None
    #: The turn's conversation is a thread that has yet to be opened on the message.
    opens_thread: bool = False


@dataclass(frozen=True, slots=True)
class _Case:
    message: InboundMessage
    text: str
    facts: ConversationFacts
    policy: GatePolicy

    @property
    def is_mentioned(self) -> bool:
        return PlatformId(self.policy.account) in self.message.mentioned_users

    @property
    def is_trusted(self) -> bool:
        return self.message.author.id in self.policy.trusted_bots


def judge(
    message: InboundMessage, text: str, facts: ConversationFacts, policy: GatePolicy
) -> Verdict:
    """The verdict on a message. `text` is its prompt text: our own mention is cut out already."""
    case = _Case(message, text, facts, policy)
    for check in _CHECKS:
        verdict = check(case)
        if verdict is not None:
            return verdict
    command = text_command(text)
    if command:
        return Verdict(Disposition.COMMAND, "text_command", command=command.kind)
    return Verdict(Disposition.TURN, "accepted", opens_thread=message.place is Place.CHANNEL)


def may_use(
    author_id: PlatformId, conversation_id: str, parent_id: str | None, policy: GatePolicy
) -> str | None:
    """The lists alone, for commands and buttons: None if allowed, else the reason word."""
    if not _is_channel_allowed(conversation_id, parent_id, policy):
        return "channel_not_allowed"
    if policy.allowed_users is not None and author_id not in policy.allowed_users:
        return "user_not_allowed"
    return None


def _is_channel_allowed(conversation_id: str, parent_id: str | None, policy: GatePolicy) -> bool:
    allowed = policy.allowed_channels
    return allowed is None or conversation_id in allowed or (parent_id or "") in allowed


def _ignored(reason: str) -> Verdict:
    return Verdict(Disposition.IGNORED, reason)


def _own_echo(case: _Case) -> Verdict | None:
    own = case.message.author.kind is AuthorKind.SELF
    return Verdict(Disposition.ECHO, "own_message") if own else None


def _kind(case: _Case) -> Verdict | None:
    return _ignored("system_message") if case.message.kind is MessageKind.SYSTEM else None


def _presentation(case: _Case) -> Verdict | None:
    message = case.message
    if not message.author.is_other_bot:
        return None
    if is_presentation(message.text, silent=message.silent):
        return _ignored("presentation")
    # From history it cannot be told whether an edited or silent message was ever complete.
    if message.from_history and (message.silent or message.edited):
        return _ignored("presentation_history")
    return None


def _edited(case: _Case) -> Verdict | None:
    live_edit = case.message.edited and not case.message.from_history
    return _ignored("edited") if live_edit else None


def _bots(case: _Case) -> Verdict | None:
    if not case.message.author.is_other_bot:
        return None
    if case.is_trusted and case.is_mentioned:
        return None
    if case.policy.bot_mode is BotMode.OFF:
        return _ignored("bots_off")
    if case.policy.trusted_bots and not case.is_trusted:
        return _ignored("bot_not_trusted")
    return None if case.is_mentioned else _ignored("bot_without_mention")


def _where(case: _Case) -> Verdict | None:
    message, policy = case.message, case.policy
    if case.facts.is_closed:
        return _ignored("conversation_gone")
    if message.place is Place.DM:
        return None if policy.allow_dm else _ignored("dm_off")
    ref = message.conversation
    # Only a thread has a parent that counts; a channel's category does not.
    parent = ref.parent_conversation_id if message.place is Place.THREAD else None
    allowed = _is_channel_allowed(ref.conversation_id, parent, policy)
    return None if allowed else _ignored("channel_not_allowed")


def _addressed(case: _Case) -> Verdict | None:
    if case.is_mentioned or case.message.place is Place.DM:
        return None
    if case.message.place is Place.CHANNEL:
        return _ignored("not_mentioned")
    return None if case.facts.is_involved else _ignored("not_involved")


def _user_list(case: _Case) -> Verdict | None:
    message, users = case.message, case.policy.allowed_users
    if message.author.is_other_bot or users is None or message.author.id in users:
        return None
    if case.is_mentioned or message.place is Place.DM:
        return Verdict(Disposition.REFUSED, "user_not_allowed")
    return _ignored("user_not_allowed")


def _empty(case: _Case) -> Verdict | None:
    blank = not case.text.strip() and not case.message.attachments
    return _ignored("empty") if blank else None


_CHECKS: tuple[Callable[[_Case], Verdict | None], ...] = (
    _own_echo,
    _kind,
    _presentation,
    _edited,
    _bots,
    _where,
    _addressed,
    _user_list,
    _empty,
)

#: What each reason word means and what can be done, for `openab why`.
REASONS: dict[str, str] = {
    "accepted": "it started a turn",
    "text_command": "it is a command to the broker itself",
    "own_message": "the bot wrote it",
    "system_message": "only ordinary messages and replies are input",
    "presentation": "it is another openab's placeholder or notice, which is never input",
    "presentation_history": "a bot's silent or edited message read from history is never input",
    "edited": "edits never start a turn; write a new message",
    "bots_off": "messages of bots are off: set [discord].allow_bot_messages or trusted_bot_ids",
    "bot_not_trusted": "the bot is not in [discord].trusted_bot_ids",
    "bot_without_mention": "a bot must mention this bot to be heard",
    "conversation_gone": "Discord said that this conversation is gone",
    "dm_off": "direct messages are off: set [discord].allow_dm",
    "channel_not_allowed": "the channel is not in [discord].allowed_channels",
    "not_mentioned": "in a channel the bot answers only when it is mentioned",
    "not_involved": "the bot has no part in this thread; mention it",
    "user_not_allowed": "the author is not in [discord].allowed_users",
    "empty": "there is neither text nor an attachment",
    "unreadable": "it could not be understood; the log of that moment says why",
}
