"""May somebody's reaction start a turn? The mapping, and the checks in their order."""

from collections.abc import Mapping

from openab.domain.commands import text_command
from openab.domain.gates.access import is_user_allowed, place_refusal
from openab.domain.gates.policy import ConversationFacts, GatePolicy, UserMode
from openab.domain.gates.verdicts import Disposition, Verdict, command_verdict, ignored
from openab.domain.message import AuthorKind, InboundReaction, Place

_VARIATION = "\N{VARIATION SELECTOR-16}"


def plain_emoji(emoji: str) -> str:
    """The same emoji in the one spelling that is compared: without variation selectors."""
    return emoji.replace(_VARIATION, "")


def mapped_text(reaction: InboundReaction, mapping: Mapping[str, str]) -> str | None:
    """What the reaction says, or None. A custom emoji says nothing, whatever its name."""
    return None if reaction.is_custom else mapping.get(plain_emoji(reaction.emoji))


def judge_reaction(
    reaction: InboundReaction, text: str, facts: ConversationFacts, policy: GatePolicy
) -> Verdict:
    """The verdict on a reaction that says `text`."""
    refusal = (
        _who_reacts(reaction)
        or _where(reaction, facts, policy)
        or _in_what_mode(reaction, facts, policy)
    )
    if refusal is not None:
        return ignored(refusal)
    if not is_user_allowed(reaction.author, policy):
        return ignored("user_not_allowed")
    if not text.strip():
        return ignored("empty")
    command = text_command(text)
    if command:
        return command_verdict(command)
    return Verdict(Disposition.TURN, "reaction")


def _who_reacts(reaction: InboundReaction) -> str | None:
    if reaction.author.kind is AuthorKind.SELF:
        return "own_reaction"
    return "bot_reaction" if reaction.author.is_other_bot else None


def _where(reaction: InboundReaction, facts: ConversationFacts, policy: GatePolicy) -> str | None:
    if facts.is_closed:
        return "conversation_gone"
    ref = reaction.conversation
    refusal = place_refusal(reaction.place, ref.conversation_id, ref.parent_conversation_id, policy)
    if refusal is None and reaction.place is Place.CHANNEL:
        return "reaction_outside_thread"
    return refusal


def _in_what_mode(
    reaction: InboundReaction, facts: ConversationFacts, policy: GatePolicy
) -> str | None:
    if policy.user_mode is UserMode.MENTIONS:
        return "mention_needed"
    if reaction.place is Place.DM:
        return None
    if not facts.is_involved:
        return "not_involved"
    is_ours = reaction.message_author == str(policy.account)
    return "reaction_among_bots" if facts.has_other_bot and not is_ours else None
