"""A real PostgreSQL for the tests: one server a run, an empty database for each test that asks."""

import fcntl
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.postgres_server import START_SECONDS, UNPRIVILEGED, URL_VARIABLE, NoPostgres

_REPOSITORY = Path(__file__).resolve().parent.parent


def describe() -> str:
    """One line for the terminal: which server the tests use, and as whom it runs."""
    if URL_VARIABLE in os.environ:
        return f"postgres: the server that {URL_VARIABLE} names"
    who = f"the user `{UNPRIVILEGED}`" if os.geteuid() == 0 else "you"
    return f"postgres: from the wheel, started when a test asks for it, run as {who}"


def server_address(run_folder: Path, owner_pid: int) -> str:
    """The address of this run's server. Starts it if no process of the run has; it ends with the owner."""
    given = os.environ.get(URL_VARIABLE)
    if given:
        return given
    published = run_folder / "address"
    with _locked(run_folder / "lock"):
        if not published.exists():
            published.write_text(_start_keeper(run_folder, owner_pid))
        return published.read_text()


async def create_database(server: str, template: str | None = None) -> str:
    """Make a database of its own name, empty or a copy of the one at `template`; returns its address."""
    name = f"openab_test_{secrets.token_hex(6)}"
    async with _connected(server) as connection:
        source = f' TEMPLATE "{_name(template)}"' if template else ""
        await connection.execute(f'CREATE DATABASE "{name}"{source}{_quickly(connection)}')
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


async def drop_database(address: str, server: str) -> None:
    """Drop it, even if somebody is still connected."""
    async with _connected(server) as connection:
        await _drop(connection, _name(address))


async def retire_database(address: str, server: str) -> int:
    """Drop it; how many connections to it were left open."""
    async with _connected(server) as connection:
        left = await _connections(connection, _name(address), 30.0)
        await _drop(connection, _name(address))
    return left


async def connections_left(address: str, server: str, within: float = 30.0) -> int:
    """How many connections to it are still open after `within` seconds; a backend needs a moment to go."""
    async with _connected(server) as connection:
        return await _connections(connection, _name(address), within)


def for_sqlalchemy(address: str) -> str:
    """The same address for SQLAlchemy's asynchronous engine."""
    return urlunsplit(urlsplit(address)._replace(scheme="postgresql+asyncpg"))


def _name(address: str) -> str:
    return urlsplit(address).path.lstrip("/")


@asynccontextmanager
async def _connected(server: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server)
    try:
        yield connection
    finally:
        await connection.close()


async def _connections(connection: asyncpg.Connection, name: str, within: float) -> int:
    deadline = time.monotonic() + within
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
    while (left := await connection.fetchval(asked, name)) and time.monotonic() < deadline:
        await connection.execute("SELECT pg_sleep(0.02)")
    return int(left)


async def _drop(connection: asyncpg.Connection, name: str) -> None:
    await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _quickly(connection: asyncpg.Connection) -> str:
    """From version 15 on PostgreSQL copies through its log unless told otherwise; by files takes a quarter."""
    return " STRATEGY = FILE_COPY" if connection.get_server_version().major >= 15 else ""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start_keeper(run_folder: Path, owner_pid: int) -> str:
    """Start the process that keeps the server; returns the address it tells, or raises its complaint."""
    log = run_folder / "keeper.log"
    command = [sys.executable, "-m", "tests.postgres_server", str(owner_pid)]
    with log.open("w") as complaints:
        keeper = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=complaints,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=_REPOSITORY,
            env={**os.environ, "PYTHONWARNINGS": "default"},
        )
        assert keeper.stdout is not None
        with keeper, keeper.stdout as told:
            readable, _, _ = select.select([told], [], [], START_SECONDS)
            line = told.readline().decode().strip() if readable else ""
    if not line:
        raise NoPostgres(f"PostgreSQL did not start: {log.read_text().strip()[-2000:]}")
    return line
