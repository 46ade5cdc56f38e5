"""What people ask about sessions: who has asked in one, what it has cost, and which there are. Reads only."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from openab.domain.ids import AccountId, ConversationId, PlatformId
from openab.domain.message import Place
from openab.storage.engine import Transaction
from openab.storage.schema import conversations, sessions, turns
from openab.storage.sessions import Session
from openab.storage.types import UtcDateTime


@dataclass(frozen=True, slots=True)
class Spent:
    """How many requests an agent was given, and how long it worked on them."""

    turns: int
    time: timedelta


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A session in a list for people."""

    conversation_id: PlatformId
    agent: str
    last_activity_at: datetime
    is_running: bool
    waiting: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Which sessions somebody may see: those of the allowed channels (None: all), and the one here.

    A direct conversation is seen by nobody but from itself.
    """

    account: AccountId
    here: ConversationId | None
    channels: Collection[str] | None


async def has_asked(
    tx: Transaction, session: Session, person: PlatformId, *, at_home: bool = False
) -> bool:
    """Whether somebody has asked anything in a session, before or after a reset.

    `at_home`: in its own conversation, not in one that is or was bound to it.
    """
    asked = [_of(session), turns.c.requester_id == person]
    if at_home:
        asked.append(turns.c.conversation == session.conversation)
    result = await tx.execute(sa.select(sa.literal(1)).where(*asked).limit(1))
    return result.one_or_none() is not None


async def spent(tx: Transaction, session: Session) -> Spent:
    """The turns that were begun since the last reset, and their time; one that runs counts up to now."""
    ended = sa.func.coalesce(
        turns.c.answered_at, sa.literal(await tx.now(), UtcDateTime), type_=UtcDateTime
    )
    lasted = sa.type_coerce(ended, sa.BigInteger) - sa.type_coerce(
        turns.c.started_at, sa.BigInteger
    )
    query = sa.select(
        sa.func.count().label("number"), sa.func.coalesce(sa.func.sum(lasted), 0).label("micros")
    ).where(_of(session), turns.c.started_at.is_not(None))
    if session.reset_at:
        query = query.where(turns.c.created_at > session.reset_at)
    row = (await tx.execute(query)).one()
    return Spent(int(row.number), timedelta(microseconds=int(row.micros)))


def _of(session: Session) -> sa.ColumnElement[bool]:
    # Whatever the conversation: others may be bound to it.
    return turns.c.session_key == session.key


async def count(tx: Transaction, seen: Seen) -> int:
    """How many sessions somebody may see."""
    query = sa.select(sa.func.count()).select_from(_SESSIONS).where(_visible(seen))
    return int((await tx.execute(query)).scalar_one())


async def page(tx: Transaction, seen: Seen, *, first: int, size: int) -> list[SessionEntry]:
    """A part of the sessions that somebody may see, the latest active first."""
    result = await tx.execute(
        sa.select(
            conversations.c.conversation_id,
            sessions.c.agent,
            sessions.c.last_activity_at,
            _turns("running").label("running"),
            _turns("queued").label("queued"),
        )
        .select_from(_SESSIONS)
        .where(_visible(seen))
        .order_by(sessions.c.last_activity_at.desc(), sessions.c.session_key)
        .offset(first)
        .limit(size)
    )
    return [_entry(row) for row in result]


_SESSIONS = sessions.join(conversations, conversations.c.id == sessions.c.conversation)


def _turns(state: str) -> sa.ScalarSelect[int]:
    return (
        sa.select(sa.func.count())
        .where(
            turns.c.session_key == sessions.c.session_key,
            turns.c.state == state,
        )
        .correlate(sessions)
        .scalar_subquery()
    )


def _visible(seen: Seen) -> sa.ColumnElement[bool]:
    elsewhere = conversations.c.place != Place.DM.value
    if seen.channels is not None:
        listed = list(seen.channels)
        elsewhere &= conversations.c.conversation_id.in_(listed) | sa.and_(
            conversations.c.place == Place.THREAD.value,
            conversations.c.parent_conversation_id.in_(listed),
        )
    return sa.and_(
        sessions.c.account == seen.account,
        conversations.c.closed_at.is_(None),
        elsewhere | (conversations.c.id == seen.here) if seen.here else elsewhere,
    )


def _entry(row: Any) -> SessionEntry:
    return SessionEntry(
        conversation_id=PlatformId(row.conversation_id),
        agent=row.agent,
        last_activity_at=row.last_activity_at,
        is_running=row.running > 0,
        waiting=int(row.queued),
    )
