"""Conversations: the rows that carry the exclusion. Who may act here, until when, and what is known."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.errors import LeaseLost
from openab.domain.gates import BotTurns
from openab.domain.ids import (
    AccountId,
    ChannelName,
    ConversationId,
    ConversationRef,
    PlatformId,
    WorkerId,
    snowflake,
)
from openab.domain.message import Place
from openab.storage.dialect import CLOCK, locking
from openab.storage.engine import Transaction
from openab.storage.ids import new_id
from openab.storage.schema import conversations, deliveries, turn_reactions, turns
from openab.storage.types import UtcDateTime


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as it was read."""

    id: ConversationId
    ref: ConversationRef
    place: Place
    epoch: int
    lease_owner: WorkerId | None
    lease_until: datetime | None
    is_involved: bool
    has_other_bot: bool
    last_message_id: PlatformId | None
    is_closed: bool
    bots: BotTurns


@dataclass(frozen=True, slots=True)
class Ownership:
    """The right to act for a conversation: good while no other claim has raised the epoch."""

    conversation: ConversationId
    epoch: int


def _conversation(row: Any) -> Conversation:
    return Conversation(
        id=ConversationId(row.id),
        ref=ConversationRef(
            ChannelName(row.channel),
            AccountId(row.account),
            PlatformId(row.conversation_id),
            PlatformId(row.parent_conversation_id) if row.parent_conversation_id else None,
        ),
        place=Place(row.place),
        epoch=row.epoch,
        lease_owner=WorkerId(row.lease_owner) if row.lease_owner else None,
        lease_until=row.lease_until,
        is_involved=row.is_involved,
        has_other_bot=row.has_other_bot,
        last_message_id=PlatformId(row.last_message_id) if row.last_message_id else None,
        is_closed=row.closed_at is not None,
        bots=BotTurns(
            turns=row.bot_turns,
            messages=row.bot_messages,
            last_author=PlatformId(row.last_bot_author) if row.last_bot_author else None,
            last_human=PlatformId(row.last_human_id) if row.last_human_id else None,
            other_bots=tuple(map(PlatformId, row.other_bots or ())),
        ),
    )


# Statements that run for every message are built once: that costs more than running them.
_GET = sa.select(conversations).where(conversations.c.id == sa.bindparam("id"))
_LOCK = locking(_GET.where(conversations.c.epoch == sa.bindparam("epoch")))
_FIND = sa.select(conversations).where(
    conversations.c.channel == sa.bindparam("channel"),
    conversations.c.account == sa.bindparam("account"),
    conversations.c.conversation_id == sa.bindparam("place"),
)
_NEXT_SEQ = (
    sa.update(conversations)
    .where(conversations.c.id == sa.bindparam("of"))
    .values(next_seq=conversations.c.next_seq + 1)
    .returning((conversations.c.next_seq - 1).label("seq"), CLOCK)
)
_TAKE_PART = _NEXT_SEQ.values(is_involved=True)


async def get(tx: Transaction, conversation: ConversationId) -> Conversation:
    """The row. A conversation is never deleted while anything points at it."""
    result = await tx.execute(_GET, {"id": conversation})
    return _conversation(result.one())


async def find(tx: Transaction, ref: ConversationRef) -> Conversation | None:
    """The row of this place, if it is known."""
    place = {"channel": ref.channel, "account": ref.account, "place": ref.conversation_id}
    result = await tx.execute(_FIND, place)
    row = result.one_or_none()
    return _conversation(row) if row else None


async def ensure(tx: Transaction, ref: ConversationRef, place: Place) -> Conversation:
    """The row of this place, made if need be. A parent that was not known is filled in."""
    found = await find(tx, ref)
    if found and found.is_closed:
        # Retention deletes what is closed and empty; from here on it waits, or has done so.
        await hold(tx, found.id)
        found = await find(tx, ref)
    if found is None:
        # Somebody else may make it at the same moment: then theirs is read.
        statement = postgresql.insert(conversations).values(
            id=new_id(),
            channel=ref.channel,
            account=ref.account,
            conversation_id=ref.conversation_id,
            parent_conversation_id=ref.parent_conversation_id,
            place=place.value,
            created_at=await tx.now(),
        )
        await tx.execute(statement.on_conflict_do_nothing())
    elif found.ref.parent_conversation_id is None and ref.parent_conversation_id:
        await _set(tx, found.id, parent_conversation_id=ref.parent_conversation_id)
    else:
        return found
    made = await find(tx, ref)
    assert made is not None
    return made


def account_of(conversation: "ConversationId | sa.BindParameter[Any]") -> sa.ScalarSelect[Any]:
    """Its account, inside another statement: the indexes of what is open begin with it.

    Without it SQLite reads all that was ever said in a place to find the little that is open.
    """
    row = sa.select(conversations.c.account).where(conversations.c.id == conversation)
    return row.scalar_subquery()


async def take_seq(tx: Transaction, conversation: ConversationId) -> int:
    """The conversation's next sequence number, for a turn's place and a delivery's alike."""
    return await _next_seq(tx, _NEXT_SEQ, conversation)


async def take_part(tx: Transaction, conversation: ConversationId) -> int:
    """The same, for a turn: the bot takes part here from now on."""
    return await _next_seq(tx, _TAKE_PART, conversation)


async def _next_seq(tx: Transaction, statement: sa.Executable, conversation: ConversationId) -> int:
    row = (await tx.execute(statement, {"of": conversation})).one()
    tx.heard(row.clock)
    tx.gives_work(conversation)
    return int(row.seq)


async def note_message(
    tx: Transaction, conversation: Conversation, message_id: PlatformId, *, other_bot: bool
) -> None:
    """Remember that a message was seen here, and whether another bot wrote it."""
    known = conversation.last_message_id
    is_newest = known is None or snowflake(message_id) > snowflake(known)
    values: dict[str, object] = {"last_message_id": message_id} if is_newest else {}
    if other_bot and not conversation.has_other_bot:
        values["has_other_bot"] = True
    if values:
        await _set(tx, conversation.id, **values)


async def mark_involved(tx: Transaction, conversation: ConversationId) -> None:
    """The bot owns this thread or has posted in it."""
    await _set(tx, conversation, is_involved=True)


async def close(tx: Transaction, conversation: ConversationId) -> None:
    """The network said that the conversation is gone."""
    await _set(tx, conversation, closed_at=await tx.now())


async def reopen(tx: Transaction, conversation: Conversation) -> Conversation:
    """Somebody speaks there, so it is not gone."""
    await _set(tx, conversation.id, closed_at=None)
    return replace(conversation, is_closed=False)


_SET = sa.update(conversations).where(conversations.c.id == sa.bindparam("of"))


async def _set(tx: Transaction, conversation: ConversationId, **values: object) -> None:
    await tx.execute(_SET, {"of": conversation, **values})


def _has_work(*, with_turns: bool = True) -> sa.ColumnElement[bool]:
    """Something can be done there now: a turn, an owed row, or a reaction.

    Begins with the open rows, of which there are few, rather than with every conversation.
    Its parameters are `now` and `accounts`.
    """
    now = sa.bindparam("now", type_=UtcDateTime)
    accounts: sa.BindParameter[Any] = sa.bindparam("accounts", expanding=True)

    def due(column: sa.ColumnElement[datetime | None]) -> sa.ColumnElement[bool]:
        return sa.or_(column.is_(None), column <= now)

    # The partial indexes serve only a condition written word for word as theirs.
    open_turns = sa.select(turns.c.conversation).where(
        sa.text("turns.state IN ('queued', 'running', 'answered')"),
        turns.c.account.in_(accounts),
        turns.c.state != sa.literal("answered"),
        due(turns.c.not_before),
    )
    open_deliveries = sa.select(deliveries.c.conversation).where(
        sa.text("deliveries.state IN ('pending', 'sending', 'unknown')"),
        deliveries.c.account.in_(accounts),
        due(deliveries.c.not_before),
    )
    reactions = (
        sa.select(turns.c.conversation)
        .join(turn_reactions, turn_reactions.c.turn_id == turns.c.id)
        .where(turn_reactions.c.account.in_(accounts), turn_reactions.c.due_at <= now)
    )
    kinds = [open_deliveries, reactions, *([open_turns] if with_turns else [])]
    return conversations.c.id.in_(sa.union_all(*kinds))


#: Nobody owns it, or its owner's lease ended long enough ago for its last call to have ended too.
_IS_UNOWNED = sa.or_(
    conversations.c.lease_until.is_(None),
    conversations.c.lease_until < sa.bindparam("called", type_=UtcDateTime),
)
_IS_CLAIMABLE = sa.and_(
    conversations.c.account.in_(sa.bindparam("accounts", expanding=True)),
    conversations.c.id.not_in(sa.bindparam("held", expanding=True)),
    _IS_UNOWNED,
    _has_work(),
)
_ANY_CLAIMABLE = sa.select(sa.literal(1)).where(_IS_CLAIMABLE).limit(1)
# Materialised, since a planner may run a limited subquery more than once and take too many.
_FREE = (
    sa.select(conversations.c.id)
    .where(_IS_CLAIMABLE)
    .limit(sa.bindparam("most", type_=sa.Integer))
    .with_for_update(skip_locked=True)
    .cte("free")
)
_CLAIM = (
    sa.update(conversations)
    .where(conversations.c.id.in_(sa.select(_FREE.c.id)), _IS_UNOWNED)
    .values(
        lease_owner=sa.bindparam("owner"),
        lease_proof=sa.bindparam("proof"),
        lease_until=sa.bindparam("until"),
        epoch=conversations.c.epoch + 1,
    )
    .returning(conversations)
)
_BLOCKING = (
    sa.select(conversations.c.lease_owner, conversations.c.lease_proof)
    .where(
        conversations.c.account.in_(sa.bindparam("accounts", expanding=True)),
        conversations.c.lease_owner != sa.bindparam("worker"),
        conversations.c.lease_proof.is_not(None),
        sa.not_(_IS_UNOWNED),
        _has_work(),
    )
    .distinct()
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_IS_IDLE = {
    with_turns: sa.select(sa.literal(1)).where(
        conversations.c.id == sa.bindparam("id"), _has_work(with_turns=with_turns)
    )
    for with_turns in (True, False)
}


async def is_any_claimable(
    tx: Transaction,
    accounts: Collection[AccountId],
    call: timedelta,
    held: Collection[ConversationId] = (),
) -> bool:
    """Whether a claim would find something: asked in a read, so that idle polling writes nothing."""
    looked = _look(await tx.now(), accounts, call, held)
    result = await tx.execute(_ANY_CLAIMABLE, looked)
    return result.one_or_none() is not None


def _look(
    now: datetime,
    accounts: Collection[AccountId],
    call: timedelta,
    held: Collection[ConversationId],
) -> dict[str, object]:
    return {"now": now, "called": now - call, "accounts": list(accounts), "held": list(held)}


async def claim(
    tx: Transaction,
    accounts: Collection[AccountId],
    worker: WorkerId,
    proof: str,
    *,
    lease: timedelta,
    call: timedelta,
    limit: int,
    held: Collection[ConversationId] = (),
) -> list[tuple[Conversation, Ownership]]:
    """Take conversations that have work and no living owner, and raise their epochs; at most `limit`.

    `held` are left alone: the claimant's own, whose lease may have ended unnoticed (see `retake`).
    """
    now = await tx.now()
    lease_of = {"owner": worker, "proof": proof, "until": now + lease, "most": limit}
    result = await tx.execute(_CLAIM, _look(now, accounts, call, held) | lease_of)
    claimed = [_conversation(row) for row in result]
    return [(where, Ownership(where.id, where.epoch)) for where in claimed]


async def lock(tx: Transaction, ownership: Ownership, *, is_beside: bool = False) -> Conversation:
    """Begin an owner's transaction: lock the row, or raise LeaseLost if the epoch is no longer ours.

    `is_beside`: this is done beside the owner's round, which learns by a hint what it is given to do.
    """
    mine = {"id": ownership.conversation, "epoch": ownership.epoch}
    row = (await tx.execute(_LOCK, mine)).one_or_none()
    if row is None:
        raise LeaseLost(f"conversation {ownership.conversation} has another owner")
    tx.heard(row.clock)
    if not is_beside:
        tx.acts_for(ownership.conversation)
    return _conversation(row)


async def hold(tx: Transaction, conversation: ConversationId) -> None:
    """Lock the row, whoever owns it. Every writer locks it before its turns, so that none deadlock."""
    await tx.execute(
        sa.select(conversations.c.id).where(conversations.c.id == conversation).with_for_update()
    )


async def hold_several(tx: Transaction, wanted: Collection[ConversationId]) -> None:
    """Lock these rows in the order in which everybody locks several."""
    for conversation in sorted(set(wanted)):
        await hold(tx, conversation)


async def hold_all(
    tx: Transaction, channel: ChannelName, account: AccountId, places: Collection[PlatformId]
) -> None:
    """Lock the rows of these places that are known, in the order in which everybody locks several."""
    row = conversations.c
    await tx.execute(
        sa.select(row.id)
        .where(
            row.channel == channel, row.account == account, row.conversation_id.in_(list(places))
        )
        .order_by(row.id)
        .with_for_update()
    )


async def locked_of(tx: Transaction, ownerships: Collection[Ownership]) -> set[ConversationId]:
    """Lock those of these conversations that are still ours; the others are left out."""
    if not ownerships:
        return set()
    wanted = {ownership.conversation: ownership.epoch for ownership in ownerships}
    result = await tx.execute(
        sa.select(conversations.c.id, conversations.c.epoch)
        .where(conversations.c.id.in_(list(wanted)))
        .order_by(conversations.c.id)
        .with_for_update()
    )
    return {ConversationId(row.id) for row in result if wanted[row.id] == row.epoch}


async def retake(
    tx: Transaction, ownership: Ownership, worker: WorkerId, proof: str, lease: timedelta
) -> None:
    """Hold on to a conversation whose lease may have ended; LeaseLost if another claimed it since."""
    await lock(tx, ownership)
    until = await tx.now() + lease
    await _set(tx, ownership.conversation, lease_owner=worker, lease_proof=proof, lease_until=until)


async def release(tx: Transaction, ownership: Ownership) -> None:
    """Give the conversation back. Work that came in meanwhile is found by the next claim."""
    await lock(tx, ownership)
    await _set(tx, ownership.conversation, lease_owner=None, lease_proof=None, lease_until=None)


async def is_idle(tx: Transaction, conversation: Conversation, *, but_turns: bool = False) -> bool:
    """Whether nothing can be done here now; `but_turns`: nothing but turns."""
    here = {
        "id": conversation.id,
        "now": await tx.now(),
        "accounts": [conversation.ref.account],
    }
    result = await tx.execute(_IS_IDLE[not but_turns], here)
    return result.one_or_none() is None


async def blocking_owners(
    tx: Transaction, account: AccountId, worker: WorkerId, call: timedelta, limit: int
) -> list[tuple[WorkerId, str]]:
    """Other owners, with their proofs, whose leases hold up something that could be done now."""
    looked = _look(await tx.now(), [account], call, ())
    result = await tx.execute(_BLOCKING, looked | {"worker": worker, "most": limit})
    return [(WorkerId(found.lease_owner), found.lease_proof) for found in result]


async def free_dead(tx: Transaction, account: AccountId, owner: WorkerId, proof: str) -> int:
    """End the leases of an owner that is proved dead by this proof; how many."""
    row = conversations.c
    result = await tx.execute(
        sa.update(conversations)
        .where(row.account == account, row.lease_owner == owner, row.lease_proof == proof)
        .values(lease_owner=None, lease_proof=None, lease_until=None)
    )
    return int(result.rowcount)
