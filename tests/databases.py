"""Databases with today's schema, as copies of one that was migrated once a run."""

import asyncio
import fcntl
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from openab.storage.upgrade import upgrade
from tests import postgres


async def migrate_sqlite(run_folder: Path, target: Path) -> None:
    """Make `target` an SQLite database with today's schema."""
    template = run_folder / "template.sqlite3"
    async with _locked(run_folder):
        if not template.exists():
            made = run_folder / "making.sqlite3"
            await upgrade(f"sqlite+aiosqlite:///{made}")
            made.rename(template)
    # With its mode: openab makes its databases private.
    shutil.copy(template, target)


async def migrated_postgres(run_folder: Path, server: str) -> str:
    """Make a PostgreSQL database with today's schema; returns its address."""
    noted = run_folder / "template.postgres"
    async with _locked(run_folder):
        if not noted.exists():
            made = await postgres.create_database(server)
            await upgrade(postgres.for_sqlalchemy(made))
            # A database that somebody is connected to cannot be copied.
            await postgres.connections_left(made, server)
            noted.write_text(made)
    return await postgres.create_database(server, template=noted.read_text())


async def forget_template(run_folder: Path, server: str) -> None:
    """Drop the run's template from a server that outlives the run."""
    noted = run_folder / "template.postgres"
    if noted.exists():
        await postgres.drop_database(noted.read_text(), server)


@asynccontextmanager
async def _locked(run_folder: Path) -> AsyncIterator[None]:
    with (run_folder / "templates.lock").open("a") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield
