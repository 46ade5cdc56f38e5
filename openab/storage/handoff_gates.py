"""Gates: one row for each receiver, by which its hand-offs are decided one after the other.

The row is updated, not only locked: at stricter isolation levels a reader behind a mere lock would go
on with the snapshot that it took before.
"""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.ids import AccountId
from openab.storage.dialect import CLOCK
from openab.storage.engine import Transaction
from openab.storage.schema import handoff_gates


def _counting(column: sa.Column[int]) -> sa.Executable:
    return (
        sa.update(handoff_gates)
        .where(handoff_gates.c.receiver == sa.bindparam("account"))
        .values({column: column + 1})
        .returning(column, CLOCK)
    )


# Made once: to build them anew takes longer than to run them, and that while others wait.
_PASSAGE = _counting(handoff_gates.c.passages)
_REFUSAL = _counting(handoff_gates.c.refusals)
#: Whoever makes it at the same moment is waited for.
_MADE = postgresql.insert(handoff_gates).on_conflict_do_nothing()


async def enter(tx: Transaction, account: AccountId) -> int:
    """Wait for whoever is inside; the gate is ours until the transaction ends. Returns the passage's number."""
    return await _counted(tx, account, _PASSAGE)


async def count_refusal(tx: Transaction, account: AccountId) -> int:
    """Enter as well, and return the number of this refusal, counted from 1."""
    return await _counted(tx, account, _REFUSAL)


async def _counted(tx: Transaction, account: AccountId, counting: sa.Executable) -> int:
    found = (await tx.execute(counting, {"account": account})).one_or_none()
    if found is None:
        await tx.execute(_MADE, {"receiver": account})
        found = (await tx.execute(counting, {"account": account})).one()
    tx.heard(found.clock)
    return int(found[0])
