"""The only writer of `state` columns: one arrow of a lifecycle as one guarded UPDATE."""

from enum import StrEnum
from typing import TypeVar

import sqlalchemy as sa

from openab.domain.errors import OpenabError
from openab.domain.machine import Machine
from openab.storage.engine import Transaction

State = TypeVar("State", bound=StrEnum)


class StateChanged(OpenabError):
    """The row is not in the state it was read in: somebody else moved it; read it again."""


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
    result = await tx.execute(
        sa.update(table)
        .where(table.c.id == row_id, table.c.state == before)
        .values(state=after.value, **values)
    )
    if result.rowcount != 1:
        raise StateChanged(f"{table.name} {row_id} is no longer {before}")
    return after
