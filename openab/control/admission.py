"""What becomes of one event: noted, judged, and followed by its rows, all in the caller's transaction."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import structlog

from openab.control.bot_turn_cap import owe_warning
from openab.control.commands_text import answer_by_text
from openab.control.entries import Duplicate, entry_of
from openab.control.handoff_intake import HandoffIntake
from openab.control.reception import Reception, accept
from openab.control.settings import Settings
from openab.domain.gates import (
    BotMode,
    ConversationFacts,
    Disposition,
    GatePolicy,
    Verdict,
    after_absence,
    claim_of,
    exceeds_cap,
    judge,
    judge_reaction,
    place_refusal,
    warns,
)
from openab.domain.handoff import Candidate
from openab.domain.ids import ConversationId, MessageRef, PlatformId, TurnId, snowflake
from openab.domain.message import AuthorKind, InboundMessage, InboundReaction
from openab.domain.outbound import content_digest, is_presentation
from openab.storage import (
    absences,
    bot_runs,
    conversations,
    deliveries,
    inbox,
    participation,
    webhooks,
)
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.ids import new_id
from openab.storage.inbox import Entry
from openab.text.mentions import prompt_text

log = structlog.get_logger()
#: What asks something of us, and so may be asked too late.
_ASKS = frozenset({Disposition.TURN, Disposition.COMMAND})


class Admission:
    """Decides on the events of one account. `wake` and `refuse` are called after the commit."""

    def __init__(
        self,
        settings: Settings,
        wake: Callable[[ConversationId], None],
        refuse: Callable[[MessageRef], None],
        handoffs: HandoffIntake,
    ) -> None:
        self._settings = settings
        self._handoffs = handoffs
        self._wake = wake
        self._refuse = refuse

    async def message(self, tx: Transaction, message: InboundMessage) -> Verdict:
        """Take one message. Raises Duplicate."""
        settings = self._settings
        policy = settings.policy()
        message = await self._attributed(tx, message)
        here = await self._noted(tx, message, policy)
        run = await self._run(tx, here, message, policy)
        claim = claim_of(message)
        if claim is not None:
            return await self._handoff(tx, message, here, claim, policy)
        roles = policy.own_roles | message.managed_roles
        text = prompt_text(message.text, settings.account, roles)
        verdict = judge(message, text, _facts(here, policy, is_run_open=run is not None), policy)
        if message.from_history:
            verdict = await self._after_absence(tx, message, verdict)
        log.debug("event_judged", message_id=message.message_id, reason=verdict.reason)
        reception = Reception(message, text, here, verdict, run=run)
        await self._follow(tx, reception, entry_of(settings, message, verdict))
        return verdict

    async def _attributed(self, tx: Transaction, message: InboundMessage) -> InboundMessage:
        """What a webhook of ours has said is our own word; every other webhook is somebody else."""
        author, account = message.author, self._settings.account
        if author.kind is not AuthorKind.WEBHOOK:
            return message
        # History may have what a webhook said that is gone since.
        is_ours = await webhooks.is_ours(tx, account, author.id) or await deliveries.is_claimed(
            tx, account, message.message_id
        )
        return (
            replace(message, author=replace(author, kind=AuthorKind.SELF)) if is_ours else message
        )

    async def _handoff(
        self,
        tx: Transaction,
        message: InboundMessage,
        here: Conversation,
        claim: Candidate,
        policy: GatePolicy,
    ) -> Verdict:
        """What claims to be a hand-off is one, or nothing: it is never read as a prompt."""
        facts = _facts(here, policy)
        verdict = await self._handoffs.take(tx, message, here, claim, facts, policy)
        log.debug("handoff_judged", message_id=message.message_id, reason=verdict.reason)
        return verdict

    async def reaction(self, tx: Transaction, reaction: InboundReaction, text: str) -> Verdict:
        """Take one reaction, which says `text`. Raises Duplicate."""
        settings, policy = self._settings, self._settings.policy()
        here = await conversations.ensure(tx, reaction.conversation, reaction.place)
        if reaction.thread_owner == str(settings.account):
            here = await participation.note_part(tx, here)
        verdict = judge_reaction(reaction, text, _facts(here, policy), policy)
        log.debug("reaction_judged", message_id=reaction.message_id, reason=verdict.reason)
        reception = Reception(
            _as_message(reaction, text),
            text,
            here,
            verdict,
            event=f"reaction:{reaction.key}",
            # Behind everything that was said here before, and before all that comes after.
            order_key=max(map(snowflake, (here.last_message_id or "0", reaction.message_id))),
        )
        await self._follow(tx, reception, entry_of(settings, reaction, verdict))
        return verdict

    async def _after_absence(
        self, tx: Transaction, message: InboundMessage, verdict: Verdict
    ) -> Verdict:
        """What was said long ago, or behind too much else, is noted but not answered."""
        if verdict.disposition not in _ASKS:
            return verdict
        settings = self._settings
        where = message.conversation.conversation_id
        return after_absence(
            verdict,
            age=await tx.now() - message.sent_at,
            longest=settings.backfill,
            taken=await absences.caught_up(tx, settings.channel, settings.account, where),
        )

    async def _noted(
        self, tx: Transaction, message: InboundMessage, policy: GatePolicy
    ) -> Conversation:
        """The conversation with what this message tells of it, whatever is decided about it next."""
        before = await conversations.ensure(tx, message.conversation, message.place)
        if before.is_closed and not message.from_history:
            before = await conversations.reopen(tx, before)
        if message.thread_owner == str(self._settings.account):
            before = await participation.note_part(tx, before)
        here = await participation.note(tx, before, message)
        if warns(before.bots, here.bots, policy) and _may_warn(here, policy):
            await owe_warning(tx, self._settings, here, policy)
            tx.after_commit(lambda: self._wake(here.id))
        return here

    async def _run(
        self, tx: Transaction, here: Conversation, message: InboundMessage, policy: GatePolicy
    ) -> Conversation | None:
        """Where a turn waits for more of this bot's messages; whoever else speaks ends the others' runs."""
        is_shown = is_presentation(message.text, silent=message.silent)
        if policy.bot_mode is not BotMode.ALL or is_shown:
            return None
        for ended in await bot_runs.end_others(tx, here, message.author.id):
            tx.after_commit(partial(self._wake, ended))
        if not message.author.is_other_bot:
            return None
        run = await bot_runs.open_run(tx, here, message.author.id)
        return await conversations.get(tx, run) if run else None

    async def _follow(self, tx: Transaction, reception: Reception, entry: Entry) -> None:
        message, verdict = reception.message, reception.verdict
        is_turn = verdict.disposition is Disposition.TURN
        planned = TurnId(new_id()) if is_turn else None
        # Before anything is made of it: another connection may be committing the same event now.
        if not await inbox.add(tx, replace(entry, turn_id=planned)):
            if verdict.disposition is Disposition.ECHO and message.nonce:
                # It was read from history before, which tells no nonce: the evidence counts all the same.
                await self._echo(tx, reception)
                return
            raise Duplicate(entry.event_key)
        if planned is not None:
            turn, conversation = await accept(tx, self._settings, reception, planned)
            if turn != planned:
                await inbox.name_turn(tx, entry.account, entry.kind, entry.event_key, turn)
            tx.after_commit(lambda: self._wake(conversation))
        elif verdict.disposition is Disposition.COMMAND:
            await answer_by_text(
                tx,
                self._settings,
                reception.here,
                message.author,
                PlatformId(entry.event_key),
                verdict,
            )
            tx.after_commit(lambda: self._wake(reception.here.id))
        elif verdict.disposition is Disposition.ECHO:
            await self._echo(tx, reception)
        elif verdict.disposition is Disposition.REFUSED:
            ref = MessageRef(message.conversation.conversation_id, message.message_id)
            tx.after_commit(lambda: self._refuse(ref))

    async def _echo(self, tx: Transaction, reception: Reception) -> None:
        """Our own message came back: it settles the doubt about the delivery whose nonce it carries.

        History has no nonces, and webhooks have none either: there it is the tried create that nobody
        has seen yet and says the same.
        Only the owner changes the row's state, and tells whoever waits for the message.
        """
        message, account = reception.message, self._settings.account
        is_persona = str(message.author.id) != str(account)
        if await deliveries.is_claimed(tx, account, message.message_id):
            return
        if message.nonce:
            delivery = await deliveries.by_nonce(tx, account, message.nonce)
        elif message.from_history or is_persona:
            digest = content_digest(message.text)
            delivery = await deliveries.in_doubt(
                tx, reception.here.id, digest, message.message_id, is_task=is_persona
            )
        else:
            return
        if delivery is None or delivery.platform_id:
            return
        await deliveries.note_platform_id(tx, delivery.id, message.message_id)
        tx.after_commit(lambda: self._wake(delivery.conversation))


def _facts(
    here: Conversation, policy: GatePolicy, *, is_run_open: bool = False
) -> ConversationFacts:
    return ConversationFacts(
        is_involved=here.is_involved,
        is_closed=here.is_closed,
        has_other_bot=here.has_other_bot,
        is_capped=exceeds_cap(here.bots, policy),
        bot_messages=here.bots.messages,
        has_open_run=is_run_open,
    )


def _may_warn(here: Conversation, policy: GatePolicy) -> bool:
    """Only who takes part, where we listen: the others would become participants by their warning."""
    ref = here.ref
    refusal = place_refusal(here.place, ref.conversation_id, ref.parent_conversation_id, policy)
    return here.is_involved and not here.is_closed and refusal is None


def _as_message(reaction: InboundReaction, text: str) -> InboundMessage:
    """What the reaction says, in the place of the message that it stands on."""
    return InboundMessage(
        conversation=reaction.conversation,
        place=reaction.place,
        message_id=reaction.message_id,
        author=reaction.author,
        text=text,
        sent_at=reaction.reacted_at,
    )
