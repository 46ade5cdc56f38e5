"""Rate windows: when a source's accepted hand-offs were sent, by the network's clock."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from openab.domain.handoff.limits import LONGEST_LIFE, RATE_WINDOW
from openab.domain.ids import AccountId, PlatformId
from openab.storage.engine import Transaction
from openab.storage.schema import rate_windows

#: After so long nothing comes any more that was sent in the same minute.
_KEPT: timedelta = LONGEST_LIFE + RATE_WINDOW


_RECEIVER = rate_windows.c.receiver == sa.bindparam("account")


def _looking_around() -> sa.Executable:
    return sa.select(rate_windows.c.at).where(
        _RECEIVER,
        rate_windows.c.source == sa.bindparam("from"),
        rate_windows.c.at > sa.bindparam("after"),
        rate_windows.c.at < sa.bindparam("before"),
    )


def _purging() -> sa.Executable:
    key = sa.tuple_(rate_windows.c.source, rate_windows.c.message_id)
    oldest = (
        sa.select(rate_windows.c.source, rate_windows.c.message_id)
        .where(_RECEIVER, rate_windows.c.keep_until <= sa.bindparam("now"))
        .order_by(rate_windows.c.keep_until)
        .limit(sa.bindparam("most"))
    )
    return sa.delete(rate_windows).where(_RECEIVER, key.in_(oldest))


# Made once: to build them anew takes longer than to run them, and that behind the gate.
_AROUND, _REMEMBER, _PURGE = _looking_around(), sa.insert(rate_windows), _purging()


async def around(
    tx: Transaction, receiver: AccountId, source: PlatformId, moment: datetime
) -> list[datetime]:
    """The moments of what was accepted from this source within a minute of `moment`, either side."""
    told = {
        "account": receiver,
        "from": source,
        "after": moment - RATE_WINDOW,
        "before": moment + RATE_WINDOW,
    }
    return list((await tx.execute(_AROUND, told)).scalars())


async def remember(
    tx: Transaction,
    receiver: AccountId,
    source: PlatformId,
    message: PlatformId,
    sent_at: datetime,
    now: datetime,
) -> None:
    """One was accepted. It counts for messages of its minute, in whatever order they come."""
    told = {
        "receiver": receiver,
        "source": source,
        "message_id": message,
        "at": sent_at,
        "keep_until": max(now + _KEPT, sent_at + RATE_WINDOW),
    }
    await tx.execute(_REMEMBER, told)


async def purge(tx: Transaction, receiver: AccountId, now: datetime, most: int) -> None:
    """Delete up to `most` rows that count for nothing any more, the oldest first."""
    await tx.execute(_PURGE, {"account": receiver, "now": now, "most": most})
