"""Batches: a turn takes more messages while it is queued, and none from the moment it is claimed."""

from typing import Any

import sqlalchemy as sa

from openab.domain.batching import Batching, DispatchMode
from openab.domain.ids import TurnId, snowflake
from openab.domain.turn import TurnSource, TurnState
from openab.storage.engine import Transaction
from openab.storage.schema import turns
from openab.storage.turns import NewTurn, written


async def join(tx: Transaction, new: NewTurn, rule: Batching) -> TurnId | None:
    """Add the message to the turn that waits behind all others (of its author, in lanes).

    None: no turn waits there, its batch is full, or it was claimed just now; then the message is a
    turn of its own. The caller has locked the conversation's row, as whoever claims the turn does.
    """
    if not rule.gathers:
        return None
    found = await tx.execute(_newest(new, rule))
    last = found.one_or_none()
    if last is None:
        return None
    result = await tx.execute(_extension(last, new, rule))
    return TurnId(last.id) if result.rowcount == 1 else None


def _newest(new: NewTurn, rule: Batching) -> sa.Select[Any]:
    """Of whatever kind it is: a message never joins a turn that something else waits behind.

    Other conversations may be bound to the same session: what is said here is answered here.
    """
    query = (
        sa.select(turns)
        .where(
            turns.c.session_key == new.session_key,
            turns.c.conversation == new.conversation,
            turns.c.state == TurnState.QUEUED,
        )
        .order_by(turns.c.order_key.desc(), turns.c.seq.desc())
        .limit(1)
    )
    if rule.mode is DispatchMode.PER_LANE:
        query = query.where(turns.c.lane == new.requester_id)
    return query


def _extension(last: Any, new: NewTurn, rule: Batching) -> sa.Update:
    """One guarded UPDATE: it changes nothing once the turn was claimed, cancelled, or is full."""
    values: dict[str, object] = {
        "batch": [*last.batch, written(new.arrival)],
        "batch_count": turns.c.batch_count + 1,
        "batch_tokens": turns.c.batch_tokens + new.tokens,
        "order_key": min(last.order_key, new.order_key),
        "lane": last.lane if last.lane == new.requester_id else None,
    }
    if new.order_key >= snowflake(last.trigger_message_id):
        # Who spoke last is who is answered.
        values |= {
            "requester_id": new.requester_id,
            "requester_name": new.requester_name,
            "requester_is_bot": new.requester_is_bot,
            "trigger_conversation_id": new.trigger.conversation_id,
            "trigger_message_id": new.trigger.message_id,
        }
    return (
        sa.update(turns)
        .where(
            turns.c.id == last.id,
            turns.c.state == TurnState.QUEUED,
            turns.c.source == TurnSource.MESSAGE,
            turns.c.cancel_requested_at.is_(None),
            turns.c.batch_count == last.batch_count,
            turns.c.batch_count < rule.max_messages,
            turns.c.batch_tokens + new.tokens <= rule.max_tokens,
        )
        .values(**values)
    )
