"""An event arrives once: its inbox row, the verdict on it, and what follows from it, in one transaction."""

import asyncio
from collections.abc import Callable

import structlog

from openab.control.commands import cancel_by_text
from openab.control.reception import Reception, accept
from openab.control.settings import Settings
from openab.domain.errors import OpenabError, Rejected, Transient, Unknown
from openab.domain.gates import ConversationFacts, Disposition, Verdict, judge
from openab.domain.ids import ConversationId, MessageRef, snowflake
from openab.domain.message import InboundMessage
from openab.ports.signals import Signals
from openab.storage import accounts, conversations, deliveries, inbox
from openab.storage.engine import Database, Transaction
from openab.storage.inbox import Entry
from openab.text.mentions import prompt_text

log = structlog.get_logger()
_BATCH = 100
#: The waits between tries to commit while the database is away, in seconds.
_RETRIES = (0.1, 0.5, 1.0, 2.0, 5.0)


class Duplicate(OpenabError):
    """The event was committed before; its savepoint is rolled back."""


class Intake:
    """One queue for an account, one consumer, which commits in the order of arrival."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        wake: Callable[[ConversationId], None],
        refuse: Callable[[MessageRef], None],
        signals: Signals,
        count: Callable[[str, str], None] = lambda _disposition, _reason: None,
    ) -> None:
        """`refuse` is told which message gets a 🚫; it must not wait. `count` feeds the metrics."""
        self._database = database
        self._settings = settings
        self._wake = wake
        self._refuse = refuse
        self._signals = signals
        self._count = count
        self._queue: asyncio.Queue[InboundMessage] = asyncio.Queue()

    def put(self, message: InboundMessage) -> None:
        """Take an event from the gateway; never waits."""
        self._queue.put_nowait(message)

    async def run(self) -> None:
        """Commit what was put, in order, until the task is cancelled; what was not committed is lost
        with the process, and is read from history by whoever comes next."""
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty() and len(batch) < _BATCH:
                batch.append(self._queue.get_nowait())
            await self._commit_whatever_happens(batch)
            self._signals.tell("intake_committed")

    async def _commit_whatever_happens(self, batch: list[InboundMessage]) -> None:
        attempt = 0
        while True:
            try:
                await self._commit(batch)
            except (Transient, Unknown) as error:
                # The inbox key makes a second commit of the same events harmless.
                log.warning("intake_waits_for_database", error=str(error), events=len(batch))
                await asyncio.sleep(_RETRIES[min(attempt, len(_RETRIES) - 1)])
                attempt += 1
            else:
                return

    async def _commit(self, batch: list[InboundMessage]) -> None:
        async with self._database.transaction() as tx:
            for message in batch:
                await self._take(tx, message)
            seen = [one.message_id for one in batch if one.message_id.isdecimal()]
            if seen:
                newest = max(seen, key=snowflake)
                await accounts.move_mark(tx, self._settings.channel, self._settings.account, newest)

    async def _take(self, tx: Transaction, message: InboundMessage) -> None:
        try:
            async with tx.savepoint():
                verdict = await self._decide(tx, message)
        except Duplicate:
            log.debug("event_repeated", message_id=message.message_id)
        except (Transient, Unknown):
            raise
        except Exception:
            # One event that cannot be understood must not hold up those behind it.
            log.exception("intake_event_failed", message_id=message.message_id)
            await self._note_failure(tx, message)
        else:
            tx.after_commit(lambda: self._count(verdict.disposition, verdict.reason))

    async def _note_failure(self, tx: Transaction, message: InboundMessage) -> None:
        verdict = Verdict(Disposition.IGNORED, "unreadable")
        try:
            async with tx.savepoint():
                await inbox.add(tx, _entry(self._settings, message, verdict))
        except Rejected as error:
            # Not even its ids fit a row, so nobody will ask after it either.
            log.warning("intake_event_unnoted", error=str(error))

    async def _decide(self, tx: Transaction, message: InboundMessage) -> Verdict:
        settings = self._settings
        if await inbox.is_known(tx, settings.account, "message", message.message_id):
            raise Duplicate(message.message_id)
        here = await conversations.ensure(tx, message.conversation, message.place)
        other_bot = message.author.is_other_bot
        await conversations.note_message(tx, here, message.message_id, other_bot=other_bot)
        owns = message.thread_owner == str(settings.account)
        facts = ConversationFacts(here.is_involved or owns, here.is_closed)
        text = prompt_text(message.text, settings.account, settings.own_roles)
        verdict = judge(message, text, facts, settings.policy())
        log.debug("event_judged", message_id=message.message_id, reason=verdict.reason)
        await self._follow(tx, Reception(message, text, here, verdict))
        return verdict

    async def _follow(self, tx: Transaction, reception: Reception) -> None:
        message, verdict = reception.message, reception.verdict
        # Before anything is made of it: another connection may be committing the same event now.
        if not await inbox.add(tx, _entry(self._settings, message, verdict)):
            raise Duplicate(message.message_id)
        if verdict.disposition is Disposition.TURN:
            await self._accept(tx, reception)
        elif verdict.disposition is Disposition.COMMAND:
            await cancel_by_text(
                tx, self._settings, reception.here, message.author, message.message_id
            )
            tx.after_commit(lambda: self._wake(reception.here.id))
        elif verdict.disposition is Disposition.ECHO:
            await self._echo(tx, reception)
        elif verdict.disposition is Disposition.REFUSED:
            ref = MessageRef(message.conversation.conversation_id, message.message_id)
            tx.after_commit(lambda: self._refuse(ref))

    async def _accept(self, tx: Transaction, reception: Reception) -> None:
        turn, conversation = await accept(tx, self._settings, reception)
        key = reception.message.message_id
        await inbox.name_turn(tx, self._settings.account, "message", key, turn)
        tx.after_commit(lambda: self._wake(conversation))

    async def _echo(self, tx: Transaction, reception: Reception) -> None:
        """Our own message came back: it settles the doubt about the delivery whose nonce it carries.

        Only the owner changes the row's state, and tells whoever waits for the message.
        """
        message, account = reception.message, self._settings.account
        if not message.nonce or await deliveries.is_claimed(tx, account, message.message_id):
            return
        delivery = await deliveries.by_nonce(tx, account, message.nonce)
        if delivery is None or delivery.platform_id:
            return
        await deliveries.note_platform_id(tx, delivery.id, message.message_id)
        tx.after_commit(lambda: self._wake(delivery.conversation))


def _entry(settings: Settings, message: InboundMessage, verdict: Verdict) -> Entry:
    return Entry(
        account=settings.account,
        kind="message",
        event_key=message.message_id,
        conversation_id=message.conversation.conversation_id,
        author_id=message.author.id,
        disposition=verdict.disposition,
        reason=verdict.reason,
    )
