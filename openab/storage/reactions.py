"""Reactions: which emoji may stand on each message of a turn, and which one should stand there alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.handoff.receipts import ACCEPTED
from openab.domain.ids import AccountId, ConversationId, MessageRef, PlatformId, TurnId
from openab.domain.turn import TurnSource
from openab.storage.engine import Transaction
from openab.storage.schema import turn_reactions, turns
from openab.storage.types import UtcDateTime


@dataclass(frozen=True, slots=True)
class Reactions:
    """One message's emoji. `trigger` is the message; a turn's status stands on its last one."""

    turn: TurnId
    trigger: MessageRef
    shown: tuple[str, ...]
    wished: str | None
    due_at: datetime | None
    tries: int
    #: What stays when the turn's own emoji go: a hand-off's receipt.
    receipt: str | None = None


_WISH = postgresql.insert(turn_reactions)
_WISH_ANEW = _WISH.on_conflict_do_update(
    index_elements=["turn_id", "message_id"],
    set_={"wished": _WISH.excluded.wished, "due_at": _WISH.excluded.due_at, "tries": 0},
)
_OF_CONVERSATION = (
    sa.select(turn_reactions, turns.c.source)
    .join(turns, turns.c.id == turn_reactions.c.turn_id)
    .where(turns.c.conversation == sa.bindparam("conversation"))
    .order_by(turn_reactions.c.due_at, turn_reactions.c.message_id)
    .limit(1)
)
_NEXT_DUE = _OF_CONVERSATION.with_only_columns(turn_reactions.c.due_at).where(
    turn_reactions.c.due_at.is_not(None)
)
_TAKE_DUE = _OF_CONVERSATION.where(
    turn_reactions.c.due_at <= sa.bindparam("now", type_=UtcDateTime)
).with_for_update(of=turn_reactions)


async def wish(tx: Transaction, turn: TurnId, emoji: str | None, due_at: datetime) -> None:
    """This emoji alone (or these, parted by spaces) should stand on the turn's trigger, from `due_at` on.

    A hand-off's receipt stands beside them. A completion's trigger is no message that was said to us.
    """
    row = (
        await tx.execute(
            sa.select(
                turns.c.account,
                turns.c.source,
                turns.c.trigger_conversation_id,
                turns.c.trigger_message_id,
            ).where(turns.c.id == turn)
        )
    ).one()
    if row.source == TurnSource.COMPLETION:
        return
    trigger = MessageRef(row.trigger_conversation_id, row.trigger_message_id)
    wished = " ".join(filter(None, (_receipt(row.source), emoji))) or None
    await wish_on(tx, turn, row.account, trigger, wished, due_at)


async def wish_on(
    tx: Transaction,
    turn: TurnId,
    account: AccountId,
    message: MessageRef,
    emoji: str | None,
    due_at: datetime,
) -> None:
    """The same for any message of the turn's batch."""
    await tx.execute(
        _WISH_ANEW,
        {
            "turn_id": turn,
            "message_id": message.message_id,
            "account": account,
            "conversation_id": message.conversation_id,
            "shown": [],
            "wished": emoji,
            "due_at": due_at,
        },
    )


async def drop_wish(tx: Transaction, of: Reactions, due_at: datetime, *, left: str = "") -> None:
    """No emoji (but those `left`) should stand on this message any more, from `due_at` on."""
    await tx.execute(_update(of).values(wished=left or None, due_at=due_at, tries=0))


async def conclude(tx: Transaction, turn: TurnId, emoji: str | None, due_at: datetime) -> None:
    """The turn is over: its trigger shows how it ended, the batch's other messages show nothing."""
    await wish(tx, turn, emoji, due_at)
    trigger = sa.select(turns.c.trigger_message_id).where(turns.c.id == turn).scalar_subquery()
    await tx.execute(
        sa.update(turn_reactions)
        .where(turn_reactions.c.turn_id == turn, turn_reactions.c.message_id != trigger)
        .values(wished=None, due_at=due_at, tries=0)
    )


async def note(
    tx: Transaction,
    of: Reactions,
    shown: Sequence[str],
    due_at: datetime | None,
    tries: int,
) -> None:
    """Which emoji may stand there now, and when to look again (None: never)."""
    await tx.execute(_update(of).values(shown=list(shown), due_at=due_at, tries=tries))


async def next_due(tx: Transaction, conversation: ConversationId) -> datetime | None:
    """When the first message of this conversation's turns is to be looked at; None: never."""
    result = await tx.execute(_NEXT_DUE, {"conversation": conversation})
    return result.scalar_one_or_none()


async def take_due(
    tx: Transaction, conversation: ConversationId, now: datetime
) -> Reactions | None:
    """The message that is due longest, locked: whoever ends its turn meanwhile waits for what is noted.

    A turn may be ended by the owner of another conversation, where its answer stands.
    """
    result = await tx.execute(_TAKE_DUE, {"conversation": conversation, "now": now})
    row = result.one_or_none()
    return replace(_reactions(row), receipt=_receipt(row.source)) if row else None


async def of_turn(tx: Transaction, turn: TurnId) -> list[Reactions]:
    """Every message of the turn that has or had an emoji, in the order of their ids."""
    result = await tx.execute(
        sa.select(turn_reactions)
        .where(turn_reactions.c.turn_id == turn)
        .order_by(sa.func.length(turn_reactions.c.message_id), turn_reactions.c.message_id)
    )
    return [_reactions(row) for row in result]


async def again(tx: Transaction, of: Reactions) -> Reactions | None:
    """The same message's emoji as they are now, locked."""
    result = await tx.execute(sa.select(turn_reactions).where(*_is(of)).with_for_update())
    row = result.one_or_none()
    return _reactions(row) if row else None


def _is(of: Reactions) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    row = turn_reactions.c
    return row.turn_id == of.turn, row.message_id == of.trigger.message_id


def _receipt(source: str) -> str | None:
    return ACCEPTED if source == TurnSource.HANDOFF else None


def _update(of: Reactions) -> sa.Update:
    return sa.update(turn_reactions).where(*_is(of))


def _reactions(row: Any) -> Reactions:
    return Reactions(
        turn=TurnId(row.turn_id),
        trigger=MessageRef(PlatformId(row.conversation_id), PlatformId(row.message_id)),
        shown=tuple(row.shown),
        wished=row.wished,
        due_at=row.due_at,
        tries=row.tries,
    )
