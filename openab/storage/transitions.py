"""The only writer of `state` columns: one arrow of a lifecycle as one guarded UPDATE."""

from enum import StrEnum
from functools import cache
from typing import TypeVar

import sqlalchemy as sa

from openab.domain.errors import OpenabError
from openab.domain.machine import Machine
from openab.storage.dialect import CLOCK
from openab.storage.engine import Transaction

State = TypeVar("State", bound=StrEnum)


class StateChanged(OpenabError):
    """The row is not in the state it was read in: somebody else moved it; read it again."""


@cache
def _arrow(table: sa.Table) -> sa.Executable:
    """Built once for each table; what else is set is what the parameters name."""
    row = table.c
    return (
        sa.update(table)
        .where(row.id == sa.bindparam("moved_row"), row.state == sa.bindparam("moved_from"))
        .values(state=sa.bindparam("moved_to"))
        .returning(CLOCK)
    )


async def transition(
    tx: Transaction,
    table: sa.Table,
    row_id: str,
    machine: Machine[State],
    before: State,
    event: object,
    **values: object,
) -> State:
    """Move the row along one arrow and return its new state.

    Raises IllegalTransition if the machine has no such arrow and StateChanged if the row is not in
    `before`; in both cases nothing was written.
    """
    after = machine.next(before, event)
    moved = {"moved_row": row_id, "moved_from": before, "moved_to": after.value, **values}
    told = (await tx.execute(_arrow(table), moved)).one_or_none()
    if told is None:
        raise StateChanged(f"{table.name} {row_id} is no longer {before}")
    tx.heard(told.clock)
    return after
