"""The inbox: every event that was seen, once, and what became of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.gates import Disposition
from openab.domain.ids import AccountId, PlatformId, TurnId
from openab.storage.engine import Transaction
from openab.storage.schema import inbox


@dataclass(frozen=True, slots=True)
class Entry:
    """One seen event."""

    account: AccountId
    #: message | interaction | reaction
    kind: str
    event_key: str
    conversation_id: PlatformId
    author_id: PlatformId
    disposition: Disposition
    reason: str
    turn_id: TurnId | None = None
    seen_at: datetime | None = None


# PostgreSQL's INSERT class writes the very statement that SQLite takes too.
_ADD = postgresql.insert(inbox).on_conflict_do_nothing()


async def add(tx: Transaction, entry: Entry) -> bool:
    """Claim an event: True for exactly one caller, whoever else sees it, at whatever time."""
    values: dict[str, Any] = {
        "account": entry.account,
        "kind": entry.kind,
        "event_key": entry.event_key,
        "conversation_id": entry.conversation_id,
        "author_id": entry.author_id,
        "disposition": entry.disposition.value,
        "reason": entry.reason,
        "turn_id": entry.turn_id,
        "seen_at": await tx.now(),
    }
    result = await tx.execute(_ADD, values)
    return bool(result.rowcount == 1)


async def name_turn(
    tx: Transaction, account: AccountId, kind: str, event_key: str, turn: TurnId
) -> None:
    """The event that was just added joined this turn instead of becoming one of its own."""
    await tx.execute(
        sa.update(inbox)
        .where(inbox.c.account == account, inbox.c.kind == kind, inbox.c.event_key == event_key)
        .values(turn_id=turn)
    )


async def judge_anew(tx: Transaction, entry: Entry) -> None:
    """The event that was just added came to nothing after all: this is what becomes of it."""
    await tx.execute(
        sa.update(inbox)
        .where(
            inbox.c.account == entry.account,
            inbox.c.kind == entry.kind,
            inbox.c.event_key == entry.event_key,
        )
        .values(disposition=entry.disposition.value, reason=entry.reason, turn_id=entry.turn_id)
    )


async def get(tx: Transaction, account: AccountId, kind: str, event_key: str) -> Entry | None:
    """What became of an event; None: it was never seen."""
    result = await tx.execute(
        sa.select(inbox).where(
            inbox.c.account == account, inbox.c.kind == kind, inbox.c.event_key == event_key
        )
    )
    row = result.one_or_none()
    return _entry(row) if row else None


async def of_event(tx: Transaction, event_key: str) -> list[Entry]:
    """What became of an event, and of reactions on it, for every account here, for `openab why`."""
    reactions = sa.and_(
        inbox.c.kind == "reaction", inbox.c.event_key.startswith(f"{event_key}:", autoescape=True)
    )
    result = await tx.execute(
        sa.select(inbox)
        .where(sa.or_(inbox.c.event_key == event_key, reactions))
        .order_by(inbox.c.seen_at, inbox.c.event_key)
    )
    return [_entry(row) for row in result]


def _entry(row: Any) -> Entry:
    return Entry(
        account=AccountId(row.account),
        kind=row.kind,
        event_key=row.event_key,
        conversation_id=PlatformId(row.conversation_id),
        author_id=PlatformId(row.author_id),
        disposition=Disposition(row.disposition),
        reason=row.reason,
        turn_id=TurnId(row.turn_id) if row.turn_id else None,
        seen_at=row.seen_at,
    )
