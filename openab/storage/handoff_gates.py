"""Gates: one row for each receiver, by which its hand-offs are decided one after the other.

The row is updated, not only locked: at stricter isolation levels a reader behind a mere lock would go
on with the snapshot that it took before.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.ids import AccountId
from openab.storage.engine import Transaction
from openab.storage.schema import handoff_gates


async def enter(tx: Transaction, account: AccountId) -> int:
    """Wait for whoever is inside; the gate is ours until the transaction ends. Returns the passage's number."""
    return await _counted(tx, account, handoff_gates.c.passages)


async def count_refusal(tx: Transaction, account: AccountId) -> int:
    """Enter as well, and return the number of this refusal, counted from 1."""
    return await _counted(tx, account, handoff_gates.c.refusals)


async def _counted(tx: Transaction, account: AccountId, column: sa.Column[int]) -> int:
    # An UPDATE, so that `tx.now()` is read anew behind the wait.
    statement = (
        sa.update(handoff_gates)
        .where(handoff_gates.c.receiver == account)
        .values({column: column + 1})
        .returning(column)
    )
    found = (await tx.execute(statement)).scalar()
    if found is None:
        await tx.execute(_made(account))
        found = (await tx.execute(statement)).scalar_one()
    return int(found)


def _made(account: AccountId) -> sa.Insert:
    made: Any = postgresql.insert(handoff_gates).values(receiver=account)
    # Whoever makes it at the same moment is waited for.
    statement: sa.Insert = made.on_conflict_do_nothing()
    return statement
