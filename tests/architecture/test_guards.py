"""The guards that every test runs under notice what they are there for."""

import asyncio
import socket
import subprocess
import threading
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.ports.tasks import end, spawn
from openab.storage.upgrade import SchemaAge, check
from tests import leaks, loopback, postgres, postgres_server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "GRACE_SECONDS", 0.02)


@pytest.mark.usefixtures("impatient")
async def test_a_task_that_goes_on_is_noticed() -> None:
    task = spawn("endless", asyncio.Event().wait())

    assert "endless" in "".join(await leaks.tasks_left())
    await end(task)
    assert not await leaks.tasks_left()


@pytest.mark.usefixtures("impatient")
def test_a_child_process_that_goes_on_is_noticed() -> None:
    before = leaks.children()
    with subprocess.Popen(["sleep", "600"]) as child:
        assert leaks.children_left(before)[0].startswith(f"process {child.pid}: sleep 600")
        child.kill()
    assert not leaks.children_left(before)


@pytest.mark.usefixtures("impatient")
def test_a_thread_that_goes_on_is_noticed() -> None:
    before, stop = set(threading.enumerate()), threading.Event()
    thread = threading.Thread(target=stop.wait, name="endless")
    thread.start()

    assert "endless" in "".join(leaks.threads_left(before))
    stop.set()
    thread.join()
    assert not leaks.threads_left(before)


@pytest.mark.usefixtures("impatient")
def test_an_open_database_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "database"
    with path.open("w"):
        assert leaks.open_files_left(tmp_path) == [str(path)]
    assert not leaks.open_files_left(tmp_path)


async def test_an_open_connection_is_noticed(postgres_server: str) -> None:
    address = await postgres.create_database(postgres_server)
    connection = await asyncpg.connect(address)

    assert await postgres.connections_left(address, postgres_server, within=0) == 1
    await connection.close()
    assert await postgres.connections_left(address, postgres_server) == 0
    await postgres.drop_database(address, postgres_server)


async def test_each_database_is_empty_and_its_own(postgres_server: str) -> None:
    first, second = [await postgres.create_database(postgres_server) for _ in range(2)]

    assert first != second
    for address in (first, second):
        connection = await asyncpg.connect(address)
        query = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert await connection.fetchval(query) == 0
        await connection.close()
        await postgres.drop_database(address, postgres_server)


async def test_a_copied_database_has_todays_schema(migrated_address: str) -> None:
    assert (await check(migrated_address)).age is SchemaAge.EQUAL


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("::", 0), ("0.0.0.0", 0)])
def test_a_socket_may_not_leave_the_machine(address: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as reaching, pytest.raises(loopback.NetworkForbidden):
        reaching.connect(address) if address[1] else reaching.bind(address)
    assert loopback.refused
    loopback.refused.clear()


def test_a_name_may_not_be_looked_up() -> None:
    with pytest.raises(loopback.NetworkForbidden):
        socket.create_connection(("example.org", 443))
    loopback.refused.clear()


async def test_the_loopback_interface_is_open() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        _, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection("localhost", port, family=socket.AF_INET)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


@given(st.ip_addresses())
def test_only_loopback_addresses_are_permitted(address: IPv4Address | IPv6Address) -> None:
    assert loopback.permits(str(address)) == address.is_loopback


def test_a_platform_without_the_wheel_is_told_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(postgres_server.NoPostgres, match="OPENAB_TEST_POSTGRES_URL"):
        postgres_server._wheel_binaries()


def test_a_given_server_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAB_TEST_POSTGRES_URL", "postgresql://me@127.0.0.1/mine")

    assert postgres.server_address(tmp_path, 1) == "postgresql://me@127.0.0.1/mine"
    assert "OPENAB_TEST_POSTGRES_URL" in postgres.describe()
