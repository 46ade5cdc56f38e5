"""The main job on PostgreSQL: the same promises, the same process, another database."""

import asyncio

import asyncpg
import pytest

from openab.text.notices import went_on_after_restart
from tests.acceptance.stage import Broker, Stage


def _broker(stage: Stage, address: str, name: str = "sol") -> Broker:
    return stage.broker(name, environ={"OPENAB_DATABASE_URL": _plain(address)})


def _plain(address: str) -> str:
    """The address as people write it."""
    return address.replace("postgresql+asyncpg://", "postgresql://")


async def test_the_main_job_and_a_restart(migrated_postgres_address: str, stage: Stage) -> None:
    sol = _broker(stage, migrated_postgres_address)
    await sol.start()
    asked = await stage.ask(sol, "[[words=60]] [[tool=execute:cargo test:0.5]] [[say=all green]]")
    await stage.answer(asked.id, sol, "all green")
    await stage.settled(asked)
    assert stage.placeholders(asked.id) == []
    assert await sol.stop() == 0
    await sol.start()
    again = await stage.ann.say(asked.id, "[[recall]]")
    answer = await stage.answer(asked.id, sol, "I remember 1 prompts")
    await stage.settled(again)
    assert "cargo test" in answer.content
    assert await sol.stop() == 0
    assert not (sol.home / "openab.db").exists()


async def test_a_kill_in_the_middle(migrated_postgres_address: str, stage: Stage) -> None:
    sol = _broker(stage, migrated_postgres_address)
    await sol.start()
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=before the crash]]{gate.step}[[say= and after it]]")
    await stage.live(asked.id, "before the crash")
    await sol.kill()
    gate.open()
    await sol.start()
    answer = await stage.answer(asked.id, sol, "before the crash and after it")
    assert went_on_after_restart() in answer.content
    await stage.settled(asked)
    await stage.bare(asked.id)
    assert await sol.stop() == 0


async def test_two_bots_in_one_thread(migrated_postgres_address: str, stage: Stage) -> None:
    sol, luna = (_broker(stage, migrated_postgres_address, name) for name in ("sol", "luna"))
    await asyncio.gather(sol.start(), luna.start())
    asked = await stage.ask(sol, f"{luna.bot.mention} [[say=one of two]] [[recall]]")
    for broker in (sol, luna):
        await stage.answer(asked.id, broker, "I remember 0 prompts")
    await stage.bare(asked.id)
    threads = stage.discord.threads(stage.channel)
    assert [thread.id for thread in threads] == [asked.id]
    assert set(await asyncio.gather(sol.stop(), luna.stop())) == {0}


@pytest.mark.timeout(150)
async def test_connections_that_the_server_ends_cost_time_and_nothing_else(
    migrated_postgres_address: str, stage: Stage
) -> None:
    sol = _broker(stage, migrated_postgres_address)
    await sol.start()
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=one ]]{gate.step}[[say=two]]")
    await stage.live(asked.id, "one")
    assert await _terminate(migrated_postgres_address)
    second = await stage.ann.say(asked.id, "[[say=three]]")
    gate.open()
    await _terminate(migrated_postgres_address)
    await stage.answer(asked.id, sol, "two")
    await stage.answer(asked.id, sol, "three")
    await stage.settled(second)
    await stage.bare(asked.id)
    status, page = await sol.page("/readyz")
    assert status == 200, page
    assert await sol.stop() == 0


async def _terminate(address: str) -> int:
    """End every other connection to the database; how many there were."""
    connection = await asyncpg.connect(_plain(address))
    try:
        ended = await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(ended)
    finally:
        await connection.close()


async def test_an_old_schema_is_refused_and_says_what_to_type(
    postgres_address: str, stage: Stage
) -> None:
    sol = _broker(stage, postgres_address)
    await sol.start(connected=False)
    assert await sol.exit_code() == 2
    assert "openab db upgrade" in (await sol.logged("cannot_start"))["reason"]
