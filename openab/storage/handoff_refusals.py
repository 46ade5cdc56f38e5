"""Refused hand-offs: the newest thousand of each account, in rows that are used again and again."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.handoff import Refusal
from openab.domain.ids import AccountId, MessageRef, PlatformId
from openab.storage import handoff_gates
from openab.storage.engine import Transaction
from openab.storage.schema import deliveries, handoff_refusals

#: So many rows an account; the oldest makes room.
MOST = 1000


@dataclass(frozen=True, slots=True)
class Refused:
    """A hand-off that was refused, and why."""

    account: AccountId
    reason: Refusal
    source: PlatformId
    message: MessageRef
    #: None: it had none that could be read.
    event_id: str | None
    at: datetime


async def note(
    tx: Transaction,
    account: AccountId,
    reason: Refusal,
    source: PlatformId,
    message: MessageRef,
    event_id: str | None,
) -> None:
    """Remember a refusal; beyond `MOST` of them in the place of the oldest."""
    slot = await handoff_gates.count_refusal(tx, account) % MOST
    values: dict[str, Any] = {
        "reason": reason.value,
        "event_id": event_id,
        "source_id": source,
        "conversation_id": message.conversation_id,
        "message_id": message.message_id,
        "at": await tx.now(),
    }
    made = postgresql.insert(handoff_refusals).values(account=account, slot=slot, **values)
    await tx.execute(made.on_conflict_do_update(index_elements=["account", "slot"], set_=values))


async def was_told(tx: Transaction, key: str) -> bool:
    """Whether the delivery with this key, which tells a refusal, was ever written and is still known."""
    result = await tx.execute(sa.select(deliveries.c.id).where(deliveries.c.key == key))
    return result.one_or_none() is not None


async def listed(tx: Transaction, limit: int = 200) -> list[Refused]:
    """The newest, of every account that shares the database."""
    result = await tx.execute(
        sa.select(handoff_refusals).order_by(handoff_refusals.c.at.desc()).limit(limit)
    )
    return [_refused(row) for row in result]


def _refused(row: Any) -> Refused:
    return Refused(
        account=AccountId(row.account),
        reason=Refusal(row.reason),
        source=PlatformId(row.source_id),
        message=MessageRef(PlatformId(row.conversation_id), PlatformId(row.message_id)),
        event_id=row.event_id,
        at=row.at,
    )
