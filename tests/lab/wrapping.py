"""Wraps the choke points of openab in this process, so that each point is told to the tripwire.

The product carries nothing for it: every transaction goes through `Database.transaction`, every call
to Discord through the channel port or `DiscordRest.call`, every call to an agent through its host.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from typing import Any

from openab.agents.host.embedded import EmbeddedAgents
from openab.app import values, wiring
from openab.channels.discord.outbound import DiscordChannel
from openab.channels.discord.rest import DiscordRest
from openab.control.settings import Settings
from openab.storage.engine import CommitUnknown, Database, DatabaseUnavailable
from openab.storage.transaction import Transaction
from tests.lab.points import agent_methods, channel_methods, purpose, use_case
from tests.lab.tripwire import Tripwire

_inside: ContextVar[bool] = ContextVar("lab_inside", default=False)
#: Longer than a call may take.
_SETTLE_AFTER = timedelta(seconds=3)
_AWAY = "the laboratory has cut the database off"


def hasten() -> None:
    """What nobody can configure, and what takes a minute, takes a moment here."""
    original = values.settings

    def settings(*told: Any) -> Settings:
        made = original(*told)
        binding = replace(made.binding, sweep_every=timedelta(seconds=1))
        return replace(made, binding=binding, settle_after=_SETTLE_AFTER)

    setattr(wiring, "settings", settings)  # noqa: B010 - replaced on purpose


def wrap(wire: Tripwire) -> None:
    """From now on every effect of this process has a point before it and one after it."""
    _wrap_commits(wire)
    _wrap_database(wire)
    for name in channel_methods():
        _wrap_port(wire, DiscordChannel, "discord", name)
    for name in agent_methods():
        _wrap_port(wire, EmbeddedAgents, "agent", name)
    _wrap_rest(wire)


def _wrap_commits(wire: Tripwire) -> None:
    original = Database.transaction

    def transaction(self: Database) -> Any:
        return _told(original(self), f"commit:{use_case(sys._getframe(1))}", wire)

    setattr(Database, "transaction", transaction)  # noqa: B010 - a method is replaced on purpose


@asynccontextmanager
async def _told(opened: Any, name: str, wire: Tripwire) -> AsyncIterator[Transaction]:
    async with opened as tx:
        yield tx
        wire.reach(f"{name}:before")
    wire.reach(f"{name}:after")


def _wrap_database(wire: Tripwire) -> None:
    """While it is away, statements fail; a commit that is under way is done, and nobody hears of it."""
    step, commit = Transaction._step, Transaction.commit

    async def away(self: Transaction, work: Callable[[], Awaitable[Any]]) -> Any:
        if wire.is_database_away:
            raise DatabaseUnavailable(_AWAY)
        return await step(self, work)

    async def unheard(self: Transaction) -> None:
        await commit(self)
        if wire.is_database_away:
            self.is_committed = False
            raise CommitUnknown(_AWAY)

    setattr(Transaction, "_step", away)  # noqa: B010 - as above
    setattr(Transaction, "commit", unheard)  # noqa: B010 - as above


def _wrap_port(wire: Tripwire, kind: type[Any], port: str, name: str) -> None:
    original = getattr(kind, name)

    def call(self: Any, *args: Any, **named: Any) -> Any:
        point = f"{port}:{name}:{purpose(sys._getframe(1))}"
        return _around(wire, point, original, self, *args, **named)

    setattr(kind, name, call)


def _wrap_rest(wire: Tripwire) -> None:
    """What is asked of Discord beside the port: interaction answers, commands, joining, looking up."""
    original = DiscordRest.call

    def call(self: DiscordRest, *args: Any, **named: Any) -> Any:
        if _inside.get():
            return original(self, *args, **named)
        point = f"rest:{use_case(sys._getframe(1))}"
        return _around(wire, point, original, self, *args, **named)

    setattr(DiscordRest, "call", call)  # noqa: B010 - as above


async def _around(
    wire: Tripwire, point: str, original: Callable[..., Awaitable[Any]], *args: Any, **named: Any
) -> Any:
    wire.reach(f"{point}:before")
    token = _inside.set(True)
    try:
        return await original(*args, **named)
    finally:
        _inside.reset(token)
        wire.reach(f"{point}:after")
