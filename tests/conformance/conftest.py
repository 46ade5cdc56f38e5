"""One dialect alone, migrated, for what only that one can show."""

from collections.abc import AsyncIterator

import pytest

from openab.storage.engine import Database


@pytest.fixture
async def sqlite_database(migrated_sqlite_address: str) -> AsyncIterator[Database]:
    opened = await Database.open(migrated_sqlite_address)
    yield opened
    await opened.close()


@pytest.fixture
async def postgres_database(migrated_postgres_address: str) -> AsyncIterator[Database]:
    opened = await Database.open(migrated_postgres_address)
    yield opened
    await opened.close()
