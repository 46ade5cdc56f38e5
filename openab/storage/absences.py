"""Absences: from where history is read, how much of it was taken in, and what people are not told yet."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from openab.domain.delivery import Purpose
from openab.domain.gates import CAUGHT_UP, MOST_CAUGHT_UP, SKIPPED
from openab.domain.ids import AccountId, ChannelName, ConversationId, PlatformId, snowflake
from openab.domain.message import Place
from openab.storage.engine import Transaction
from openab.storage.schema import accounts, conversations, deliveries, inbox


@dataclass(frozen=True, slots=True)
class Mark:
    """How far an account has heard. Nothing before `first` is ever answered."""

    heard: PlatformId | None
    first: PlatformId | None


async def mark_of(tx: Transaction, channel: ChannelName, account: AccountId) -> Mark:
    """The account's mark; its row is there."""
    result = await tx.execute(
        sa.select(accounts.c.intake_mark, accounts.c.first_mark).where(
            accounts.c.channel == channel, accounts.c.account == account
        )
    )
    row = result.one()
    return Mark(_id(row.intake_mark), _id(row.first_mark))


async def caught_up(
    tx: Transaction, channel: ChannelName, account: AccountId, conversation: PlatformId
) -> int:
    """How many messages of a conversation were taken in from the present absence: those behind the mark."""
    mark = (await mark_of(tx, channel, account)).heard or PlatformId("0")
    some = (
        sa.select(sa.literal(1))
        .where(*_behind(mark, account, [conversation]), inbox.c.reason == CAUGHT_UP)
        .limit(MOST_CAUGHT_UP)
        .subquery()
    )
    result = await tx.execute(sa.select(sa.func.count()).select_from(some))
    return int(result.scalar_one())


async def newest_caught_up(
    tx: Transaction, channel: ChannelName, account: AccountId, places: Collection[PlatformId]
) -> PlatformId | None:
    """The newest message of these places behind the mark that was taken in from history; None: there is none."""
    if not places:
        return None
    mark = (await mark_of(tx, channel, account)).heard or PlatformId("0")
    result = await tx.execute(
        sa.select(inbox.c.event_key)
        .where(*_behind(mark, account, places))
        .order_by(sa.func.length(inbox.c.event_key).desc(), inbox.c.event_key.desc())
        .limit(1)
    )
    return _id(result.scalar_one_or_none())


async def skipped_since(
    tx: Transaction, account: AccountId, conversation: PlatformId, after: PlatformId
) -> list[PlatformId]:
    """The messages behind `after` that are not answered any more, in their order."""
    result = await tx.execute(
        sa.select(inbox.c.event_key).where(
            *_behind(after, account, [conversation]), inbox.c.reason.in_(SKIPPED)
        )
    )
    return sorted((PlatformId(row.event_key) for row in result), key=snowflake)


async def told_up_to(tx: Transaction, conversation: ConversationId) -> PlatformId:
    """The last message that a notice of `notice_key` has named; `0` where there is none."""
    prefix = notice_key(conversation, PlatformId(""))
    result = await tx.execute(
        sa.select(deliveries.c.key).where(
            deliveries.c.conversation == conversation,
            deliveries.c.purpose == Purpose.NOTICE.value,
            deliveries.c.key.startswith(prefix, autoescape=True),
        )
    )
    return _greatest(PlatformId(row.key.removeprefix(prefix)) for row in result)


def notice_key(conversation: ConversationId, last: PlatformId) -> str:
    """What makes the notice single that names all skipped messages up to `last`."""
    return f"skipped:{conversation}:{last}"


async def direct_conversations(
    tx: Transaction, channel: ChannelName, account: AccountId
) -> list[PlatformId]:
    """The direct conversations that the account knows."""
    result = await tx.execute(
        sa.select(conversations.c.conversation_id).where(
            conversations.c.channel == channel,
            conversations.c.account == account,
            conversations.c.place == Place.DM.value,
            conversations.c.closed_at.is_(None),
        )
    )
    return [PlatformId(row.conversation_id) for row in result]


def _behind(
    mark: PlatformId, account: AccountId, places: Collection[PlatformId]
) -> tuple[sa.ColumnElement[bool] | Any, ...]:
    """Messages from history of these conversations with a greater id; ids are decimal numbers of any length."""
    length = sa.func.length(inbox.c.event_key)
    is_greater = (length == len(mark)) & (inbox.c.event_key > mark)
    return (
        # The partial index serves only a condition written word for word as its own.
        sa.text("inbox.reason IN ('caught_up', 'too_old', 'too_many')"),
        inbox.c.account == account,
        inbox.c.kind == "message",
        inbox.c.conversation_id.in_(list(places)),
        sa.or_(length > len(mark), is_greater),
    )


def _greatest(ids: Iterable[PlatformId]) -> PlatformId:
    return max(ids, key=snowflake, default=PlatformId("0"))


def _id(value: str | None) -> PlatformId | None:
    return PlatformId(value) if value else None
