"""The revisions and the metadata describe the same database, on both dialects, however they are run."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from openab.domain.binding import BindingStatus, EndReason, TargetKind
from openab.domain.delivery import DeliveryKind, DeliveryState, Purpose
from openab.domain.handoff import Direction, HandoffState, NotSent, Refusal
from openab.domain.spawn import SpawnRefusal, SpawnState
from openab.domain.turn import Outcome, TurnSource, TurnState
from openab.storage.schema import SCHEMA_REVISION, metadata
from openab.storage.upgrade import SchemaAge, check, upgrade

_ROOT = Path(__file__).parents[2]
_CHECKED: dict[tuple[str, str], type[StrEnum]] = {
    ("turns", "state"): TurnState,
    ("turns", "outcome"): Outcome,
    ("turns", "source"): TurnSource,
    ("deliveries", "kind"): DeliveryKind,
    ("deliveries", "purpose"): Purpose,
    ("deliveries", "state"): DeliveryState,
    ("handoffs", "direction"): Direction,
    ("handoffs", "state"): HandoffState,
    ("handoffs", "reason"): NotSent,
    ("handoff_refusals", "reason"): Refusal,
    ("bindings", "kind"): TargetKind,
    ("bindings", "state"): BindingStatus,
    ("bindings", "end_reason"): EndReason,
    ("spawns", "state"): SpawnState,
    ("spawns", "reason"): SpawnRefusal,
}


@pytest.fixture
async def engine(database_address: str) -> AsyncIterator[AsyncEngine]:
    made = create_async_engine(database_address, poolclass=sa.NullPool)
    yield made
    await made.dispose()


async def described(engine: AsyncEngine) -> dict[str, Any]:
    """Everything a database says about its tables, comparable."""
    async with engine.connect() as connection:
        return await connection.run_sync(_describe)


def _describe(connection: sa.Connection) -> dict[str, Any]:
    look = sa.inspect(connection)
    return {
        table: {
            "columns": {c["name"]: _column(c) for c in look.get_columns(table)},
            "key": look.get_pk_constraint(table),
            "foreign": _by_name(look.get_foreign_keys(table)),
            "unique": _by_name(look.get_unique_constraints(table)),
            "indexes": _by_name(look.get_indexes(table)),
            "checks": _by_name(look.get_check_constraints(table)),
        }
        for table in look.get_table_names()
        if table != "alembic_version"
    }


def _column(column: Any) -> tuple[str, bool, str | None]:
    return repr(column["type"]), column["nullable"], column["default"]


def _by_name(found: list[Any]) -> dict[str, Any]:
    return {each["name"]: _plain(each) for each in found}


def _plain(value: Any) -> Any:
    """Clauses as their text, which can be compared."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return str(value) if isinstance(value, sa.TextClause) else value


async def from_metadata(engine: AsyncEngine) -> dict[str, Any]:
    """The same of a database that is made from the metadata, in place of what was there."""
    async with engine.begin() as connection:
        await connection.run_sync(metadata.drop_all)
        await connection.run_sync(metadata.create_all)
    return await described(engine)


async def alembic(*arguments: str, url: str, cwd: Path = _ROOT) -> tuple[int, str, str]:
    """Plain `alembic`, as a person types it in the repository."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "alembic", *arguments),
        env={**os.environ, "OPENAB_DATABASE_URL": url},
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_up_from_empty_makes_what_the_metadata_says(
    database_address: str, engine: AsyncEngine
) -> None:
    state = await upgrade(database_address)
    assert (state.age, state.found) == (SchemaAge.EQUAL, SCHEMA_REVISION)
    migrated = await described(engine)
    assert set(migrated) == set(metadata.tables)
    assert migrated == await from_metadata(engine)


async def test_every_check_holds_the_values_of_its_enum(
    database_address: str, engine: AsyncEngine
) -> None:
    await upgrade(database_address)
    async with engine.connect() as connection:
        found = await connection.run_sync(_checked_values)
    assert found == {key: {member.value for member in enum} for key, enum in _CHECKED.items()}


def _checked_values(connection: sa.Connection) -> dict[tuple[str, str], set[str]]:
    """The quoted words of each CHECK on one column, by table and column."""
    look = sa.inspect(connection)
    return {
        (table, str(each["name"]).removeprefix(f"ck_{table}_")): set(
            re.findall(r"'(\w+)'", each["sqltext"])
        )
        for table in look.get_table_names()
        for each in look.get_check_constraints(table)
        if each["name"] != "ck_turns_outcome_when_ended"
    }


async def test_plain_alembic_does_the_same_and_finds_nothing_more_to_do(
    database_address: str, engine: AsyncEngine
) -> None:
    code, _, said = await alembic("upgrade", "head", url=database_address)
    assert code == 0, said
    assert said.startswith("database: ")
    code, told, said = await alembic("check", url=database_address)
    assert (code, told.strip()) == (0, "No new upgrade operations detected."), said
    assert (await check(database_address)).age is SchemaAge.EQUAL
    assert await described(engine) == await from_metadata(engine)


async def test_plain_alembic_hides_the_password() -> None:
    url = "postgres://me:hunter2@127.0.0.1:1/nothing"
    code, told, said = await alembic("upgrade", "head", "--sql", url=url)
    assert code == 0, said
    assert "postgresql://me:***@127.0.0.1:1/nothing" in said
    assert "hunter2" not in told + said


async def test_the_script_of_sql_mode_does_the_same(
    database_address: str, engine: AsyncEngine
) -> None:
    code, script, said = await alembic("upgrade", "head", "--sql", url=database_address)
    assert code == 0, said
    assert re.search(r"^BEGIN;$.*^COMMIT;$", script, re.MULTILINE | re.DOTALL)
    await _run_script(database_address, script)
    assert (await check(database_address)).age is SchemaAge.EQUAL
    assert await described(engine) == await from_metadata(engine)


async def _run_script(address: str, script: str) -> None:
    url = sa.make_url(address)
    if url.get_backend_name() == "sqlite":
        connection = sqlite3.connect(url.database or "")
        connection.executescript(script)
        connection.close()
        return
    server = await asyncpg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False)
    )
    await server.execute(script)
    await server.close()


async def test_down_leaves_nothing(database_address: str, engine: AsyncEngine) -> None:
    await upgrade(database_address)
    code, _, said = await alembic("downgrade", "base", url=database_address)
    assert code == 0, said
    assert await described(engine) == {}


async def test_two_at_once_upgrade_once(database_address: str) -> None:
    results = await asyncio.gather(
        alembic("upgrade", "head", url=database_address),
        alembic("upgrade", "head", url=database_address),
    )
    assert [code for code, _, _ in results] == [0, 0], results
    assert (await check(database_address)).age is SchemaAge.EQUAL


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as somebody else gets it: built, and unpacked where nothing of the repository is."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=_ROOT, check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, capture_output=True)
    return target


_UPGRADE = """
import asyncio, sys
import openab
from openab.storage.upgrade import upgrade
assert openab.__file__.startswith(sys.argv[1]), openab.__file__
print(asyncio.run(upgrade(sys.argv[2])).age.value)
"""


async def test_the_wheel_carries_the_migrations(
    installed: Path, database_address: str, engine: AsyncEngine, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _UPGRADE, str(installed), database_address),
        env={**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"},
        cwd=elsewhere,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert out.decode().strip() == "equal", err.decode()
    assert await described(engine) == await from_metadata(engine)


def test_revisions_are_counted_and_import_nothing_of_openab() -> None:
    files = sorted((_ROOT / "openab/storage/migrations/versions").glob("*.py"))
    assert [file.name[:4] for file in files] == [f"{n:04d}" for n in range(1, len(files) + 1)]
    assert files[-1].name[:4] == SCHEMA_REVISION
    for file in files:
        assert not re.search(r"^\s*(?:from|import) openab", file.read_text(), re.MULTILINE), file
