"""Spawns: the tasks that were given to sub-agents, and what became of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from openab.domain.ids import (
    AccountId,
    ConversationId,
    DeliveryId,
    PlatformId,
    SessionKey,
    SpawnId,
    TurnId,
)
from openab.domain.spawn import LIFECYCLE, SpawnEvent, SpawnRefusal, SpawnState
from openab.storage.engine import Transaction
from openab.storage.ids import new_id
from openab.storage.schema import spawns
from openab.storage.transitions import transition

#: The partial indexes serve only a condition written word for word as their own.
_IS_HELD = sa.text("spawns.state = 'held'")
_AT_WORK = sa.text("spawns.state IN ('owed', 'opened')")


@dataclass(frozen=True, slots=True)
class NewSpawn:
    """A spawn to be written."""

    account: AccountId
    agent: str
    task: str
    depth: int
    in_a_row: int
    requester_conversation: ConversationId
    parent_session: SessionKey | None
    parent_turn: TurnId | None
    requester_id: PlatformId
    requester_name: str
    requester_is_bot: bool


@dataclass(frozen=True, slots=True)
class Spawn:
    """A spawn as it was read."""

    id: SpawnId
    account: AccountId
    state: SpawnState
    reason: SpawnRefusal | None
    agent: str
    task: str
    depth: int
    in_a_row: int
    requester_conversation: ConversationId
    parent_session: SessionKey | None
    parent_turn: TurnId | None
    requester_id: PlatformId
    requester_name: str
    requester_is_bot: bool
    starter: DeliveryId
    session: SessionKey | None
    turn: TurnId | None
    answer: str | None
    created_at: datetime
    settled_at: datetime | None


def planned_id() -> SpawnId:
    """The id of a spawn that is about to be written: its starter's key names it."""
    return SpawnId(new_id())


async def add(tx: Transaction, spawn: SpawnId, new: NewSpawn, starter: DeliveryId) -> None:
    """Write it, owed."""
    await tx.execute(
        sa.insert(spawns).values(
            id=spawn,
            account=new.account,
            state=LIFECYCLE.initial.value,
            agent=new.agent,
            task=new.task,
            depth=new.depth,
            in_a_row=new.in_a_row,
            requester_conversation=new.requester_conversation,
            parent_session_key=new.parent_session,
            parent_turn=new.parent_turn,
            requester_id=new.requester_id,
            requester_name=new.requester_name,
            requester_is_bot=new.requester_is_bot,
            starter_delivery=starter,
            created_at=await tx.now(),
        )
    )


async def get(tx: Transaction, spawn: SpawnId | str) -> Spawn | None:
    """The spawn of this id."""
    return await _one(tx, spawns.c.id == spawn)


async def of_starter(tx: Transaction, starter: DeliveryId) -> Spawn | None:
    """The spawn whose thread hangs on this delivery's message."""
    return await _one(tx, spawns.c.starter_delivery == starter)


async def of_turn(tx: Transaction, turn: TurnId) -> Spawn | None:
    """The spawn whose task this turn is."""
    return await _one(tx, spawns.c.turn_id == turn)


async def of_session(tx: Transaction, session: SessionKey) -> Spawn | None:
    """The spawn that this session was made for; None for every ordinary one."""
    return await _one(tx, spawns.c.session_key == session)


async def held_of(tx: Transaction, account: AccountId) -> list[Spawn]:
    """The spawns of an account whose completions wait for a conversation, oldest first."""
    return await _several(tx, _IS_HELD, spawns.c.account == account)


async def at_work_for(tx: Transaction, parent: SessionKey) -> list[Spawn]:
    """The sub-agents that work for this session now, oldest first."""
    return await _several(tx, spawns.c.parent_session_key == parent, _AT_WORK)


async def at_work_in(tx: Transaction, requester: ConversationId) -> int:
    """How many sub-agents work for what was asked for in this conversation without a session."""
    result = await tx.execute(
        sa.select(sa.func.count()).where(
            _AT_WORK,
            spawns.c.requester_conversation == requester,
            spawns.c.parent_session_key.is_(None),
        )
    )
    return int(result.scalar_one())


async def open_ones(tx: Transaction, limit: int) -> list[Spawn]:
    """For people: those that are not over, of every account, the newest first."""
    is_open = spawns.c.state.in_([state.value for state in LIFECYCLE.open])
    newest = sa.select(spawns).where(is_open).order_by(spawns.c.created_at.desc(), spawns.c.id)
    return [_spawn(row) for row in await tx.execute(newest.limit(limit))]


async def record(tx: Transaction, spawn: Spawn, event: SpawnEvent, **values: object) -> SpawnState:
    """Move it along one arrow of its lifecycle; raises StateChanged if somebody else has."""
    return await transition(tx, spawns, spawn.id, LIFECYCLE, spawn.state, event, **values)


async def _one(tx: Transaction, *conditions: Any) -> Spawn | None:
    row = (await tx.execute(sa.select(spawns).where(*conditions).limit(1))).one_or_none()
    return _spawn(row) if row else None


async def _several(tx: Transaction, *conditions: Any) -> list[Spawn]:
    query = sa.select(spawns).where(*conditions).order_by(spawns.c.created_at, spawns.c.id)
    return [_spawn(row) for row in await tx.execute(query)]


def _spawn(row: Any) -> Spawn:
    return Spawn(
        id=SpawnId(row.id),
        account=AccountId(row.account),
        state=SpawnState(row.state),
        reason=SpawnRefusal(row.reason) if row.reason else None,
        agent=row.agent,
        task=row.task,
        depth=row.depth,
        in_a_row=row.in_a_row,
        requester_conversation=ConversationId(row.requester_conversation),
        parent_session=SessionKey(row.parent_session_key) if row.parent_session_key else None,
        parent_turn=TurnId(row.parent_turn) if row.parent_turn else None,
        requester_id=PlatformId(row.requester_id),
        requester_name=row.requester_name,
        requester_is_bot=row.requester_is_bot,
        starter=DeliveryId(row.starter_delivery),
        session=SessionKey(row.session_key) if row.session_key else None,
        turn=TurnId(row.turn_id) if row.turn_id else None,
        answer=row.answer,
        created_at=row.created_at,
        settled_at=row.settled_at,
    )
