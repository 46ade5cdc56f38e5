"""A hand-off that came: judged, decided and queued in one transaction, or refused and told."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import structlog

from openab.control.elsewhere import owe_in
from openab.control.entries import Duplicate, entry_of
from openab.control.reception import Reception, accept_handoff
from openab.control.settings import Settings
from openab.domain.gates import (
    ConversationFacts,
    Disposition,
    GatePolicy,
    Verdict,
    judge_handoff,
    place_refusal,
)
from openab.domain.handoff import Candidate, Envelope, Refusal
from openab.domain.ids import ConversationId, MessageRef, TurnId
from openab.domain.message import InboundMessage, Place
from openab.domain.outbound import presentation_body
from openab.storage import handoff_refusals, handoffs, inbox
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.handoffs import Incoming
from openab.storage.ids import new_id
from openab.text.handoff_receipts import refusal_line

log = structlog.get_logger()
#: The same reason is told once in at least this long, for one source in one conversation.
TOLD_EVERY = timedelta(minutes=5)


class HandoffIntake:
    """The hand-offs of one account. What is given to it is called after the commit."""

    def __init__(
        self,
        settings: Settings,
        wake: Callable[[ConversationId], None],
        turn_down: Callable[[MessageRef], None],
        count: Callable[[str, str], None],
    ) -> None:
        """`turn_down` is told which message gets a ⛔; `count` takes direction and reason."""
        self._settings = settings
        self._wake = wake
        self._turn_down = turn_down
        self._count = count

    async def take(
        self,
        tx: Transaction,
        message: InboundMessage,
        here: Conversation,
        claim: Candidate,
        facts: ConversationFacts,
        policy: GatePolicy,
    ) -> Verdict:
        """Take one claim. Raises Duplicate. Only what is accepted spends anything."""
        found = judge_handoff(claim, message, facts, policy, await tx.now())
        if isinstance(found, Verdict):
            await self._note(tx, message, found)
            return found
        if isinstance(found, Envelope):
            refusal = await self._decide(tx, message, here, found)
        else:
            refusal = found
            await self._note(tx, message, _refused(refusal))
        if refusal is None:
            return _ACCEPTED
        await self._refuse(tx, message, here, claim, refusal, policy)
        return _refused(refusal)

    async def _note(
        self, tx: Transaction, message: InboundMessage, verdict: Verdict, turn: TurnId | None = None
    ) -> None:
        entry = replace(entry_of(self._settings, message, verdict), turn_id=turn)
        # Before anything is made of it: another connection may be committing the same event now.
        if not await inbox.add(tx, entry):
            raise Duplicate(entry.event_key)

    async def _decide(
        self, tx: Transaction, message: InboundMessage, here: Conversation, envelope: Envelope
    ) -> Refusal | None:
        """The gate, and behind it the turn; None: it is queued."""
        settings, turn = self._settings, TurnId(new_id())
        await self._note(tx, message, _ACCEPTED, turn)
        incoming = Incoming(settings.account, envelope, _ref(message), message.sent_at)
        refusal = await handoffs.accept(tx, incoming, turn)
        if refusal is not None:
            await inbox.judge_anew(tx, entry_of(settings, message, _refused(refusal)))
            return refusal
        # What hangs on the message is no part of the request.
        bare = replace(message, attachments=())
        verdict = replace(_ACCEPTED, opens_thread=message.place is Place.CHANNEL)
        reception = Reception(bare, envelope.text, here, verdict)
        where = await accept_handoff(tx, settings, reception, envelope.event_id, turn)
        tx.after_commit(lambda: self._accepted(message, envelope, turn, where))
        return None

    def _accepted(
        self, message: InboundMessage, envelope: Envelope, turn: TurnId, where: ConversationId
    ) -> None:
        self._count("in", "accepted")
        log.info(
            "handoff_accepted",
            turn_id=turn,
            event_id=envelope.event_id,
            source=envelope.source,
            message_id=message.message_id,
        )
        self._wake(where)

    async def _refuse(
        self,
        tx: Transaction,
        message: InboundMessage,
        here: Conversation,
        claim: Candidate,
        refusal: Refusal,
        policy: GatePolicy,
    ) -> None:
        """Remembered, and shown: by an emoji, and to those whom we trust by a line as well."""
        account, source = self._settings.account, message.author.id
        await handoff_refusals.note(tx, account, refusal, source, _ref(message), claim.event_id)
        is_trusted, is_heard = source in policy.trusted_bots, _is_heard(here, policy)
        if is_trusted and is_heard:
            await self._tell(tx, message, here, refusal)
        tx.after_commit(
            lambda: self._refused(message, here, refusal, is_shown=is_trusted or is_heard)
        )

    async def _tell(
        self, tx: Transaction, message: InboundMessage, here: Conversation, refusal: Refusal
    ) -> None:
        settings = self._settings
        now = int((await tx.now()).timestamp() / TOLD_EVERY.total_seconds())
        stem = f"handoff-refused:{here.id}:{message.author.id}:{refusal.value}:"
        # The last one may have been told a moment before its time was over.
        if await handoff_refusals.was_told(tx, f"{stem}{now - 1}"):
            return
        body = presentation_body(refusal_line(refusal))
        await owe_in(tx, settings, here, f"{stem}{now}", body, message.message_id)

    def _refused(
        self, message: InboundMessage, here: Conversation, refusal: Refusal, *, is_shown: bool
    ) -> None:
        self._count("in", refusal.value)
        log.info(
            "handoff_refused",
            reason=refusal.value,
            source=message.author.id,
            message_id=message.message_id,
        )
        if is_shown:
            self._turn_down(_ref(message))
        self._wake(here.id)


_ACCEPTED = Verdict(Disposition.HANDOFF, "accepted")


def _refused(refusal: Refusal) -> Verdict:
    return Verdict(Disposition.REFUSED, refusal.value)


def _ref(message: InboundMessage) -> MessageRef:
    return MessageRef(message.conversation.conversation_id, message.message_id)


def _is_heard(here: Conversation, policy: GatePolicy) -> bool:
    """Where we do not listen we do not talk either."""
    ref = here.ref
    refusal = place_refusal(here.place, ref.conversation_id, ref.parent_conversation_id, policy)
    return refusal is None and not here.is_closed
