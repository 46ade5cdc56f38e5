"""What has to be told in the parent, because the thread is not there or cannot be written."""

from datetime import datetime

from openab.control.bound_sessions import unbind_here
from openab.control.elsewhere import owe_in, parent_of, told_about
from openab.control.outcome import end_unprompted
from openab.control.settings import Settings
from openab.domain.binding import EndReason
from openab.domain.delivery import DeadReason, DeliveryState, GivenUp
from openab.domain.outbound import presentation_body
from openab.domain.turn import Claimed, TurnState
from openab.storage import deliveries, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery
from openab.storage.engine import Transaction
from openab.text import notices

#: A wait shorter than this is not worth a message.
_WORTH_TELLING = 10.0


async def tell_waiting(
    tx: Transaction,
    settings: Settings,
    where: Conversation,
    delivery: Delivery,
    until: datetime,
    wait: float,
) -> None:
    """Say once, in the parent, until when the thread's opening has to wait."""
    parent = await parent_of(tx, where)
    if parent is None or delivery.target is None or wait < _WORTH_TELLING:
        return
    body = presentation_body(notices.waiting_for_discord(until))
    await owe_in(tx, settings, parent, f"{delivery.key}:waiting", body, delivery.target.message_id)


async def thread_refused(
    tx: Transaction, settings: Settings, where: Conversation, reason: str
) -> None:
    """The thread will never be: its turns end unprompted, each told in the parent."""
    parent = await parent_of(tx, where)
    if parent is None:
        return
    # Before its turns end: nobody is to be told where nothing can be told.
    await unbind_here(tx, settings, where, EndReason.CONVERSATION_GONE)
    for row in await deliveries.open_of(tx, where.id):
        # What no turn says would only be refused, too.
        if row.state is DeliveryState.PENDING and row.turn is None:
            await deliveries.record(tx, row, GivenUp(DeadReason.SUPERSEDED))
    for turn in await turns.open_of(tx, where.id):
        if turn.state is TurnState.QUEUED:
            await turns.record(tx, turn, Claimed(), started_at=await tx.now())
            running = await turns.get(tx, turn.id)
            assert running is not None
            text = notices.thread_not_opened(reason)
            told_in = await told_about(tx, where, turn.id) or parent
            await end_unprompted(tx, settings, running, text, told_in)
