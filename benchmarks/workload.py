"""How much a benchmark does, on which database, and where a profile goes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.stage import Stage, open_stage

Size = TypeVar("Size", int, float)
DATABASES = ("sqlite", "postgres")


@dataclass(frozen=True, slots=True)
class Workload:
    """What the command line asked for."""

    #: The smallest amount that still runs every line; its numbers mean nothing.
    is_smoke: bool = False
    databases: tuple[str, ...] = DATABASES
    #: Set for the second run of a missed target: where the broker's profile is to be written.
    profile: Path | None = None

    def size(self, full: Size, smoke: Size) -> Size:
        """The amount to do."""
        return smoke if self.is_smoke else full

    @asynccontextmanager
    async def stage(self, database: str = "sqlite") -> AsyncIterator[Stage]:
        """A stage with a started broker on a new database of this kind."""
        async with new_database(database) as address, open_stage(address) as stage:
            await stage.start(self.profile)
            yield stage
            if self.profile:
                await stage.stop()


@asynccontextmanager
async def new_database(database: str) -> AsyncIterator[str]:
    """The address of a new database of this kind; "" is SQLite, whose file is made where it is used."""
    if database == "sqlite":
        yield ""
        return
    from tests.postgres_server import TemporaryServer  # noqa: PLC0415 - only this needs the wheel

    # A server of its own, which syncs to disk as a real one does.
    server = await asyncio.to_thread(TemporaryServer(durable=True).__enter__)
    try:
        yield server.address
    finally:
        await asyncio.to_thread(server.stop)
