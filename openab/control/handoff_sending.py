"""Brings an owed hand-off on its way: when it may go, to somebody who can hear it, and not too late."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from openab.control.bot_names import BotNames
from openab.control.handoff_settling import (
    envelope_of,
    handoff_of,
    is_over,
    life_left,
    note_not_sent,
)
from openab.control.settings import Settings
from openab.control.settling import settle_turn
from openab.domain.delivery import DeadReason, DeliveryState, GivenUp
from openab.domain.errors import Transient, Unknown
from openab.domain.handoff import NotSent, reissued, written
from openab.domain.handoff.limits import FRESH, LONGEST_BEHIND, LONGEST_OWED
from openab.domain.ids import PlatformId
from openab.domain.message import Place
from openab.domain.outbound import handoff_body
from openab.ports.channel import Channel, ChannelRejected, Refusal
from openab.storage import conversations, deliveries, handoffs
from openab.storage.conversations import Conversation, Ownership
from openab.storage.deliveries import Delivery, superseding
from openab.storage.engine import Database, Transaction
from openab.storage.handoffs import Handoff
from openab.text import handoff_words

log = structlog.get_logger()
#: After a call that was not carried out, or may not have been.
_AGAIN = timedelta(seconds=5)
_TOKEN = timedelta(seconds=60)


def ready_among(
    owed: Sequence[Delivery], behind: frozenset[str], now: datetime
) -> tuple[Delivery | None, datetime | None]:
    """The first hand-off whose turn it is, and when another one's may be at the latest.

    None waits for another, nor holds anything up. `behind`: turns with answers still under way.
    """
    moments = {row.id: _moment(row, behind) for row in owed}
    ready = next((row for row in owed if (at := moments[row.id]) is None or at <= now), None)
    return ready, min((at for at in moments.values() if at and at > now), default=None)


def _moment(row: Delivery, behind: frozenset[str]) -> datetime | None:
    waits = [row.not_before] if row.not_before else []
    if row.turn in behind and row.version == 1 and row.state is DeliveryState.PENDING:
        waits.append(row.created_at + LONGEST_BEHIND)
    return max(waits, default=None)


class HandoffSender:
    """What comes before a hand-off's call, for its conversation's present owner."""

    def __init__(
        self,
        database: Database,
        channel: Channel,
        settings: Settings,
        where: Conversation,
        ownership: Ownership,
        names: BotNames,
    ) -> None:
        self._database = database
        self._channel = channel
        self._settings = settings
        self._where = where
        self._ownership = ownership
        self._names = names
        #: Who is known to be in the thread.
        self._members: set[PlatformId] = set()

    async def next(self, tx: Transaction) -> tuple[Delivery | None, datetime | None]:
        """See `ready_among`."""
        owed = await deliveries.open_handoffs(tx, self._where.id)
        if not owed:
            return None, None
        behind = await deliveries.answering(tx, self._where.id)
        return ready_among(owed, behind, await tx.now())

    async def prepare(self, delivery: Delivery) -> bool:
        """Bring its target there and see to its expiry; False: it is not sent now, or not this row."""
        if delivery.state is not DeliveryState.PENDING or delivery.platform_id:
            # It was on its way before, so all this was seen to; now it is repeated as it is, or confirmed.
            return True
        async with self._database.read() as tx:
            is_fresh = _is_as_good_as_new(delivery, await tx.now())
        if not is_fresh and not await self._renew(delivery):
            return False
        target = delivery.body.mention
        if target:
            # People are told by name.
            seconds = self._settings.call.total_seconds()
            await self._names.learn(self._channel, [target], seconds)
        if self._where.place is not Place.THREAD or target is None or target in self._members:
            return True
        return await self._admit(delivery, target)

    async def may_begin(self, tx: Transaction, delivery: Delivery) -> bool:
        """Whether it may go now; counted if so, in the transaction that begins its call."""
        handoff = await handoff_of(tx, delivery)
        chance = await handoffs.begin(tx, handoff)
        if chance is None:
            return True
        await deliveries.postpone(tx, delivery.id, chance)
        log.info("handoff_paced", turn_id=delivery.turn, target=handoff.peer)
        return False

    async def expire(self, tx: Transaction, delivery: Delivery, handoff: Handoff) -> None:
        """Nobody would take it any more."""
        told = handoff_words.waited(await tx.now() - handoff.created_at)
        await self.give_up(tx, delivery, NotSent.EXPIRED, told)

    async def look_over(self, tx: Transaction, delivery: Delivery) -> bool:
        """A valid look has not found it: whether it is not sent any more. See `give_up`."""
        if not is_over(delivery, await tx.now()):
            return False
        await self.expire(tx, delivery, await handoff_of(tx, delivery))
        return True

    async def give_up(
        self, tx: Transaction, delivery: Delivery, reason: NotSent, told: str = ""
    ) -> None:
        """It is not sent; the caller has locked the conversation and read the row in `tx`."""
        handoff = await handoff_of(tx, delivery)
        dead = await deliveries.record(
            tx, delivery, GivenUp(DeadReason.NOT_SENT), dead_detail=reason.value
        )
        await note_not_sent(tx, self._settings, self._where, handoff, dead, reason, told)
        await settle_turn(tx, self._settings, dead.turn)

    async def _renew(self, delivery: Delivery) -> bool:
        """Its envelope has not long to live: written anew if nobody can have seen it, else given up."""
        async with self._database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            fresh = await deliveries.get(tx, delivery.id)
            if fresh is None or fresh.state is not DeliveryState.PENDING or fresh.platform_id:
                return False
            handoff = await handoff_of(tx, fresh)
            now = await tx.now()
            if not _was_never_tried(fresh):
                if not is_over(fresh, now):
                    return True
                await self.expire(tx, fresh, handoff)
            elif now - handoff.created_at > LONGEST_OWED:
                await self.expire(tx, fresh, handoff)
            else:
                await self._reissue(tx, fresh, handoff, now)
        return False

    async def _reissue(
        self, tx: Transaction, delivery: Delivery, handoff: Handoff, now: datetime
    ) -> None:
        envelope = reissued(envelope_of(delivery), now)
        body = handoff_body(written(envelope), handoff.peer)
        following = await deliveries.owe(tx, superseding(delivery, body=body))
        assert following is not None
        await handoffs.reissue(tx, handoff, envelope, following)
        await deliveries.record(tx, delivery, GivenUp(DeadReason.SUPERSEDED))
        tx.after_commit(lambda: log.info("handoff_reissued", turn_id=delivery.turn))

    async def _admit(self, delivery: Delivery, target: PlatformId) -> bool:
        """Discord tells a mention only to members of the thread."""
        thread, seconds = self._where.ref.conversation_id, self._settings.call.total_seconds()
        try:
            await self._add(thread, target, seconds)
        except (Transient, Unknown) as error:
            wait = getattr(error, "retry_after", None)
            await self._wait(delivery, timedelta(seconds=wait) if wait else _AGAIN)
            return False
        except ChannelRejected as error:
            if error.refusal is Refusal.UNAUTHORIZED:
                await self._wait(delivery, _TOKEN)
            else:
                await self._refuse(delivery, error)
            return False
        self._members.add(target)
        return True

    async def _add(self, thread: PlatformId, target: PlatformId, seconds: float) -> None:
        try:
            await self._channel.add_thread_member(thread, target, seconds)
        except ChannelRejected as error:
            if error.refusal is not Refusal.ARCHIVED:
                raise
            await self._channel.unarchive(thread, seconds)
            await self._channel.add_thread_member(thread, target, seconds)

    async def _wait(self, delivery: Delivery, wait: timedelta) -> None:
        async with self._database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            await deliveries.postpone(tx, delivery.id, await tx.now() + wait)

    async def _refuse(self, delivery: Delivery, error: ChannelRejected) -> None:
        is_gone = error.refusal is Refusal.CONVERSATION_GONE
        async with self._database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            fresh = await deliveries.get(tx, delivery.id)
            if fresh is None or fresh.state is not DeliveryState.PENDING or fresh.platform_id:
                return
            if is_gone:
                await conversations.close(tx, self._where.id)
            reason = NotSent.CONVERSATION_GONE if is_gone else NotSent.TARGET_ABSENT
            await self.give_up(tx, fresh, reason, str(error))


def _is_as_good_as_new(delivery: Delivery, now: datetime) -> bool:
    """Whether it may go as it is."""
    left = life_left(delivery, now)
    return left >= FRESH if _was_never_tried(delivery) else left > timedelta(0)


def _was_never_tried(delivery: Delivery) -> bool:
    """No byte of it can have left: a try that certainly came to nothing is forgotten."""
    return delivery.first_try_at is None and not delivery.had_doubt
