"""One promise of the broker broken on purpose: the laboratory must notice."""

import asyncio
import itertools
import secrets
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from openab.channels.discord import bodies
from openab.control import children, outbox
from openab.ports.tasks import spawn
from openab.storage import conversations, inbox
from openab.storage.engine import Database
from openab.storage.schema import conversations as rows


def break_promise(name: str) -> None:
    """Break the promise of this name in this process; an empty one keeps them all."""
    if name:
        _BREAKS[name]()


def _nonce() -> None:
    """A repeated create carries another nonce."""
    setattr(bodies, "_checked", lambda _nonce: secrets.token_hex(12))  # noqa: B010


def _epoch() -> None:
    """An owner that has lost its lease writes on, as if nobody else had come."""

    async def lock(tx: Any, ownership: Any, **_named: Any) -> Any:
        where = sa.select(rows).where(rows.c.id == ownership.conversation).with_for_update()
        return conversations._conversation((await tx.execute(where)).one())

    async def locked_of(_tx: Any, ownerships: Any) -> set[Any]:
        return {ownership.conversation for ownership in ownerships}

    setattr(conversations, "lock", lock)  # noqa: B010
    setattr(conversations, "locked_of", locked_of)  # noqa: B010


def _inbox() -> None:
    """An event that comes again is taken for another one."""
    numbers, add = itertools.count(), inbox.add

    async def unknown(*_: Any) -> bool:
        return False

    async def anew(tx: Any, entry: Any) -> bool:
        return await add(tx, replace(entry, event_key=f"{entry.event_key}+{next(numbers)}"))

    setattr(inbox, "is_known", unknown)  # noqa: B010
    setattr(inbox, "add", anew)  # noqa: B010


def _opening() -> None:
    """What hangs on a starter is made a moment after the commit that confirms it."""
    databases: list[Database] = []
    begin, open_child = outbox.Outbox.__init__, children.starter_settled

    def begun(self: Any, database: Database, *args: Any, **named: Any) -> None:
        databases.append(database)
        begin(self, database, *args, **named)

    async def opened(*told: Any) -> None:
        await asyncio.sleep(0.3)
        async with databases[-1].transaction() as tx:
            await open_child(tx, *told)

    async def settled(tx: Any, *told: Any) -> None:
        tx.after_commit(lambda: spawn("opening", opened(*told)))

    setattr(outbox.Outbox, "__init__", begun)  # noqa: B010
    setattr(outbox, "starter_settled", settled)  # noqa: B010


_BREAKS = {"nonce": _nonce, "epoch": _epoch, "inbox": _inbox, "opening": _opening}
BROKEN = tuple(_BREAKS)
