"""How often bots have spoken since a person did, and who says when that is enough.

Counted before anything is gated, our own messages included. A run of one bot's messages counts as
one; presentation messages (placeholders, notices, this very warning) and system messages count
none; only a person's text begins anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from openab.domain.gates.policy import GatePolicy
from openab.domain.ids import AccountId, PlatformId, snowflake
from openab.domain.message import AuthorKind, InboundMessage, MessageKind
from openab.domain.outbound import is_presentation

#: Whatever the configuration says.
HARD_CAP = 1000
#: The others that are remembered; more than a conversation ever has.
_MOST_BOTS = 20


@dataclass(frozen=True, slots=True)
class BotTurns:
    """The count in one conversation."""

    turns: int = 0
    #: Other bots' messages since a person spoke.
    messages: int = 0
    last_author: PlatformId | None = None
    #: The person's message that began the count.
    last_human: PlatformId | None = None
    #: Every other bot that ever spoke here; a person's message does not change that.
    other_bots: tuple[PlatformId, ...] = ()


def counted(before: BotTurns, message: InboundMessage) -> BotTurns:
    """The count with this message."""
    if message.kind is MessageKind.SYSTEM:
        return before
    if message.author.kind is AuthorKind.HUMAN:
        return _begun_anew(before, message) if message.text.strip() else before
    known = before.other_bots
    if message.author.is_other_bot and message.author.id not in known:
        known = (*known, message.author.id)[-_MOST_BOTS:]
    if is_presentation(message.text, silent=message.silent):
        return replace(before, other_bots=known)
    author = message.author.id
    return replace(
        before,
        turns=before.turns + (author != before.last_author),
        messages=before.messages + message.author.is_other_bot,
        last_author=author,
        other_bots=known,
    )


def _begun_anew(before: BotTurns, message: InboundMessage) -> BotTurns:
    if before.last_human and snowflake(message.message_id) < snowflake(before.last_human):
        # One that came late: the count has begun anew behind it already.
        return before
    return BotTurns(last_human=message.message_id, other_bots=before.other_bots)


def cap_of(policy: GatePolicy) -> int:
    """The bot turn at which a person has to speak first."""
    return max(1, min(policy.max_bot_turns, HARD_CAP))


def exceeds_cap(turns: BotTurns, policy: GatePolicy) -> bool:
    """Whether bots are not heard any more."""
    return turns.turns >= cap_of(policy)


def warns(before: BotTurns, after: BotTurns, policy: GatePolicy) -> bool:
    """Whether exactly this message used up the bot turns; alone among people we never do."""
    cap = cap_of(policy)
    return before.turns < cap <= after.turns and bool(after.other_bots)


def warns_as(account: AccountId, other_bots: Sequence[PlatformId]) -> int:
    """Our place among the bots here; each waits for those before it, so that one of them warns."""
    return sum(snowflake(bot) < snowflake(account) for bot in other_bots)
