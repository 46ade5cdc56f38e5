"""The story of a spawn for people: who gave the task, what became of it, and where its answer went. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from openab.domain.delivery import Purpose
from openab.domain.ids import SessionKey, home_of
from openab.storage.engine import Transaction
from openab.storage.schema import bindings, conversations, deliveries, spawns, turns


@dataclass(frozen=True, slots=True)
class SpawnStory:
    """A spawn without its task and answer."""

    id: str
    account: str
    agent: str
    #: owed | opened | held | finished | refused
    state: str
    reason: str | None
    requester_id: str
    requester_name: str
    #: Where it was asked for.
    conversation_id: str
    parent_session_key: str | None
    #: The turn whose output asked; None: a person did.
    parent_turn: str | None
    #: What became of the starter message; None: that has been forgotten.
    starter_state: str | None
    #: The sub-agent's thread; None: there is none.
    thread_id: str | None
    session_key: str | None
    turn_id: str | None
    turn_state: str | None
    turn_outcome: str | None
    #: The conversations that the answer was sent to, or is owed to.
    answered_in: tuple[str, ...]
    created_at: datetime
    settled_at: datetime | None


async def stories_of_message(
    tx: Transaction, identity: str, delivery: str | None, turns_of_it: Sequence[str]
) -> tuple[SpawnStory, ...]:
    """The spawns that a message has to do with, oldest first.

    One whose starter, task, notices, intro or answer it is (`delivery`); whose request it is, or whose
    result it tells (`turns_of_it`); or whose own id `identity` is.
    """
    told = [spawns.c.id == identity]
    if turns_of_it:
        completed = sa.select(turns.c.idempotency_key).where(turns.c.id.in_(turns_of_it))
        told += [
            spawns.c.turn_id.in_(turns_of_it),
            spawns.c.parent_turn.in_(turns_of_it),
            (sa.literal("completion:") + spawns.c.turn_id).in_(completed),
        ]
    if delivery is not None:
        key = sa.select(deliveries.c.key).where(deliveries.c.id == delivery).scalar_subquery()
        told += [
            spawns.c.starter_delivery == delivery,
            key.like(sa.literal("spawn:") + spawns.c.id + sa.literal(":%")),
            spawns.c.session_key.in_(_bound_by(key)),
        ]
    rows = await tx.execute(_query().where(sa.or_(*told)).order_by(spawns.c.created_at))
    return tuple([await _story(tx, row) for row in rows.mappings().all()])


def _bound_by(key: Any) -> Any:
    """The sub-agents' sessions whose binding a notice of this key tells of."""
    tells = key.like(sa.literal("binding:") + bindings.c.id + sa.literal(":%"))
    return sa.select(bindings.c.session_key).where(tells)


def _query() -> sa.Select[Any]:
    starter = deliveries.alias("starter")
    names = [name for name in SpawnStory.__dataclass_fields__ if name in spawns.c]
    return (
        sa.select(
            *(spawns.c[name] for name in names),
            conversations.c.conversation_id,
            starter.c.state.label("starter_state"),
            turns.c.state.label("turn_state"),
            turns.c.outcome.label("turn_outcome"),
        )
        .join(conversations, conversations.c.id == spawns.c.requester_conversation)
        .outerjoin(starter, starter.c.id == spawns.c.starter_delivery)
        .outerjoin(turns, turns.c.id == spawns.c.turn_id)
    )


async def _story(tx: Transaction, row: Any) -> SpawnStory:
    key = row["session_key"]
    return SpawnStory(
        **row,
        thread_id=home_of(SessionKey(key)) if key else None,
        answered_in=await _answered_in(tx, row["id"], row["turn_id"]),
    )


async def _answered_in(tx: Transaction, spawn: str, turn: str | None) -> tuple[str, ...]:
    is_final = sa.and_(deliveries.c.turn_id == turn, deliveries.c.purpose == Purpose.FINAL.value)
    was_held = deliveries.c.key.like(f"spawn:{spawn}:held:%")
    places = (
        sa.select(conversations.c.conversation_id)
        .join(deliveries, deliveries.c.conversation == conversations.c.id)
        .where(sa.or_(is_final, was_held))
        .distinct()
    )
    return tuple(sorted((await tx.execute(places)).scalars()))
