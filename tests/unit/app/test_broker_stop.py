"""An orderly stop: what the gateway gave before it was closed is committed before the process ends."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

from openab.app.broker import Broker
from openab.app.wiring import Parts
from openab.channels.discord.rest import Identity
from openab.control.intake import Intake
from openab.domain.ids import AccountId, PlatformId
from openab.ports.signals import Signals
from openab.storage import accounts, inbox
from openab.storage.engine import Database
from tests.builders import ACCOUNT, CHANNEL, a_message, some_settings


class _Bare(Broker):
    """A broker of which nothing but the intake is there."""

    def __init__(self) -> None:
        """Without a configuration."""

    def _background(
        self, parts: Parts, identity: Identity
    ) -> dict[str, Coroutine[None, None, None]]:
        return {"intake": parts.intake.run()}


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def test_the_last_message_is_committed(migrated_sqlite_address: str) -> None:
    database = await Database.open(migrated_sqlite_address)
    stopping = asyncio.Event()
    try:
        async with database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
        intake = Intake(database, some_settings(), lambda _: None, lambda _: None, Signals())

        async def client(leaving: asyncio.Event) -> None:
            await leaving.wait()
            intake.put(a_message())

        parts = SimpleNamespace(
            intake=intake,
            renewal=SimpleNamespace(start=lambda: None, stop=lambda _seconds: None),
            dispatcher=SimpleNamespace(run=_until, running_turns=0),
            client=SimpleNamespace(run=client),
            backfill=SimpleNamespace(run=lambda: _until(asyncio.Event())),
        )
        stopping.set()
        me = Identity(ACCOUNT, "bot", PlatformId("1"), message_content=True)
        async with asyncio.timeout(30):
            await _Bare()._work(cast("Any", parts), me, stopping)
        async with database.read() as tx:
            found = await inbox.get(tx, AccountId(ACCOUNT), "message", "1000")
    finally:
        await database.close()
    assert found is not None
    assert found.turn_id
