"""Deletes finished rows that are old: each call is one small step of its caller's short transaction.

Whatever is open or owed stays, and whatever something that stays points at. Rows are locked before
they are looked at for the last time, so that nobody gives them work between look and deletion.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from openab.domain.binding import BindingStatus
from openab.domain.ids import AccountId, ConversationId, SessionKey
from openab.domain.spawn import LIFECYCLE as SPAWN_LIFECYCLE
from openab.domain.turn import LIFECYCLE
from openab.storage.engine import Transaction
from openab.storage.schema import (
    bindings,
    conversations,
    deliveries,
    handoffs,
    inbox,
    sessions,
    spawns,
    stream_segments,
    streams,
    turn_log,
    turn_reactions,
    turns,
)

#: How many rows went, by table.
Deleted = Counter[str]
#: What goes with a turn.
_OF_A_TURN = (turn_log, streams, stream_segments, turn_reactions, deliveries)
#: The tables that finished rows are deleted from.
SWEPT = frozenset(
    {
        table.name
        for table in (
            *_OF_A_TURN, turns, inbox, handoffs, bindings, sessions, spawns, conversations,
        )
    }
)  # fmt: skip
#: Those that it leaves alone: one row for each bot, one for each channel that shows sub-agents, one for
#: each place while history is read, and one for the database; the others hold no more than so many rows, whatever comes, and each decision on a
#: hand-off deletes those that have run out.
KEPT = frozenset(
    {
        "accounts",
        "database",
        "handoff_gates",
        "handoff_refusals",
        "history_marks",
        "replay_events",
        "rate_windows",
        "webhooks",
    }
)
_OVER = sorted(state.value for state in LIFECYCLE.terminal)
_SPAWN_OVER = sorted(state.value for state in SPAWN_LIFECYCLE.terminal)
#: The partial index serves only a condition written word for word as its own.
_OPEN = "state IN ('pending', 'sending', 'unknown')"


@dataclass(frozen=True, slots=True)
class UnusedSession:
    """A session that nobody used for long and no turn belongs to; its agent may still live."""

    key: SessionKey
    conversation: ConversationId
    generation: int
    epoch: int


async def delete_turns(
    tx: Transaction, account: AccountId, before: datetime, limit: int
) -> Deleted:
    """Up to `limit` turns that were settled before, the oldest first, with all that is theirs."""
    is_free = sa.and_(
        turns.c.account == account,
        turns.c.settled_at < before,
        turns.c.state.in_(_OVER),
        ~_owes_something(),
        ~_reaction_is_due(),
    )
    oldest = sa.select(turns.c.id).where(is_free).order_by(turns.c.settled_at)
    found = await _locked(tx, oldest, turns.c.id, is_free, limit)
    deleted = Deleted()
    if found:
        for table in _OF_A_TURN:
            deleted += await _delete(tx, table, table.c.turn_id.in_(found))
        deleted += await _delete(tx, turns, turns.c.id.in_(found))
    return deleted


def _owes_something() -> sa.Exists:
    """Some row of the turn stands in a conversation where a delivery is open.

    If it is not its own, that one's evidence is history, where messages of ours must be known.
    """
    own, other = deliveries.alias("own"), deliveries.alias("other")
    return sa.exists(
        sa.select(sa.literal(1))
        .select_from(own)
        .join(other, sa.and_(*_is_open_beside(other, own)))
        .where(own.c.turn_id == turns.c.id)
    )


def _is_open_beside(other: Any, own: Any) -> tuple[sa.ColumnElement[bool] | Any, ...]:
    return (
        other.c.account == own.c.account,
        other.c.conversation == own.c.conversation,
        sa.text(f"other.{_OPEN}"),
    )


def _reaction_is_due() -> sa.Exists:
    return sa.exists(
        sa.select(sa.literal(1)).where(
            turn_reactions.c.turn_id == turns.c.id, turn_reactions.c.due_at.is_not(None)
        )
    )


async def delete_deliveries(
    tx: Transaction, account: AccountId, before: datetime, limit: int
) -> Deleted:
    """Up to `limit` settled deliveries that belong to no turn: notices, answers, opened threads."""
    other = deliveries.alias("other")
    beside = sa.select(sa.literal(1)).where(*_is_open_beside(other, deliveries))
    opened = sa.select(sa.literal(1)).where(
        turns.c.conversation == deliveries.c.conversation,
        turns.c.thread_delivery == deliveries.c.id,
    )
    is_free = sa.and_(
        deliveries.c.account == account,
        deliveries.c.turn_id.is_(None),
        deliveries.c.settled_at < before,
        ~sa.exists(beside),
        sa.or_(deliveries.c.kind != sa.literal("thread"), ~sa.exists(opened)),
    )
    oldest = sa.select(deliveries.c.id).where(is_free).order_by(deliveries.c.settled_at)
    found = await _locked(tx, oldest, deliveries.c.id, is_free, limit)
    return await _delete(tx, deliveries, deliveries.c.id.in_(found)) if found else Deleted()


async def delete_inbox(
    tx: Transaction, account: AccountId, before: datetime, limit: int
) -> Deleted:
    """Up to `limit` events that were seen before and whose turn, if there was one, is gone."""
    has_turn = sa.exists(sa.select(sa.literal(1)).where(turns.c.id == inbox.c.turn_id))
    oldest = (
        sa.select(inbox.c.kind, inbox.c.event_key)
        .where(inbox.c.account == account, inbox.c.seen_at < before, ~has_turn)
        .order_by(inbox.c.seen_at)
        .limit(limit)
    )
    found = (await tx.execute(oldest)).all()
    deleted = Deleted()
    for kind in {row.kind for row in found}:
        keys = [row.event_key for row in found if row.kind == kind]
        mine = sa.and_(inbox.c.account == account, inbox.c.kind == kind)
        deleted += await _delete(tx, inbox, mine & inbox.c.event_key.in_(keys))
    return deleted


async def delete_handoffs(
    tx: Transaction, account: AccountId, before: datetime, limit: int
) -> Deleted:
    """Up to `limit` hand-offs, sent, given up or accepted before; what is owed has no such moment."""
    oldest = (
        sa.select(handoffs.c.id)
        .where(handoffs.c.account == account, handoffs.c.settled_at < before)
        .order_by(handoffs.c.settled_at)
        .limit(limit)
    )
    return await _delete(tx, handoffs, handoffs.c.id.in_(oldest))


async def delete_bindings(
    tx: Transaction, account: AccountId, before: datetime, limit: int
) -> Deleted:
    """Up to `limit` tombstones of bindings that ended before; one that goes on right now is left."""
    is_free = sa.and_(
        bindings.c.account == account,
        bindings.c.ended_at < before,
        bindings.c.state == BindingStatus.ENDED.value,
    )
    oldest = sa.select(bindings.c.id).order_by(bindings.c.ended_at)
    found = await _locked(tx, oldest, bindings.c.id, is_free, limit)
    return await _delete(tx, bindings, bindings.c.id.in_(found)) if found else Deleted()


async def delete_spawns(
    tx: Transaction, account: AccountId, before: datetime, limit: int
) -> Deleted:
    """Up to `limit` spawns that were over before and whose session is gone.

    What a session was made for tells how deep the sub-agents are that it may start.
    """
    its_session = sa.select(sa.literal(1)).where(sessions.c.session_key == spawns.c.session_key)
    oldest = (
        sa.select(spawns.c.id)
        .where(
            spawns.c.account == account,
            spawns.c.settled_at < before,
            spawns.c.state.in_(_SPAWN_OVER),
            ~sa.exists(its_session),
        )
        .order_by(spawns.c.settled_at)
        .limit(limit)
    )
    return await _delete(tx, spawns, spawns.c.id.in_(oldest))


async def unused_sessions(
    tx: Transaction, account: AccountId, before: datetime, limit: int
) -> list[UnusedSession]:
    """Sessions whose last turn began before, the oldest first, and whose turns are all gone."""
    result = await tx.execute(
        sa.select(
            sessions.c.session_key,
            sessions.c.conversation,
            sessions.c.generation,
            sessions.c.epoch,
        )
        .where(_is_unused(account, before))
        .order_by(sessions.c.last_activity_at)
        .limit(limit)
    )
    return [
        UnusedSession(
            SessionKey(row.session_key),
            ConversationId(row.conversation),
            row.generation,
            row.epoch,
        )
        for row in result
    ]


async def delete_sessions(
    tx: Transaction, account: AccountId, before: datetime, unused: Collection[UnusedSession]
) -> Deleted:
    """Those of these sessions that are still unused; one that is given a turn right now is left."""
    # Whoever gives a session a turn has locked its conversation, and who binds it the session itself.
    where = await _locked(
        tx,
        sa.select(conversations.c.id).order_by(conversations.c.id),
        conversations.c.id,
        conversations.c.id.in_([one.conversation for one in unused]),
    )
    free = sa.and_(
        sessions.c.session_key.in_([one.key for one in unused if one.conversation in where]),
        _is_unused(account, before),
    )
    oldest = sa.select(sessions.c.session_key).order_by(sessions.c.session_key)
    gone = await _locked(tx, oldest, sessions.c.session_key, free)
    return await _delete(tx, sessions, sessions.c.session_key.in_(gone)) if gone else Deleted()


def _is_unused(account: AccountId, before: datetime) -> sa.ColumnElement[bool]:
    has_turn = sa.exists(
        sa.select(sa.literal(1)).where(turns.c.session_key == sessions.c.session_key)
    )
    is_bound = sa.exists(
        sa.select(sa.literal(1)).where(bindings.c.session_key == sessions.c.session_key)
    )
    return sa.and_(
        sessions.c.account == account,
        sessions.c.last_activity_at < before,
        sessions.c.ending_incarnation.is_(None),
        ~has_turn,
        ~is_bound,
        ~_is_waited_for(),
    )


def _is_waited_for() -> sa.Exists:
    """Its completion is still to be given to a conversation that is bound to it."""
    return sa.exists(
        sa.select(sa.literal(1)).where(
            spawns.c.session_key == sessions.c.session_key, spawns.c.state.not_in(_SPAWN_OVER)
        )
    )


async def delete_conversations(
    tx: Transaction, account: AccountId, before: datetime, limit: int
) -> Deleted:
    """Up to `limit` conversations that the network closed before and that hold nothing any more.

    All others stay: that we take part in one, and which bots are in it, is asked for ever.
    """
    kept = [
        sa.exists(sa.select(sa.literal(1)).where(column == conversations.c.id))
        for column in (
            *(table.c.conversation for table in (turns, sessions, deliveries, bindings)),
            spawns.c.requester_conversation,
        )
    ]
    is_free = sa.and_(
        conversations.c.account == account,
        conversations.c.closed_at < before,
        conversations.c.lease_owner.is_(None),
        *(~one for one in kept),
    )
    oldest = sa.select(conversations.c.id).where(is_free).order_by(conversations.c.closed_at)
    found = await _locked(tx, oldest, conversations.c.id, is_free, limit)
    return await _delete(tx, conversations, conversations.c.id.in_(found)) if found else Deleted()


async def _locked(
    tx: Transaction,
    oldest: sa.Select[Any],
    key: sa.ColumnElement[str],
    condition: sa.ColumnElement[bool],
    limit: int | None = None,
) -> Sequence[str]:
    """Lock what is found, passing over what is in use, and look again at what was locked."""
    chosen = await tx.execute(
        oldest.where(condition).limit(limit).with_for_update(skip_locked=True)
    )
    ids = list(chosen.scalars())
    if not ids:
        return []
    return list((await tx.execute(sa.select(key).where(key.in_(ids), condition))).scalars())


async def _delete(tx: Transaction, table: sa.Table, which: sa.ColumnElement[bool]) -> Deleted:
    result = await tx.execute(sa.delete(table).where(which))
    return Deleted({table.name: result.rowcount} if result.rowcount else {})
