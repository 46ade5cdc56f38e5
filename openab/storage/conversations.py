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
from openab.storage.engine import Transaction
from openab.storage.ids import new_id
from openab.storage.schema import conversations, deliveries, turn_reactions, turns


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


async def get(tx: Transaction, conversation: ConversationId) -> Conversation:
    """The row. A conversation is never deleted while anything points at it."""
    result = await tx.execute(sa.select(conversations).where(conversations.c.id == conversation))
    return _conversation(result.one())


async def find(tx: Transaction, ref: ConversationRef) -> Conversation | None:
    """The row of this place, if it is known."""
    result = await tx.execute(
        sa.select(conversations).where(
            conversations.c.channel == ref.channel,
            conversations.c.account == ref.account,
            conversations.c.conversation_id == ref.conversation_id,
        )
    )
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


def account_of(conversation: ConversationId) -> sa.ScalarSelect[Any]:
    """Its account, inside another statement: the indexes of what is open begin with it.

    Without it SQLite reads all that was ever said in a place to find the little that is open.
    """
    row = sa.select(conversations.c.account).where(conversations.c.id == conversation)
    return row.scalar_subquery()


async def take_seq(tx: Transaction, conversation: ConversationId) -> int:
    """The conversation's next sequence number, for a turn's place and a delivery's alike."""
    return await _next_seq(tx, conversation)


async def take_part(tx: Transaction, conversation: ConversationId) -> int:
    """The same, for a turn: the bot takes part here from now on."""
    return await _next_seq(tx, conversation, is_involved=True)


async def _next_seq(tx: Transaction, conversation: ConversationId, **values: object) -> int:
    result = await tx.execute(
        sa.update(conversations)
        .where(conversations.c.id == conversation)
        .values(next_seq=conversations.c.next_seq + 1, **values)
        .returning(conversations.c.next_seq - 1)
    )
    return int(result.scalar_one())


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


async def _set(tx: Transaction, conversation: ConversationId, **values: object) -> None:
    await tx.execute(
        sa.update(conversations).where(conversations.c.id == conversation).values(**values)
    )


def _has_work(
    now: datetime, *accounts: AccountId, with_turns: bool = True
) -> sa.ColumnElement[bool]:
    """Something can be done there now: a turn, an owed row, or a reaction.

    Begins with the open rows, of which there are few, rather than with every conversation.
    """

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


def _is_unowned(now: datetime, call: timedelta) -> sa.ColumnElement[bool]:
    """Nobody owns it, or its owner's lease ended long enough ago for its last call to have ended too."""
    return sa.or_(conversations.c.lease_until.is_(None), conversations.c.lease_until < now - call)


async def is_any_claimable(
    tx: Transaction,
    accounts: Collection[AccountId],
    call: timedelta,
    held: Collection[ConversationId] = (),
) -> bool:
    """Whether a claim would find something: asked in a read, so that idle polling writes nothing."""
    now = await tx.now()
    result = await tx.execute(
        sa.select(sa.literal(1)).where(_is_claimable(accounts, now, call, held)).limit(1)
    )
    return result.one_or_none() is not None


def _is_claimable(
    accounts: Collection[AccountId],
    now: datetime,
    call: timedelta,
    held: Collection[ConversationId],
) -> sa.ColumnElement[bool]:
    others = [conversations.c.id.not_in(list(held))] if held else []
    return sa.and_(
        conversations.c.account.in_(list(accounts)),
        *others,
        _is_unowned(now, call),
        _has_work(now, *accounts),
    )


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
    # Materialised, since a planner may run a limited subquery more than once and take too many.
    free = (
        sa.select(conversations.c.id)
        .where(_is_claimable(accounts, now, call, held))
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("free")
    )
    result = await tx.execute(
        sa.update(conversations)
        .where(conversations.c.id.in_(sa.select(free.c.id)), _is_unowned(now, call))
        .values(
            lease_owner=worker,
            lease_proof=proof,
            lease_until=now + lease,
            epoch=conversations.c.epoch + 1,
        )
        .returning(conversations)
    )
    claimed = [_conversation(row) for row in result]
    return [(where, Ownership(where.id, where.epoch)) for where in claimed]


async def lock(tx: Transaction, ownership: Ownership) -> Conversation:
    """Begin an owner's transaction: lock the row, or raise LeaseLost if the epoch is no longer ours."""
    result = await tx.execute(
        sa.select(conversations)
        .where(
            conversations.c.id == ownership.conversation, conversations.c.epoch == ownership.epoch
        )
        .with_for_update()
    )
    row = result.one_or_none()
    if row is None:
        raise LeaseLost(f"conversation {ownership.conversation} has another owner")
    return _conversation(row)


async def hold(tx: Transaction, conversation: ConversationId) -> None:
    """Lock the row, whoever owns it. Every writer locks it before its turns, so that none deadlock."""
    await tx.execute(
        sa.select(conversations.c.id).where(conversations.c.id == conversation).with_for_update()
    )


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
    work = _has_work(await tx.now(), conversation.ref.account, with_turns=not but_turns)
    result = await tx.execute(
        sa.select(sa.literal(1)).where(conversations.c.id == conversation.id, work)
    )
    return result.one_or_none() is None


async def blocking_owners(
    tx: Transaction, account: AccountId, worker: WorkerId, call: timedelta, limit: int
) -> list[tuple[WorkerId, str]]:
    """Other owners, with their proofs, whose leases hold up something that could be done now."""
    now = await tx.now()
    row = conversations.c
    result = await tx.execute(
        sa.select(row.lease_owner, row.lease_proof)
        .where(
            row.account == account,
            row.lease_owner != worker,
            row.lease_proof.is_not(None),
            sa.not_(_is_unowned(now, call)),
            _has_work(now, account),
        )
        .distinct()
        .limit(limit)
    )
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
