"""Runs: several messages of one bot in a row are one input, whose turn waits for the rest of them.

The turn is queued at once, so that nothing is lost, and held back by its not-before. Another
author ends the run; so do three quiet seconds, and half a minute in any case.
"""

from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from openab.domain.ids import ConversationId, PlatformId, TurnId
from openab.domain.turn import TurnState
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.schema import turns

QUIET = timedelta(seconds=3)
LONGEST = timedelta(seconds=30)


async def open_run(
    tx: Transaction, here: Conversation, author: PlatformId
) -> ConversationId | None:
    """Where the turn is queued that this bot's messages here are gathered in, if there is one."""
    result = await tx.execute(
        sa.select(turns.c.conversation)
        .where(*_held(here), turns.c.requester_id == author, turns.c.not_before > await tx.now())
        .limit(1)
    )
    row = result.one_or_none()
    return ConversationId(row.conversation) if row else None


async def hold(tx: Transaction, turn: TurnId) -> None:
    """The turn waits for more of the run; from its first message on no longer than `LONGEST`."""
    found = await tx.execute(sa.select(turns.c.created_at).where(turns.c.id == turn))
    latest = found.scalar_one() + LONGEST
    await tx.execute(
        sa.update(turns)
        .where(turns.c.id == turn, turns.c.state == TurnState.QUEUED)
        .values(not_before=min(await tx.now() + QUIET, latest))
    )


async def end_others(
    tx: Transaction, here: Conversation, author: PlatformId
) -> list[ConversationId]:
    """Somebody else speaks: the runs of other bots here are over; returns where turns may start."""
    result = await tx.execute(
        sa.update(turns)
        .where(*_held(here), turns.c.requester_id != author, turns.c.not_before.is_not(None))
        .values(not_before=None)
        .returning(turns.c.conversation)
    )
    return [ConversationId(row.conversation) for row in result]


def _held(here: Conversation) -> tuple[sa.ColumnElement[bool] | Any, ...]:
    return (
        # The partial index serves only a condition written word for word as its own.
        sa.text("turns.state IN ('queued', 'running', 'answered')"),
        turns.c.account == here.ref.account,
        turns.c.state == TurnState.QUEUED,
        turns.c.requester_is_bot,
        turns.c.trigger_conversation_id == here.ref.conversation_id,
    )
