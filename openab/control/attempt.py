"""One try of a delivery: the call it stands for, and its outcome as one of four results."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.errors import Transient, Unknown
from openab.domain.ids import DeliveryId, MessageRef, PlatformId
from openab.ports.channel import Channel, ChannelRejected, Refusal
from openab.storage.deliveries import Delivery

#: How long a call waits for a token that is accepted again.
_TOKEN_SECONDS = 60.0


class Result(StrEnum):
    """How a try ended."""

    DONE = "done"
    #: Definitely not done, and worth another try.
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"
    #: Definitely refused.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """A try's outcome. `platform_id` is set for creates and threads that were done."""

    result: Result
    platform_id: PlatformId | None = None
    retry_after: float | None = None
    refusal: Refusal | None = None
    reason: str = ""


class AttemptMaker:
    """Makes the calls of one conversation."""

    def __init__(
        self,
        channel: Channel,
        conversation_id: PlatformId,
        call: timedelta,
        post_task: Callable[[Delivery], Awaitable[PlatformId]],
    ) -> None:
        """`post_task` posts what is shown under a sub-agent's name."""
        self._channel = channel
        self._conversation_id = conversation_id
        self._seconds = call.total_seconds()
        self._post_task = post_task
        self._unarchived_for: set[DeliveryId] = set()

    async def make(self, delivery: Delivery, target: Delivery | None) -> Answer:
        """Call the network once; `target` is the create that an edit or delete is about."""
        try:
            platform_id = await self._call(delivery, target)
        except Transient as error:
            return Answer(Result.NOT_DONE, retry_after=error.retry_after, reason=str(error))
        except Unknown as error:
            return Answer(Result.UNKNOWN, reason=str(error))
        except ChannelRejected as error:
            if error.refusal is Refusal.UNAUTHORIZED:
                # The token, not the message, is at fault: it is owed until somebody mends that.
                return Answer(Result.NOT_DONE, retry_after=_TOKEN_SECONDS, reason=str(error))
            if error.refusal is Refusal.ARCHIVED and delivery.id not in self._unarchived_for:
                return await self._unarchive(delivery)
            return Answer(Result.REFUSED, refusal=error.refusal, reason=str(error))
        return Answer(Result.DONE, platform_id=platform_id)

    async def _unarchive(self, delivery: Delivery) -> Answer:
        """50083: take the thread out of the archive, once per row, so that the next try can work."""
        try:
            await self._channel.unarchive(self._conversation_id, self._seconds)
        except ChannelRejected as error:
            return Answer(Result.REFUSED, refusal=Refusal.LOCKED, reason=str(error))
        except (Transient, Unknown) as error:
            return Answer(Result.NOT_DONE, reason=str(error))
        self._unarchived_for.add(delivery.id)
        return Answer(Result.NOT_DONE, reason="taken out of the archive")

    async def _call(self, delivery: Delivery, target: Delivery | None) -> PlatformId | None:
        if delivery.purpose is Purpose.TASK:
            return await self._post_task(delivery)
        if delivery.kind is DeliveryKind.CREATE:
            return await self._channel.create_message(
                self._conversation_id, delivery.body, delivery.nonce, self._seconds
            )
        if delivery.kind is DeliveryKind.THREAD:
            assert delivery.target is not None
            title = delivery.body.content
            return await self._channel.open_thread(delivery.target, title, self._seconds)
        ref = self._message(delivery, target)
        if delivery.kind is DeliveryKind.EDIT:
            await self._channel.edit_message(ref, delivery.body, self._seconds)
        else:
            await self._channel.delete_message(ref, self._seconds)
        return None

    def _message(self, delivery: Delivery, target: Delivery | None) -> MessageRef:
        if target is None:
            assert delivery.target is not None
            return delivery.target
        if target.platform_id is None or target.is_gone:
            raise ChannelRejected(Refusal.MESSAGE_GONE, "the message was never sent")
        return MessageRef(self._conversation_id, target.platform_id)
