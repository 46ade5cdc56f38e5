"""Shows sub-agents' tasks under their names: by the webhook of the channel above, else by the bot itself."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from openab.control.attempt import Answer
from openab.control.evidence import Finding, look
from openab.control.settings import Settings
from openab.domain.delivery import DeadReason, DeliveryState, GivenUp, Postponed, Purpose
from openab.domain.errors import Transient, Unknown
from openab.domain.ids import PlatformId
from openab.domain.message import Place
from openab.domain.outbound import presentation_body
from openab.ports.channel import Channel, ChannelRejected, Refusal
from openab.storage import conversations, deliveries, webhooks
from openab.storage.conversations import Conversation, Ownership
from openab.storage.deliveries import Delivery, superseding
from openab.storage.engine import Database, Transaction

log = structlog.get_logger()
#: After a call that was not carried out, or may not have been.
_AGAIN = timedelta(seconds=5)
_TOKEN = timedelta(seconds=60)
#: So often a webhook is looked for, or found gone, before the bot says it itself.
_MOST_TRIES = 3
#: Refusals that the bot's own message would meet, too.
_OF_THE_PLACE = frozenset({Refusal.CONVERSATION_GONE, Refusal.LOCKED, Refusal.ARCHIVED})


class Personas:
    """What comes before a task's post, the post, and the look for it, for its conversation's present owner."""

    def __init__(
        self,
        database: Database,
        channel: Channel,
        settings: Settings,
        where: Conversation,
        ownership: Ownership,
    ) -> None:
        self._database = database
        self._channel = channel
        self._settings = settings
        self._where = where
        self._ownership = ownership
        self._seconds = settings.call.total_seconds()
        self._failures = 0
        #: By which the next task is posted.
        self.webhook: PlatformId | None = None

    async def prepare(self, delivery: Delivery) -> bool:
        """Commit to a webhook, so that its echo is known as ours before it can come.

        False: it is not sent now, or not this row.
        """
        if delivery.state is not DeliveryState.PENDING or delivery.platform_id:
            # It was on its way before; now it is looked for, or confirmed.
            return True
        parent = _channel_above(self._where)
        if parent is None:
            await self._give_up(delivery, "there is no channel above")
            return False
        async with self._database.read() as tx:
            self.webhook = await webhooks.of_parent(tx, self._settings.account, parent)
        if self.webhook is None:
            await self._obtain(delivery, parent)
        return self.webhook is not None

    async def may_begin(self, tx: Transaction, delivery: Delivery) -> bool:
        """Whether the webhook that was prepared is still the one whose echoes are known."""
        parent = _channel_above(self._where)
        if parent is None or self.webhook is None:
            return False
        return await webhooks.of_parent(tx, delivery.account, parent) == self.webhook

    async def post(self, delivery: Delivery) -> PlatformId:
        """Post it once; raises as the channel port says."""
        parent = _channel_above(self._where)
        assert parent is not None
        assert self.webhook is not None
        thread = self._where.ref.conversation_id
        return await self._channel.post_as_persona(
            thread, parent, self.webhook, delivery.body, self._seconds
        )

    async def look(self, delivery: Delivery, is_taken: Callable[[str], Awaitable[bool]]) -> Finding:
        """The only way to learn of an unknown outcome: no nonce makes a repetition safe."""
        parent = _channel_above(self._where)
        async with self._database.read() as tx:
            author = await webhooks.of_parent(tx, delivery.account, parent) if parent else None
        if author is None:
            return Finding("invalid")
        return await look(
            self._channel,
            self._where.ref,
            delivery,
            self._settings.call,
            is_taken,
            author=author,
        )

    async def _obtain(self, delivery: Delivery, parent: PlatformId) -> None:
        try:
            found = await self._found_or_made(parent)
        except ChannelRejected as error:
            if error.refusal is Refusal.UNAUTHORIZED:
                await self._postpone(delivery, _TOKEN)
            else:
                await self._give_up(delivery, str(error))
        except (Transient, Unknown) as error:
            self._failures += 1
            if self._failures >= _MOST_TRIES:
                await self._give_up(delivery, str(error))
            else:
                await self._postpone(delivery, _AGAIN)
        else:
            async with self._database.transaction() as tx:
                await conversations.lock(tx, self._ownership)
                await webhooks.keep(tx, self._settings.account, parent, found)
            self.webhook, self._failures = found, 0

    async def _found_or_made(self, parent: PlatformId) -> PlatformId:
        found = await self._channel.find_webhook(parent, self._seconds)
        if found is not None:
            return found
        made = await self._channel.make_webhook(parent, self._seconds)
        # Another thread of the channel may have made one at the same moment: both find the same now.
        return await self._channel.find_webhook(parent, self._seconds) or made

    async def _postpone(self, delivery: Delivery, wait: timedelta) -> None:
        async with self._database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            await deliveries.postpone(tx, delivery.id, await tx.now() + wait)

    async def _give_up(self, delivery: Delivery, reason: str) -> None:
        async with self._database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            fresh = await deliveries.get(tx, delivery.id)
            if fresh and fresh.state is DeliveryState.PENDING and not fresh.platform_id:
                await _show_instead(tx, fresh, reason)


async def task_refused(
    tx: Transaction, delivery: Delivery, answer: Answer, webhook: PlatformId | None
) -> bool:
    """Answer a task's refusal by another webhook, or by the bot's own word; `webhook` is the one tried.

    False: it means what it means for any message.
    """
    refusal = answer.refusal or Refusal.OTHER
    if delivery.purpose is not Purpose.TASK or refusal in _OF_THE_PLACE:
        return False
    if refusal is Refusal.WEBHOOK_GONE and webhook is not None:
        await webhooks.forget(tx, delivery.account, webhook)
        if delivery.tries < _MOST_TRIES:
            await deliveries.record(tx, delivery, Postponed(), not_before=None, first_try_at=None)
            return True
    await _show_instead(tx, delivery, answer.reason)
    return True


async def _show_instead(tx: Transaction, delivery: Delivery, reason: str) -> None:
    """No webhook can be had: the bot shows the same text itself."""
    body = presentation_body(delivery.body.content)
    await deliveries.owe(tx, superseding(delivery, purpose=Purpose.NOTICE, body=body))
    await deliveries.record(tx, delivery, GivenUp(DeadReason.SUPERSEDED), dead_detail=reason)
    tx.after_commit(
        lambda: log.warning(
            "persona_unavailable",
            delivery_id=delivery.id,
            persona=delivery.body.persona,
            told=reason,
        )
    )


def _channel_above(where: Conversation) -> PlatformId | None:
    """Whose webhook speaks here; only a thread has one."""
    return where.ref.parent_conversation_id if where.place is Place.THREAD else None
