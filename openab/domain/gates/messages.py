"""May a message start a turn? The checks, in their order."""

from collections.abc import Callable
from dataclasses import dataclass

from openab.domain.commands import text_command
from openab.domain.gates.access import is_user_allowed, place_refusal
from openab.domain.gates.policy import BotMode, ConversationFacts, GatePolicy, UserMode
from openab.domain.gates.verdicts import Disposition, Verdict, command_verdict, ignored
from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind, InboundMessage, MessageKind, Place
from openab.domain.outbound import is_presentation

#: So many messages of other bots without a person between them are a loop, not a conversation.
LOOP_GUARD = 1000


@dataclass(frozen=True, slots=True)
class _Case:
    message: InboundMessage
    text: str
    facts: ConversationFacts
    policy: GatePolicy

    @property
    def is_from_bot(self) -> bool:
        return self.message.author.is_other_bot

    @property
    def is_mentioned(self) -> bool:
        """By name, or by a role that stands for us."""
        roles = self.message.mentioned_roles
        return PlatformId(self.policy.account) in self.message.mentioned_users or bool(
            roles & self.policy.own_roles or roles & self.message.managed_roles
        )

    @property
    def is_addressed(self) -> bool:
        return self.is_mentioned or self.message.place is Place.DM

    @property
    def is_trusted(self) -> bool:
        return self.message.author.id in self.policy.trusted_bots

    @property
    def gathers_run(self) -> bool:
        return self.is_from_bot and self.policy.bot_mode is BotMode.ALL


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
        return command_verdict(command)
    if case.gathers_run and facts.has_open_run:
        return Verdict(Disposition.TURN, "joined_run", gathers_run=True)
    return Verdict(
        Disposition.TURN,
        "accepted",
        opens_thread=message.place is Place.CHANNEL,
        gathers_run=case.gathers_run,
    )


def _own_echo(case: _Case) -> Verdict | None:
    own = case.message.author.kind is AuthorKind.SELF
    return Verdict(Disposition.ECHO, "own_message") if own else None


def _kind(case: _Case) -> Verdict | None:
    return ignored("system_message") if case.message.kind is MessageKind.SYSTEM else None


def _presentation(case: _Case) -> Verdict | None:
    message = case.message
    if not case.is_from_bot:
        return None
    if is_presentation(message.text, silent=message.silent):
        return ignored("presentation")
    # From history it cannot be told whether an edited or silent message was ever complete.
    if message.from_history and (message.silent or message.edited):
        return ignored("presentation_history")
    return None


def _edited(case: _Case) -> Verdict | None:
    live_edit = case.message.edited and not case.message.from_history
    return ignored("edited") if live_edit else None


def _cap(case: _Case) -> Verdict | None:
    return ignored("bot_turn_cap") if case.is_from_bot and case.facts.is_capped else None


def _bots(case: _Case) -> Verdict | None:
    if not case.is_from_bot:
        return None
    if case.is_trusted and case.is_mentioned:
        return None
    if case.policy.bot_mode is BotMode.OFF:
        return ignored("bots_off")
    if case.policy.trusted_bots and not case.is_trusted:
        return ignored("bot_not_trusted")
    if case.policy.bot_mode is BotMode.ALL:
        return ignored("bot_loop") if case.facts.bot_messages > LOOP_GUARD else None
    return None if case.is_mentioned else ignored("bot_without_mention")


def _where(case: _Case) -> Verdict | None:
    if case.facts.is_closed:
        return ignored("conversation_gone")
    ref = case.message.conversation
    refusal = place_refusal(
        case.message.place, ref.conversation_id, ref.parent_conversation_id, case.policy
    )
    return ignored(refusal) if refusal else None


def _meant_for_others(case: _Case) -> Verdict | None:
    """Whoever names another bot and not us; in mode `involved` that is heard, too, unless peers are listed."""
    message, policy = case.message, case.policy
    minds = policy.peer_roles or policy.user_mode is UserMode.MULTIBOT_MENTIONS
    names_others = message.mentioned_roles & policy.peer_roles or (minds and message.mentioned_bots)
    return ignored("meant_for_other_bot") if names_others and not case.is_addressed else None


def _addressed(case: _Case) -> Verdict | None:
    if case.is_addressed or (case.gathers_run and case.facts.has_open_run):
        return None
    if case.message.place is Place.CHANNEL:
        return ignored("not_mentioned")
    if not case.facts.is_involved:
        return ignored("not_involved")
    return None if case.is_from_bot else _user_mode(case)


def _user_mode(case: _Case) -> Verdict | None:
    mode = case.policy.user_mode
    if mode is UserMode.MENTIONS:
        return ignored("mention_needed")
    if mode is UserMode.MULTIBOT_MENTIONS and case.facts.has_other_bot:
        return ignored("mention_needed_among_bots")
    return None


def _user_list(case: _Case) -> Verdict | None:
    if is_user_allowed(case.message.author, case.policy):
        return None
    if case.is_addressed:
        return Verdict(Disposition.REFUSED, "user_not_allowed")
    return ignored("user_not_allowed")


def _empty(case: _Case) -> Verdict | None:
    blank = not case.text.strip() and not case.message.attachments
    return ignored("empty") if blank else None


_CHECKS: tuple[Callable[[_Case], Verdict | None], ...] = (
    _own_echo,
    _kind,
    _presentation,
    _edited,
    _cap,
    _bots,
    _where,
    _meant_for_others,
    _addressed,
    _user_list,
    _empty,
)
