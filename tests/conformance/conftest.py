"""One dialect alone, migrated, for what only that one can show; and no statement is compiled each time."""

from collections.abc import AsyncIterator, Iterator

import pytest

from openab.storage.engine import Database
from tests.compiling import compiled_anew
from tests.conformance.binding_stage import ON_WHICH, Network


@pytest.fixture(autouse=True)
def _compiles_no_statement_anew() -> Iterator[None]:
    with compiled_anew() as found:
        yield
    assert not found, f"these have no cache key: {found}"


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


@pytest.fixture(params=ON_WHICH)
def net(request: pytest.FixtureRequest) -> Network:
    """Each chat network that conversations can be bound on, and each dialect with one of them."""
    name, _, dialect = request.param.partition("-")
    return Network(request.getfixturevalue(f"{dialect}_database"), name)
