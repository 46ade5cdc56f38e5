"""A full disk, a database that can only be read, and one that stops and starts: nothing is lost, all is told."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from openab.storage.trouble import Trouble
from openab.storage.upgrade import upgrade
from tests import postgres
from tests.acceptance.stage import Broker, Stage
from tests.acceptance.troubled_broker import VARIABLE
from tests.databases_in_trouble import fill, small_disk
from tests.postgres_server import TemporaryServer

Act = Callable[[], Awaitable[object]]
_TROUBLED = (sys.executable, str(Path(__file__).with_name("troubled_broker.py")))
#: Of one core, while everybody waits for the database.
_MOST_CPU = 0.5


async def _in_trouble(broker: Broker, remedy: str) -> None:
    """Wait until `/readyz` says what is wrong and what to do."""
    async with asyncio.timeout(60):
        while True:
            status, page = await broker.page("/readyz")
            check: dict[str, Any] = json.loads(page)["checks"]["database"]
            if status == 503 and remedy in check["reason"]:
                return
            # A page of another process: there is no signal to wait for.
            await asyncio.sleep(0.1)


async def _ready(broker: Broker) -> None:
    async with asyncio.timeout(60):
        while True:
            if (await broker.page("/readyz"))[0] == 200:
                return
            # A page of another process: there is no signal to wait for.
            await asyncio.sleep(0.1)


async def _survives(stage: Stage, sol: Broker, trouble: Act, heal: Act, kind: Trouble) -> None:
    """A turn ends and messages come while the database does nothing; all of it is there afterwards."""
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=one ]]{gate.step}[[say=two]]")
    await stage.live(asked.id, "one")
    await trouble()
    gate.open()
    later = [await stage.ann.say(asked.id, f"[[say={word}]]") for word in ("three", "four")]
    await sol.logged("database_trouble", kind=kind.value, remedy=kind.remedy)
    await sol.logged("waits_for_database", step="outcome")
    await _in_trouble(sol, kind.remedy)
    assert f'openab_database_errors_total{{kind="{kind.value}"}}' in (await sol.page("/metrics"))[1]
    assert await asyncio.to_thread(psutil.Process(sol.pid).cpu_percent, 2.0) < _MOST_CPU * 100
    await heal()
    for word in ("two", "three", "four"):
        await stage.answer(asked.id, sol, word)
    for message in (asked, *later):
        await stage.settled(message)
    await stage.bare(asked.id)
    await _ready(sol)
    said = [message.content for message in stage.finals(asked.id, sol)]
    assert [word for text in said for word in ("two", "three", "four") if word in text] == [
        "two",
        "three",
        "four",
    ]
    assert len(sol.prompts) == 3


@pytest.mark.timeout(240)
async def test_a_database_that_can_only_be_read_is_waited_out(stage: Stage) -> None:
    marker = stage.folder / "read-only"
    sol = stage.broker(argv=_TROUBLED, environ={VARIABLE: str(marker)})
    await sol.start()

    async def trouble() -> None:
        marker.touch()

    async def heal() -> None:
        marker.unlink()

    await _survives(stage, sol, trouble, heal, Trouble.READ_ONLY)
    assert await sol.stop() == 0
    marker.touch()
    await sol.start(connected=False)
    assert await sol.exit_code() == 2
    assert Trouble.READ_ONLY.remedy in (await sol.logged("cannot_start"))["reason"]


@pytest.mark.timeout(240)
async def test_a_full_disk_is_waited_out(stage: Stage, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        if disk is None:
            pytest.skip("this process may not mount a disk")
        sol = stage.broker(home=disk / "home")
        await sol.start()

        async def trouble() -> None:
            fill(disk)

        async def heal() -> None:
            (disk / "filler").unlink()

        await _survives(stage, sol, trouble, heal, Trouble.FULL)
        assert await sol.stop() == 0
        (disk / "home" / "openab.db").unlink()
        fill(disk)
        await sol.start(connected=False)
        assert await sol.exit_code() == 1
        assert Trouble.FULL.remedy in (await sol.logged("cannot_start"))["reason"]


@pytest.mark.timeout(240)
async def test_a_server_that_stops_and_starts_again_is_waited_for(stage: Stage) -> None:
    async with _own_server() as server:
        await upgrade(postgres.for_sqlalchemy(server.address))
        sol = stage.broker(environ={"OPENAB_DATABASE_URL": server.address})
        await sol.start()
        await _survives(
            stage,
            sol,
            lambda: asyncio.to_thread(server.halt),
            lambda: asyncio.to_thread(server.resume),
            Trouble.AWAY,
        )
        assert await sol.stop() == 0
        await asyncio.to_thread(server.halt)
        await sol.start(connected=False)
        assert await sol.exit_code() == 1
        assert Trouble.AWAY.remedy in (await sol.logged("cannot_start"))["reason"]


@asynccontextmanager
async def _own_server() -> AsyncIterator[TemporaryServer]:
    server = TemporaryServer()
    await asyncio.to_thread(server.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)
