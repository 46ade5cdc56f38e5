"""Numbers that all processes of an account share, and how many turns and bindings are open."""

from datetime import timedelta

import sqlalchemy as sa

from openab.domain.ids import AccountId, ChannelName
from openab.domain.turn import LIFECYCLE
from openab.storage.engine import Transaction
from openab.storage.schema import accounts, bindings, turns
from openab.storage.types import UtcDateTime

#: Discord counts invalid requests over this long.
INVALID_WINDOW = timedelta(minutes=10)


async def count_identifies(
    tx: Transaction, channel: ChannelName, account: AccountId, more: int
) -> int:
    """So many IDENTIFYs more; returns how many that makes today (UTC)."""
    today = (await tx.now()).date().isoformat()
    so_far = sa.case((accounts.c.identify_day == today, accounts.c.identify_count), else_=0)
    result = await tx.execute(
        sa.update(accounts)
        .where(accounts.c.channel == channel, accounts.c.account == account)
        .values(identify_day=today, identify_count=so_far + more)
        .returning(accounts.c.identify_count)
    )
    return int(result.scalar_one())


async def count_invalid(
    tx: Transaction, channel: ChannelName, account: AccountId, more: int
) -> int:
    """So many invalid requests more; returns how many that makes in the present ten minutes."""
    now = await tx.now()
    is_current = accounts.c.invalid_window_at > now - INVALID_WINDOW
    result = await tx.execute(
        sa.update(accounts)
        .where(accounts.c.channel == channel, accounts.c.account == account)
        .values(
            invalid_window_at=sa.case(
                (is_current, accounts.c.invalid_window_at), else_=sa.literal(now, UtcDateTime)
            ),
            invalid_count=sa.case((is_current, accounts.c.invalid_count), else_=0) + more,
        )
        .returning(accounts.c.invalid_count)
    )
    return int(result.scalar_one())


async def open_turns(tx: Transaction, account: AccountId) -> dict[str, int]:
    """How many turns of the account are in each open state."""
    result = await tx.execute(
        sa.select(turns.c.state, sa.func.count().label("number"))
        .where(
            turns.c.account == account,
            turns.c.state.in_([state.value for state in LIFECYCLE.open]),
        )
        .group_by(turns.c.state)
    )
    return {row.state: row.number for row in result}


async def open_bindings(tx: Transaction, account: AccountId) -> dict[str, int]:
    """How many bindings of the account are in each open state."""
    result = await tx.execute(
        sa.select(bindings.c.state, sa.func.count().label("number"))
        .where(
            bindings.c.account == account,
            # The partial index serves only a condition written word for word as its own.
            sa.text("bindings.state IN ('active', 'ending')"),
        )
        .group_by(bindings.c.state)
    )
    return {row.state: row.number for row in result}
