"""Rate windows: when a source's accepted hand-offs were sent, by the network's clock."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from openab.domain.handoff.limits import LONGEST_LIFE, RATE_WINDOW
from openab.domain.ids import AccountId, PlatformId
from openab.storage.engine import Transaction
from openab.storage.schema import rate_windows

#: After so long nothing comes any more that was sent in the same minute.
_KEPT: timedelta = LONGEST_LIFE + RATE_WINDOW


async def around(
    tx: Transaction, receiver: AccountId, source: PlatformId, moment: datetime
) -> list[datetime]:
    """The moments of what was accepted from this source within a minute of `moment`, either side."""
    result = await tx.execute(
        sa.select(rate_windows.c.at).where(
            rate_windows.c.receiver == receiver,
            rate_windows.c.source == source,
            rate_windows.c.at > moment - RATE_WINDOW,
            rate_windows.c.at < moment + RATE_WINDOW,
        )
    )
    return list(result.scalars())


async def remember(
    tx: Transaction,
    receiver: AccountId,
    source: PlatformId,
    message: PlatformId,
    sent_at: datetime,
    now: datetime,
) -> None:
    """One was accepted. It counts for messages of its minute, in whatever order they come."""
    await tx.execute(
        sa.insert(rate_windows).values(
            receiver=receiver,
            source=source,
            message_id=message,
            at=sent_at,
            keep_until=max(now + _KEPT, sent_at + RATE_WINDOW),
        )
    )


async def purge(tx: Transaction, receiver: AccountId, now: datetime, limit: int) -> int:
    """Delete up to `limit` rows that count for nothing any more."""
    key = sa.tuple_(rate_windows.c.source, rate_windows.c.message_id)
    oldest = (
        sa.select(rate_windows.c.source, rate_windows.c.message_id)
        .where(rate_windows.c.receiver == receiver, rate_windows.c.keep_until <= now)
        .order_by(rate_windows.c.keep_until)
        .limit(limit)
    )
    result = await tx.execute(
        sa.delete(rate_windows).where(rate_windows.c.receiver == receiver, key.in_(oldest))
    )
    return int(result.rowcount)
