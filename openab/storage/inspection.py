"""What people look at: turns, sessions and deliveries as lines, and the story of one message. Reads only."""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import asyncpg
import sqlalchemy as sa
from alembic.util import CommandError

from openab.domain.binding import SessionBinding
from openab.domain.delivery import LIFECYCLE as DELIVERY_LIFECYCLE
from openab.domain.ids import SessionKey
from openab.domain.turn import LIFECYCLE as TURN_LIFECYCLE
from openab.storage import bindings, inbox
from openab.storage.engine import Database, Transaction
from openab.storage.schema import conversations, deliveries, sessions, turn_log, turns
from openab.storage.spawn_stories import SpawnStory, stories_of_message
from openab.storage.upgrade import SchemaAge, SchemaRefused, check, prepare

_OPEN_TURN = turns.c.state.in_([state.value for state in TURN_LIFECYCLE.open])
_OPEN_DELIVERY = deliveries.c.state.in_([state.value for state in DELIVERY_LIFECYCLE.open])


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A turn without what was said in it."""

    id: str
    account: str
    #: The thread, channel or DM on the network.
    conversation_id: str
    session_key: str
    state: str
    outcome: str | None
    source: str
    requester_id: str
    requester_name: str
    trigger_conversation_id: str
    trigger_message_id: str
    attempt: int
    stop_reason: str | None
    error: Mapping[str, Any] | None
    not_before: datetime | None
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    answered_at: datetime | None
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session, and how many of its turns are not over."""

    session_key: str
    account: str
    conversation_id: str
    agent: str
    working_dir: str
    acp_session_id: str | None
    generation: int
    open_turns: int
    created_at: datetime
    last_activity_at: datetime
    #: Other conversations than its own that talk to it now.
    bound_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveryLine:
    """A delivery without its text."""

    id: str
    account: str
    conversation_id: str
    turn_id: str | None
    key: str
    kind: str
    purpose: str
    part: int
    state: str
    tries: int
    platform_id: str | None
    is_gone: bool
    dead_reason: str | None
    dead_detail: str | None
    not_before: datetime | None
    created_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event in a turn's life."""

    event: str
    detail: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class TurnStory:
    """A turn with everything that is known of how it went."""

    turn: TurnLine
    log: tuple[LogLine, ...]
    deliveries: tuple[DeliveryLine, ...]
    #: Whether a broker holds the conversation's lease now.
    is_owned: bool
    #: Turns of the conversation that come first and are not over.
    turns_before: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one account made of a message."""

    entry: inbox.Entry
    story: TurnStory | None


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a database knows of a message; all of it empty: it was never seen."""

    sightings: tuple[Sighting, ...]
    #: It is a message that openab itself sent: the delivery, and its turn.
    own: DeliveryLine | None
    own_story: TurnStory | None
    #: The spawns that it has to do with.
    spawns: tuple[SpawnStory, ...] = ()


async def list_turns(url: str, *, only_open: bool, limit: int) -> list[TurnLine]:
    """The newest first. Raises DatabaseUnavailable, or SchemaRefused with what to type."""
    async with reading(url) as tx:
        query = _turn_query().order_by(turns.c.created_at.desc(), turns.c.id).limit(limit)
        rows = await tx.execute(query.where(_OPEN_TURN) if only_open else query)
        return [TurnLine(**row) for row in rows.mappings()]


async def list_sessions(url: str, *, only_open: bool, limit: int) -> list[SessionLine]:
    """The last used first; `only_open`: those with a turn that is not over. Raises as `list_turns`."""
    async with reading(url) as tx:
        open_turns = (
            sa.select(sa.func.count())
            .where(turns.c.session_key == sessions.c.session_key, _OPEN_TURN)
            .scalar_subquery()
        )
        query = (
            sa.select(
                *_columns(sessions, SessionLine, but=("conversation_id", "open_turns", "bound_to")),
                conversations.c.conversation_id,
                open_turns.label("open_turns"),
            )
            .join(conversations, conversations.c.id == sessions.c.conversation)
            .order_by(sessions.c.last_activity_at.desc(), sessions.c.session_key)
            .limit(limit)
        )
        rows = await tx.execute(query.where(open_turns > 0) if only_open else query)
        lines = [SessionLine(**row) for row in rows.mappings()]
        bound = await bindings.active_of(tx, [SessionKey(line.session_key) for line in lines])
        return [replace(line, bound_to=_elsewhere(line, bound)) for line in lines]


async def list_deliveries(url: str, *, only_open: bool, limit: int) -> list[DeliveryLine]:
    """The newest first. Raises as `list_turns`."""
    async with reading(url) as tx:
        query = _delivery_query().order_by(deliveries.c.created_at.desc(), deliveries.c.id)
        rows = await tx.execute((query.where(_OPEN_DELIVERY) if only_open else query).limit(limit))
        return [DeliveryLine(**row) for row in rows.mappings()]


async def find_message(url: str, message_id: str) -> Findings:
    """What became of a message for every account in the database; a spawn's id finds the spawn.

    Raises as `list_turns`.
    """
    async with reading(url) as tx:
        entries = await inbox.of_event(tx, message_id)
        seen = [Sighting(each, await _story(tx, each.turn_id)) for each in entries]
        query = _delivery_query().where(deliveries.c.platform_id == message_id).limit(1)
        row = (await tx.execute(query)).mappings().one_or_none()
        own = DeliveryLine(**row) if row else None
        own_story = await _story(tx, own.turn_id if own else None)
        stories = [*(each.story for each in seen), own_story]
        about = [story.turn.id for story in stories if story]
        found = await stories_of_message(tx, message_id, own.id if own else None, about)
        return Findings(tuple(seen), own, own_story, found)


def _elsewhere(line: SessionLine, bound: Sequence[SessionBinding]) -> tuple[str, ...]:
    places = (
        one.conversation.conversation_id
        for one in bound
        if one.target_session_key == line.session_key
    )
    return tuple(place for place in places if place != line.conversation_id)


def explained(error: Exception) -> str | None:
    """A database driver's refusal in one line without values; None: it is a bug of ours."""
    if isinstance(error, sa.exc.DatabaseError | sa.exc.InterfaceError):
        return _first_line(error.orig or error)
    drivers = sqlite3.Error | asyncpg.PostgresError | asyncpg.InterfaceError | CommandError
    return _first_line(error) if isinstance(error, drivers) else None


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"the database refused: {lines[0] if lines else type(error).__name__}"


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Transaction]:
    """A transaction that only reads. Raises DatabaseUnavailable, or SchemaRefused with what to type."""
    state = await check(url)
    if state.age is SchemaAge.EMPTY:
        raise SchemaRefused("the database is empty: no openab has run with it yet")
    await prepare(url, auto_upgrade=False)
    database = await Database.open(url)
    try:
        async with database.read() as tx:
            yield tx
    finally:
        await database.close()


async def _story(tx: Transaction, turn_id: str | None) -> TurnStory | None:
    if turn_id is None:
        return None
    row = (await tx.execute(_turn_query().where(turns.c.id == turn_id))).mappings().one_or_none()
    if row is None:
        return None
    logged = await tx.execute(
        sa.select(turn_log.c.event, turn_log.c.detail, turn_log.c.at)
        .where(turn_log.c.turn_id == turn_id)
        .order_by(turn_log.c.n)
    )
    thread = sa.select(turns.c.thread_delivery).where(turns.c.id == turn_id).scalar_subquery()
    its = sa.or_(deliveries.c.turn_id == turn_id, deliveries.c.id == thread)
    owed = await tx.execute(
        _delivery_query().where(its).order_by(deliveries.c.created_at, deliveries.c.ordinal)
    )
    return TurnStory(
        turn=TurnLine(**row),
        log=tuple(LogLine(**each) for each in logged.mappings()),
        deliveries=tuple(DeliveryLine(**each) for each in owed.mappings()),
        is_owned=await _is_owned(tx, turn_id),
        turns_before=await _turns_before(tx, turn_id),
    )


async def _is_owned(tx: Transaction, turn_id: str) -> bool:
    living = (
        sa.select(sa.literal(1))
        .select_from(turns)
        .join(conversations, conversations.c.id == turns.c.conversation)
        .where(
            turns.c.id == turn_id,
            conversations.c.lease_owner.is_not(None),
            conversations.c.lease_until > await tx.now(),
        )
    )
    return (await tx.execute(living)).one_or_none() is not None


async def _turns_before(tx: Transaction, turn_id: str) -> int:
    this, other = turns.alias("this"), turns
    comes_first = sa.or_(
        other.c.order_key < this.c.order_key,
        sa.and_(other.c.order_key == this.c.order_key, other.c.seq < this.c.seq),
    )
    # Answered turns only wait for their deliveries; they hold nobody up.
    works = other.c.state.in_(["queued", "running"])
    query = (
        sa.select(sa.func.count())
        .select_from(this)
        .join(other, other.c.conversation == this.c.conversation)
        .where(this.c.id == turn_id, works, comes_first)
    )
    return int((await tx.execute(query)).scalar_one())


def _turn_query() -> sa.Select[Any]:
    return sa.select(
        *_columns(turns, TurnLine, but=("conversation_id",)), conversations.c.conversation_id
    ).join(conversations, conversations.c.id == turns.c.conversation)


def _delivery_query() -> sa.Select[Any]:
    return sa.select(
        *_columns(deliveries, DeliveryLine, but=("conversation_id",)),
        conversations.c.conversation_id,
    ).join(conversations, conversations.c.id == deliveries.c.conversation)


def _columns(table: sa.Table, line: type, *, but: tuple[str, ...]) -> list[sa.Column[Any]]:
    names = line.__dataclass_fields__  # type: ignore[attr-defined] # every line is a dataclass
    return [table.c[name] for name in names if name not in but]
