"""Bindings for people, judged at the moment of looking, and the spawns that are not over. Reads only."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from openab.domain.binding import BindingStatus
from openab.domain.ids import SessionKey
from openab.storage import bindings, spawns
from openab.storage.bindings import Found
from openab.storage.engine import Transaction
from openab.storage.inspection import reading
from openab.storage.schema import conversations, sessions
from openab.storage.spawns import Spawn

#: The state of a binding whose time is over though nothing has noted it yet.
EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class BindingLine:
    """Which session a conversation talks to, or talked to."""

    id: str
    account: str
    channel: str
    conversation_id: str
    session_key: str
    agent: str
    kind: str
    #: active | expired | ending | ended
    state: str
    #: Empty: openab itself.
    bound_by: str
    bound_at: datetime
    last_activity_at: datetime
    idle_seconds: int | None
    max_age_seconds: int | None
    #: When it ends if nothing happens any more, and by what; None: never, or it is over.
    ends_at: datetime | None
    ends_by: str | None
    end_reason: str | None
    ended_at: datetime | None
    #: What this line is, beside those of spawns.
    row: str = "binding"


@dataclass(frozen=True, slots=True)
class SpawnLine:
    """A task that was given to a sub-agent and is not over, without the task itself."""

    id: str
    account: str
    agent: str
    #: owed | opened | held
    state: str
    parent_session_key: str | None
    #: Where it was asked for.
    conversation_id: str
    session_key: str | None
    turn_id: str | None
    requester_id: str
    requester_name: str
    depth: int
    age_seconds: int
    created_at: datetime
    row: str = "spawn"


@dataclass(frozen=True, slots=True)
class Listing:
    """What is bound, and which sub-agents are at work."""

    bindings: tuple[BindingLine, ...]
    spawns: tuple[SpawnLine, ...]


async def list_bindings(url: str, *, only_open: bool, limit: int) -> Listing:
    """The newest first. Raises as `inspection.list_turns`."""
    async with reading(url) as tx:
        now = await tx.now()
        found = await bindings.listed(tx, limit, only_open=only_open)
        agents = await _agents(tx, {one.binding.target_session_key for one in found})
        lines = [_line(one, agents, now) for one in found]
        open_spawns = await spawns.open_ones(tx, limit)
        places = await _places(tx, {one.requester_conversation for one in open_spawns})
        return Listing(
            # An expired one is over, whoever was to note it.
            tuple(line for line in lines if not (only_open and line.state == EXPIRED)),
            tuple(_spawn_line(one, places[one.requester_conversation], now) for one in open_spawns),
        )


async def _agents(tx: Transaction, keys: Collection[SessionKey]) -> dict[str, str]:
    query = sa.select(sessions.c.session_key, sessions.c.agent)
    rows = await tx.execute(query.where(sessions.c.session_key.in_(keys)))
    return {row.session_key: row.agent for row in rows}


async def _places(tx: Transaction, ids: Collection[str]) -> dict[str, str]:
    query = sa.select(conversations.c.id, conversations.c.conversation_id)
    rows = await tx.execute(query.where(conversations.c.id.in_(ids)))
    return {row.id: row.conversation_id for row in rows}


def _line(found: Found, agents: dict[str, str], now: datetime) -> BindingLine:
    one = found.binding
    is_active = one.status is BindingStatus.ACTIVE
    over = one.expired_by(now) if is_active else None
    ends_at, ends_by = (is_active and not over and one.ends_at()) or (None, None)
    reason = over or one.end_reason
    return BindingLine(
        id=one.binding_id,
        account=one.conversation.account,
        channel=one.conversation.channel,
        conversation_id=one.conversation.conversation_id,
        session_key=one.target_session_key,
        agent=agents.get(one.target_session_key, ""),
        kind=one.target_kind.value,
        state=EXPIRED if over else one.status.value,
        bound_by=one.bound_by,
        bound_at=one.bound_at,
        last_activity_at=one.last_activity_at,
        idle_seconds=_seconds(one.limits.idle),
        max_age_seconds=_seconds(one.limits.max_age),
        ends_at=ends_at,
        ends_by=ends_by.value if ends_by else None,
        end_reason=reason.value if reason else None,
        ended_at=found.ended_at,
    )


def _spawn_line(spawn: Spawn, conversation_id: str, now: datetime) -> SpawnLine:
    return SpawnLine(
        id=spawn.id,
        account=spawn.account,
        agent=spawn.agent,
        state=spawn.state.value,
        parent_session_key=spawn.parent_session,
        conversation_id=conversation_id,
        session_key=spawn.session,
        turn_id=spawn.turn,
        requester_id=spawn.requester_id,
        requester_name=spawn.requester_name,
        depth=spawn.depth,
        age_seconds=int((now - spawn.created_at).total_seconds()),
        created_at=spawn.created_at,
    )


def _seconds(span: timedelta | None) -> int | None:
    return None if span is None else int(span.total_seconds())
