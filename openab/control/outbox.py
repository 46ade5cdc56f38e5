"""Sends what a conversation is owed, in order: one HTTP try per `sending`, three outcomes, never a blind repeat."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from openab.control.attempt import Answer, AttemptMaker, Result
from openab.control.bot_names import BotNames
from openab.control.bot_turn_cap import is_said
from openab.control.children import starter_settled
from openab.control.evidence import Finding, look
from openab.control.handoff_sending import HandoffSender
from openab.control.handoff_settling import concluded, is_over
from openab.control.parent import tell_waiting, thread_refused
from openab.control.personas import Personas
from openab.control.refusals import Refused, instead_of_edit, settle_refusal, tell_unclear
from openab.control.retire import is_placeholder, is_pointless, retire_older
from openab.control.settings import Settings
from openab.control.settling import settle_turn
from openab.control.spawning import hold_for_starter
from openab.control.writer import ConversationWriter
from openab.domain.delivery import (
    Begun,
    Confirmed,
    DeadReason,
    DeliveryKind,
    DeliveryState,
    Doubtful,
    GivenUp,
    Postponed,
    Purpose,
)
from openab.domain.errors import OpenabError
from openab.domain.ids import PlatformId
from openab.ports.channel import Channel, Refusal
from openab.ports.signals import Signals
from openab.ports.tasks import end, spawn
from openab.storage import accounts, bindings, conversations, deliveries, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.deliveries import Delivery
from openab.storage.engine import Database, Transaction
from openab.text import notices

log = structlog.get_logger()
#: After so many tries in doubt an edit or deletion does not hold up what stands behind it.
_HOPELESS = 3
_WAITS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at the outbox came to: whether something was done, and when to look again."""

    did: bool
    due_at: datetime | None = None


class Outbox:
    """The owed rows of one conversation, for its present owner."""

    def __init__(
        self,
        database: Database,
        channel: Channel,
        settings: Settings,
        where: Conversation,
        ownership: Ownership,
        writer: ConversationWriter,
        signals: Signals,
        on_sent: Callable[[Delivery], None],
        count: Callable[[str, str], None] = lambda _kind, _result: None,
        names: BotNames | None = None,
    ) -> None:
        """`on_sent` is told of every confirmed row; it must not wait."""
        self._database = database
        self._channel = channel
        self._settings = settings
        self._where = where
        self._ownership = ownership
        self._writer = writer
        self._signals = signals
        self._on_sent = on_sent
        self._count = count
        self._has_recovered = False
        self._unrecorded: tuple[Delivery, Answer] | None = None
        self._personas = Personas(database, channel, settings, where, ownership)
        self._attempts = AttemptMaker(
            channel, where.ref.conversation_id, settings.call, self._personas.post
        )
        self._handoffs = HandoffSender(
            database, channel, settings, where, ownership, names or BotNames()
        )

    async def recover(self) -> None:
        """A former owner's calls may have been carried out: from now on they are in doubt."""
        async with self._database.read() as tx:
            left = await deliveries.open_of(tx, self._where.id)
        if not any(delivery.state is DeliveryState.SENDING for delivery in left):
            self._has_recovered = True
            return
        async with self._database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            for delivery in await deliveries.open_of(tx, self._where.id):
                if delivery.state is DeliveryState.SENDING:
                    await deliveries.record(tx, delivery, Doubtful(), had_doubt=True)
        self._has_recovered = True

    async def step(self) -> Step:
        """Try the first open row, if it is due. Raises LeaseLost and DatabaseUnavailable."""
        if not self._has_recovered:
            await self.recover()
        if self._unrecorded:
            await self._record_unrecorded()
            return Step(did=True)
        async with self._database.read() as tx:
            first = await deliveries.head(tx, self._where.id)
            handoff, later = await self._handoffs.next(tx)
            now = await tx.now()
        delivery = _whose_turn(first, handoff, now)
        if delivery is None:
            waits = [first.not_before] if first else []
            due = [at for at in (*waits, later) if at]
            return Step(did=False, due_at=min(due, default=None))
        if delivery.state is DeliveryState.SENDING:
            # Its commit was in doubt when the call should have begun, or when it had ended.
            await self.recover()
        elif self._must_look(delivery, now):
            await self._look(delivery)
        elif await self._may_send(delivery):
            await self._send(delivery)
        return Step(did=True)

    async def _may_send(self, delivery: Delivery) -> bool:
        """Whether there is anything to send, after what has to be seen to first."""
        if delivery.purpose is Purpose.HANDOFF:
            return await self._handoffs.prepare(delivery)
        if delivery.purpose is Purpose.TASK:
            return await self._personas.prepare(delivery)
        return not await self._is_said_by_another(delivery)

    def _must_look(self, delivery: Delivery, now: datetime) -> bool:
        """Past the nonce's window, or refused after doubt, only evidence can tell."""
        if delivery.state is not DeliveryState.UNKNOWN or delivery.platform_id:
            return False
        if delivery.purpose is Purpose.TASK:
            return True
        if delivery.is_look_only or delivery.kind is not DeliveryKind.CREATE:
            return delivery.is_look_only
        if is_over(delivery, now):
            return True
        first = delivery.first_try_at or delivery.created_at
        return now - first > self._settings.nonce_window

    async def _is_said_by_another(self, delivery: Delivery) -> bool:
        """Another bot has given this warning: then ours is not sent."""
        if delivery.purpose is not Purpose.CAP_WARNING or delivery.tries:
            return False
        async with self._database.read() as tx:
            here = await conversations.get(tx, self._where.id)
        if not await is_said(self._channel, here, self._settings.call):
            return False
        async with self._database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            fresh = await deliveries.get(tx, delivery.id)
            if fresh and fresh.state is DeliveryState.PENDING:
                await deliveries.record(tx, fresh, GivenUp(DeadReason.SUPERSEDED))
        return True

    async def _send(self, delivery: Delivery) -> None:
        counts = delivery.kind in {DeliveryKind.CREATE, DeliveryKind.EDIT}
        async with self._writer.sending(counts=counts):
            begun = await self._begin(delivery)
            if begun is None:
                return
            self._signals.tell("delivery_begun")
            await self._call_to_its_end(*begun)
        await self._record_unrecorded()

    async def _call_to_its_end(self, delivery: Delivery, target: Delivery | None) -> None:
        """A call in flight is work: who is cancelled meanwhile lets it end, and records it."""
        calling = spawn(f"call {delivery.id}", self._call(delivery, target))
        try:
            await asyncio.shield(calling)
        except asyncio.CancelledError:
            await self._record_soon(calling)
            raise

    async def _call(self, delivery: Delivery, target: Delivery | None) -> None:
        answer = await self._attempts.make(delivery, target)
        self._unrecorded = delivery, answer
        self._signals.tell("delivery_tried")

    async def _record_soon(self, calling: "asyncio.Task[None]") -> None:
        """Within the time that a call may take, and as much again; what fails is left in doubt."""
        try:
            async with asyncio.timeout(2 * self._settings.call.total_seconds()):
                await asyncio.wait({calling})
                await self._record_unrecorded()
        except (OpenabError, TimeoutError) as error:
            log.warning("call_left_in_doubt", conversation=self._where.id, error=str(error))
        finally:
            await end(calling)

    async def _record_unrecorded(self) -> None:
        if self._unrecorded:
            await self._record(*self._unrecorded)

    async def _begin(self, delivery: Delivery) -> tuple[Delivery, Delivery | None] | None:
        """Commit to the one try. None: it turned out to be settled, or to have nothing to do."""
        async with self._database.transaction() as tx:
            await hold_for_starter(tx, delivery)
            where = await conversations.lock(tx, self._ownership)
            fresh = await deliveries.get(tx, delivery.id)
            if fresh is None or fresh.state not in {DeliveryState.PENDING, DeliveryState.UNKNOWN}:
                return None
            if self._must_look(fresh, await tx.now()):
                # The nonce's window has ended while this waited for its turn.
                return None
            if _is_seen(fresh):
                await self._confirm_echoed(tx, fresh)
                return None
            if fresh.purpose is Purpose.HANDOFF and not await self._handoffs.may_begin(tx, fresh):
                return None
            if fresh.purpose is Purpose.TASK and not await self._personas.may_begin(tx, fresh):
                return None
            target = await self._target(tx, fresh)
            now = await tx.now()
            begun = await deliveries.record(
                tx,
                fresh,
                Begun(),
                anchor=fresh.anchor or where.last_message_id or where.ref.conversation_id,
                first_try_at=fresh.first_try_at or now,
                last_try_at=now,
                tries=fresh.tries + 1,
                not_before=None,
            )
            return begun, target

    async def _confirm_echoed(self, tx: Transaction, delivery: Delivery) -> None:
        """Our own echo showed that it is there."""
        if delivery.state is DeliveryState.PENDING:
            # It had been looked for and not been found.
            delivery = await deliveries.record(tx, delivery, Begun())
        await self._confirm(tx, delivery)

    async def _target(self, tx: Transaction, delivery: Delivery) -> Delivery | None:
        if delivery.target_delivery is None:
            return None
        return await deliveries.get(tx, delivery.target_delivery)

    async def _record(self, delivery: Delivery, answer: Answer) -> None:
        """Write down how a try ended; it is kept in mind until that is known to be done."""
        async with self._database.transaction() as tx:
            await hold_for_starter(tx, delivery)
            where = await conversations.lock(tx, self._ownership)
            fresh = await deliveries.get(tx, delivery.id)
            # Not so if an earlier commit of this very answer was in doubt.
            if fresh and fresh.state is DeliveryState.SENDING and fresh.tries == delivery.tries:
                await self._settle(tx, where, fresh, answer)
        self._unrecorded = None
        self._count(delivery.kind.value, answer.result.value)
        log.info(
            "delivery_tried",
            delivery_id=delivery.id,
            turn_id=delivery.turn,
            kind=delivery.kind.value,
            purpose=delivery.purpose.value,
            result=answer.result.value,
            reason=answer.reason or None,
        )
        self._signals.tell("delivery_recorded")

    async def _settle(
        self, tx: Transaction, where: Conversation, delivery: Delivery, answer: Answer
    ) -> None:
        if answer.result is Result.DONE:
            await self._confirm(tx, delivery, **_id_of(delivery, answer.platform_id))
        elif _is_seen(delivery) and answer.refusal is not Refusal.MESSAGE_GONE:
            # Its own echo was heard first, and says more than how this call went.
            await self._confirm(tx, delivery)
        elif answer.result is Result.NOT_DONE:
            await self._postpone(tx, delivery, answer)
        elif answer.result is Result.UNKNOWN:
            await self._doubt(tx, delivery)
        else:
            tried = Refused(self._settings, where, delivery, answer, self._personas.webhook)
            await settle_refusal(tx, tried)
            await settle_turn(tx, self._settings, delivery.turn)

    async def _confirm(self, tx: Transaction, delivery: Delivery, **values: object) -> None:
        sent = await deliveries.record(tx, delivery, Confirmed(), **values)
        if sent.platform_id and sent.kind is DeliveryKind.CREATE:
            here = await conversations.get(tx, self._where.id)
            await conversations.note_message(tx, here, sent.platform_id, other_bot=False)
        if is_placeholder(sent):
            await retire_older(tx, sent)
        if sent.purpose is Purpose.HANDOFF:
            await concluded(tx, self._settings, self._where, sent)
        elif sent.purpose is Purpose.STARTER:
            await starter_settled(tx, self._settings, self._where, sent)
        await settle_turn(tx, self._settings, sent.turn)
        tx.after_commit(lambda: self._on_sent(sent))
        if sent.kind is DeliveryKind.CREATE:
            await self._note_activity(tx)

    async def _note_activity(self, tx: Transaction) -> None:
        """The bot, or a webhook of ours, has spoken here.

        Last in its transaction: the account's row is everybody's, and intake locks it last, too.
        """
        await bindings.touch_in(tx, self._where.id)
        await accounts.note_outbound(tx, self._settings.channel, self._settings.account)

    async def _postpone(self, tx: Transaction, delivery: Delivery, answer: Answer) -> None:
        wait = answer.retry_after or _WAITS[min(delivery.tries, len(_WAITS)) - 1]
        until = await tx.now() + timedelta(seconds=wait)
        if delivery.had_doubt:
            # Even "no byte left" settles nothing about the earlier try.
            await deliveries.record(tx, delivery, Doubtful(), not_before=until)
        else:
            # The nonce's window opens with a try that can have reached the network. An earlier one is
            # known only of a hand-off, which is not written anew after that.
            is_first = delivery.first_try_at == delivery.last_try_at
            first = None if is_first else delivery.first_try_at
            await deliveries.record(tx, delivery, Postponed(), not_before=until, first_try_at=first)
        if delivery.kind is DeliveryKind.THREAD:
            await turns.postpone(tx, self._where.id, delivery.id, until)
            await tell_waiting(tx, self._settings, self._where, delivery, until, wait)

    async def _doubt(self, tx: Transaction, delivery: Delivery) -> None:
        is_hopeless = delivery.tries >= _HOPELESS
        if is_hopeless and delivery.kind is DeliveryKind.EDIT and delivery.purpose is Purpose.FINAL:
            # If an edit lands after all, it finds its message deleted.
            await instead_of_edit(tx, delivery)
            return
        if is_hopeless and delivery.purpose is Purpose.RETIRE:
            # A placeholder that cannot be taken away holds up no answer.
            seq = await conversations.take_seq(tx, self._where.id)
            await deliveries.move_back(tx, delivery.id, seq)
        wait = _WAITS[min(delivery.tries, len(_WAITS)) - 1]
        until = await tx.now() + timedelta(seconds=wait)
        await deliveries.record(tx, delivery, Doubtful(), had_doubt=True, not_before=until)

    async def _look(self, delivery: Delivery) -> None:
        """Resolve an old doubt by history, no earlier than the network has had time to show it."""
        settings = self._settings
        async with self._database.read() as tx:
            now = await tx.now()
        valid_at = (delivery.last_try_at or now) + settings.settle_after
        if now < valid_at:
            await self._wait_for_evidence(delivery, valid_at)
            return
        finding = await self._finding(delivery)
        self._signals.tell("delivery_looked_up")
        async with self._database.transaction() as tx:
            await hold_for_starter(tx, delivery)
            await conversations.lock(tx, self._ownership)
            fresh = await deliveries.get(tx, delivery.id)
            if fresh is None or fresh.state is not DeliveryState.UNKNOWN:
                return
            await self._conclude(tx, fresh, finding)
        log.info("delivery_looked_up", delivery_id=delivery.id, finding=finding.verdict)

    async def _finding(self, delivery: Delivery) -> Finding:
        if delivery.purpose is Purpose.TASK:
            return await self._personas.look(delivery, self._is_taken)
        return await look(
            self._channel, self._where.ref, delivery, self._settings.call, self._is_taken
        )

    async def _wait_for_evidence(self, delivery: Delivery, until: datetime) -> None:
        async with self._database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            await deliveries.postpone(tx, delivery.id, until)

    async def _is_taken(self, message_id: str) -> bool:
        async with self._database.read() as tx:
            return await deliveries.is_claimed(tx, self._settings.account, message_id)  # type: ignore[arg-type]

    async def _conclude(self, tx: Transaction, delivery: Delivery, finding: Finding) -> None:
        if delivery.platform_id:
            await self._confirm_echoed(tx, delivery)
        elif finding.verdict == "found":
            await self._confirm(tx, delivery, **_id_of(delivery, finding.platform_id))
        elif finding.verdict == "later":
            await deliveries.postpone(tx, delivery.id, await tx.now() + self._settings.settle_after)
        elif finding.verdict == "invalid":
            await self._give_up(tx, delivery, DeadReason.UNCLEAR)
        elif await is_pointless(tx, delivery):
            await self._give_up(tx, delivery, DeadReason.SUPERSEDED)
        elif delivery.purpose is Purpose.HANDOFF and await self._handoffs.look_over(tx, delivery):
            return
        else:
            # As if it had never been tried: a new window of its nonce begins.
            doubts = {"had_doubt": False, "is_look_only": False}
            # But a hand-off that was tried is never written anew.
            first = await tx.now() if delivery.purpose is Purpose.HANDOFF else None
            values = {"first_try_at": first, "not_before": None, **doubts}
            await deliveries.record(tx, delivery, Postponed(), **values)

    async def _give_up(self, tx: Transaction, delivery: Delivery, reason: DeadReason) -> None:
        dead = await deliveries.record(tx, delivery, GivenUp(reason))
        if dead.purpose is Purpose.FINAL:
            await tell_unclear(tx, self._settings, self._where, dead)
        elif dead.purpose is Purpose.THREAD:
            await thread_refused(tx, self._settings, self._where, notices.thread_unclear())
        elif dead.purpose is Purpose.HANDOFF:
            await concluded(tx, self._settings, self._where, dead)
        elif dead.purpose is Purpose.STARTER:
            await starter_settled(tx, self._settings, self._where, dead)
        await settle_turn(tx, self._settings, dead.turn)


def _whose_turn(first: Delivery | None, handoff: Delivery | None, now: datetime) -> Delivery | None:
    """Hand-offs keep their place among what can be sent, but wait for nothing that cannot."""
    is_due = first is not None and (first.not_before is None or first.not_before <= now)
    if handoff is None:
        return first if is_due else None
    return first if first is not None and is_due and first.seq < handoff.seq else handoff


def _is_seen(delivery: Delivery) -> bool:
    """Whether the network has shown us the message that it makes."""
    return delivery.kind is DeliveryKind.CREATE and delivery.platform_id is not None


def _id_of(delivery: Delivery, message: PlatformId | None) -> dict[str, object]:
    """Only creates carry the id of a message; a thread's is that of the message it hangs on."""
    is_message = delivery.kind is DeliveryKind.CREATE and message
    return {"platform_id": message} if is_message else {}
