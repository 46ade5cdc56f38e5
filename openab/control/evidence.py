"""Looks in history whether a create of unknown outcome is there; only a complete look counts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.errors import OpenabError
from openab.domain.handoff import event_in
from openab.domain.ids import ConversationRef, MessageRef, PlatformId
from openab.domain.outbound import content_digest
from openab.ports.channel import Channel, ChannelRejected, Refusal, SeenMessage
from openab.storage.deliveries import Delivery

_PAGE = 100
_PAGES = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """found | absent | later (the look itself failed) | invalid (it can never be valid)."""

    verdict: str
    platform_id: PlatformId | None = None


async def look(
    channel: Channel,
    ref: ConversationRef,
    delivery: Delivery,
    call: timedelta,
    is_taken: Callable[[str], Awaitable[bool]],
    *,
    author: PlatformId | None = None,
) -> Finding:
    """Page through the messages behind the row's anchor and find the one that must be ours.

    The look is valid only if the history may be read, the anchor itself is there (or is the thread's
    own beginning), and the history was read to its end. A thread is there if it can be read at all.
    `author` is whose message it is, if not the account's own.
    """
    try:
        if delivery.kind is DeliveryKind.THREAD:
            return await _look_for_thread(channel, ref, call)
        if not await _is_anchored(channel, ref, delivery, call):
            return Finding("invalid")
        writer = str(author or ref.account)
        return await _scan(channel, ref, delivery, call, is_taken, writer)
    except ChannelRejected:
        # Whoever may not read the history will never see the message in it.
        return Finding("invalid")
    except OpenabError:
        return Finding("later")


async def _look_for_thread(channel: Channel, ref: ConversationRef, call: timedelta) -> Finding:
    thread = ref.conversation_id
    try:
        await channel.history(thread, after=thread, limit=1, seconds=call.total_seconds())
    except ChannelRejected as error:
        is_absent = error.refusal is Refusal.CONVERSATION_GONE
        return Finding("absent" if is_absent else "invalid")
    return Finding("found", thread)


async def _is_anchored(
    channel: Channel, ref: ConversationRef, delivery: Delivery, call: timedelta
) -> bool:
    anchor = delivery.anchor
    if anchor is None:
        return False
    # Whoever may not read the history gets an empty list of it, but no single message: that is refused.
    found = await channel.fetch_message(
        MessageRef(ref.conversation_id, anchor), call.total_seconds()
    )
    # What is named as a conversation's own beginning need not be a message in it.
    return found is not None or anchor == ref.conversation_id


async def _scan(
    channel: Channel,
    ref: ConversationRef,
    delivery: Delivery,
    call: timedelta,
    is_taken: Callable[[str], Awaitable[bool]],
    writer: str,
) -> Finding:
    after = delivery.anchor or ref.conversation_id
    for _ in range(_PAGES):
        page = await channel.history(
            ref.conversation_id, after=after, limit=_PAGE, seconds=call.total_seconds()
        )
        for message in page:
            if _is_ours(message, writer, delivery) and not await is_taken(message.message_id):
                return Finding("found", message.message_id)
        if len(page) < _PAGE:
            return Finding("absent")
        after = page[-1].message_id
    return Finding("invalid")


def _is_ours(message: SeenMessage, writer: str, delivery: Delivery) -> bool:
    if str(message.author_id) != writer or message.is_interaction:
        return False
    if message.nonce is not None:
        return message.nonce == delivery.nonce
    if delivery.purpose is Purpose.HANDOFF:
        # Whichever version it is: the event is what must not be there twice.
        return event_in(message.content) == event_in(delivery.body.content)
    return content_digest(message.content) == delivery.body.digest
