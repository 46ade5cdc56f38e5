"""May a hand-off be tried? What is judged of a claim before anything is spent."""

from datetime import datetime

from openab.domain.gates.access import place_refusal
from openab.domain.gates.policy import ConversationFacts, GatePolicy
from openab.domain.gates.verdicts import Verdict, ignored
from openab.domain.handoff import SCHEMA_FAMILY, Candidate, Envelope, Receiver, Refusal, judged
from openab.domain.handoff import candidate as claimed
from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind, InboundMessage, MessageKind


def may_claim(message: InboundMessage) -> bool:
    """Whether it is worth looking closely; cheap, and no more than a hint."""
    return message.author.is_other_bot and SCHEMA_FAMILY in message.text


def claim_of(message: InboundMessage) -> Candidate | None:
    """The message's claim to be a hand-off; None: it is judged as any other message is.

    Edits and system messages make none. Nor do our own messages, unless they name ourselves: those
    that we send come back as echoes.
    """
    is_edit = message.edited and not message.from_history
    if is_edit or message.kind is MessageKind.SYSTEM:
        return None
    claim = claimed(message.text, message.author.kind)
    is_own = message.author.kind is AuthorKind.SELF
    return None if claim and is_own and claim.named != _us(message) else claim


def judge_handoff(
    claim: Candidate,
    message: InboundMessage,
    facts: ConversationFacts,
    policy: GatePolicy,
    now: datetime,
) -> Envelope | Refusal | Verdict:
    """The envelope, if it may be tried; else the first reason against it, or why it is ignored."""
    if message.from_history and (message.silent or message.edited):
        # It cannot be told whether this was ever one complete message.
        return ignored("presentation_history")
    if not _is_addressed(claim, message, policy):
        return ignored("handoff_for_other_bot")
    here = message.conversation.conversation_id
    receiver = Receiver(policy.account, here, policy.trusted_bots, now)
    found = judged(claim, message.author.id, receiver)
    return found if isinstance(found, Refusal) else _gate(message, facts, policy) or found


def _us(message: InboundMessage) -> PlatformId:
    return PlatformId(message.conversation.account)


def _is_addressed(claim: Candidate, message: InboundMessage, policy: GatePolicy) -> bool:
    """By name, or by a role that stands for us: that is no hand-off either, and is told."""
    if claim.named is not None:
        return claim.named == _us(message)
    return bool(message.mentioned_roles & (policy.own_roles | message.managed_roles))


def _gate(message: InboundMessage, facts: ConversationFacts, policy: GatePolicy) -> Refusal | None:
    if facts.is_closed:
        return Refusal.CONVERSATION_GONE
    ref = message.conversation
    refusal = place_refusal(message.place, ref.conversation_id, ref.parent_conversation_id, policy)
    if refusal is not None:
        return Refusal(refusal)
    return Refusal.BOT_TURN_CAP if facts.is_capped else None
