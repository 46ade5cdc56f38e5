"""What every test gets: the loopback guard, the leak check, Hypothesis profiles, empty databases."""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from openab.storage.engine import Database
from tests import databases, leaks, loopback, postgres, spreading
from tests.postgres_server import URL_VARIABLE

_RUN_FOLDER = "OPENAB_TEST_RUN_FOLDER"
_RUN_OWNER = "OPENAB_TEST_RUN_OWNER"

# Two busy cores make any deadline a coin toss; pytest's own time-out bounds a test.
settings.register_profile("quick", deadline=None, max_examples=60, print_blob=True)
settings.register_profile(
    "ci", parent=settings.get_profile("quick"), suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", parent=settings.get_profile("ci"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "quick"))


def pytest_configure(config: pytest.Config) -> None:
    loopback.install()
    if not hasattr(config, "workerinput"):
        # Workers inherit both: the server of a run belongs to the process that began it.
        os.environ[_RUN_FOLDER] = tempfile.mkdtemp(prefix="openab-tests-")
        os.environ[_RUN_OWNER] = str(os.getpid())


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = Path(os.environ.pop(_RUN_FOLDER))
        if given := os.environ.get(URL_VARIABLE):
            asyncio.run(databases.forget_template(folder, given))
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    return spreading.scheduler(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    spreading.slow_first(items)


def pytest_report_header() -> str:
    return postgres.describe()


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    loopback.refused.clear()
    if request.node.get_closest_marker("asyncio"):
        request.getfixturevalue("_leaves_no_task")
    children, threads = leaks.children(), set(threading.enumerate())
    yield
    left = leaks.children_left(children) + leaks.threads_left(threads)
    assert not left, f"the test left something running: {left}"
    assert not loopback.refused, f"the test tried to leave this machine: {loopback.refused}"


@pytest.fixture
async def _leaves_no_task() -> AsyncIterator[None]:
    yield
    left = await leaks.tasks_left()
    assert not left, f"the test left tasks running: {left}"


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The address of a PostgreSQL's maintenance database, for whoever makes databases."""
    return postgres.server_address(_run_folder(), int(os.environ[_RUN_OWNER]))


@pytest.fixture
async def postgres_address(postgres_server: str) -> AsyncIterator[str]:
    """An empty PostgreSQL database of this test's own, as SQLAlchemy's asynchronous engine wants it."""
    address = await postgres.create_database(postgres_server)
    yield postgres.for_sqlalchemy(address)
    await _dropped(address, postgres_server)


@pytest.fixture
async def migrated_postgres_address(postgres_server: str) -> AsyncIterator[str]:
    """The same with today's schema."""
    address = await databases.migrated_postgres(_run_folder(), postgres_server)
    yield postgres.for_sqlalchemy(address)
    await _dropped(address, postgres_server)


@pytest.fixture
def sqlite_address(tmp_path: Path) -> Iterator[str]:
    """An SQLite database of this test's own that does not exist yet, as SQLAlchemy wants it."""
    folder = tmp_path / "database"
    folder.mkdir(mode=0o700)
    yield f"sqlite+aiosqlite:///{folder / 'openab.sqlite3'}"
    left = leaks.open_files_left(folder)
    assert not left, f"the test left its database open: {left}"


@pytest.fixture
async def migrated_sqlite_address(sqlite_address: str) -> str:
    """The same with today's schema."""
    await databases.migrate_sqlite(_run_folder(), Path(sqlite_address.partition(":///")[2]))
    return sqlite_address


@pytest.fixture(params=["sqlite", "postgres"])
def database_address(request: pytest.FixtureRequest) -> str:
    """An empty database of each dialect in turn, as SQLAlchemy's asynchronous engine wants it."""
    address: str = request.getfixturevalue(f"{request.param}_address")
    return address


@pytest.fixture(params=["sqlite", "postgres"])
def migrated_address(request: pytest.FixtureRequest) -> str:
    """A database of each dialect in turn that has today's schema and no rows."""
    address: str = request.getfixturevalue(f"migrated_{request.param}_address")
    return address


@pytest.fixture
async def database(migrated_address: str) -> AsyncIterator[Database]:
    """An open database of each dialect in turn, with today's schema."""
    opened = await Database.open(migrated_address)
    yield opened
    await opened.close()


def _run_folder() -> Path:
    return Path(os.environ[_RUN_FOLDER])


async def _dropped(address: str, server: str) -> None:
    left = await postgres.retire_database(address, server)
    assert not left, f"the test left {left} database connections open"
