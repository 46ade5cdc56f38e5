"""Brings a database's schema to what this code needs, or says why it must not."""

import asyncio
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from openab.domain.errors import Rejected
from openab.storage import dialect
from openab.storage.failures import translated
from openab.storage.schema import SCHEMA_REVISION, conversations
from openab.storage.types import from_micros

_MIGRATIONS = Path(__file__).parent / "migrations"
#: Read without Alembic, whose import is a tenth of every start and serves only an upgrade.
_ALEMBIC_TABLE = sa.table("alembic_version", sa.column("version_num", sa.String))
#: Alembic keeps the running command in module globals.
_one_command = threading.Lock()


class SchemaRefused(Rejected):
    """This code must not use, or must not change, the schema that is there; the message has the remedy."""


class SchemaAge(StrEnum):
    """How a database's schema stands to this code."""

    #: No tables yet.
    EMPTY = "empty"
    #: `openab db upgrade` brings it up.
    OLDER = "older"
    EQUAL = "equal"
    #: Another release has upgraded it.
    NEWER = "newer"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What schema a database has, what this code needs, and who is using it."""

    age: SchemaAge
    #: The database's revision; None: no tables.
    found: str | None
    needed: str
    #: Whether somebody holds a lease that has not ended.
    is_in_use: bool


async def check(url: str) -> SchemaState:
    """Look at the schema and change nothing; raises `DatabaseUnavailable`."""
    if dialect.is_missing(url):
        return SchemaState(SchemaAge.EMPTY, None, SCHEMA_REVISION, is_in_use=False)
    try:
        engines = dialect.connect(url)
    except Exception as error:
        raise translated(error) from error
    try:
        async with engines.reader.connect() as connection:
            return await connection.run_sync(_look)
    except Exception as error:
        raise translated(error) from error
    finally:
        await engines.dispose()


async def current(url: str) -> str | None:
    """The database's revision; None: it has no tables."""
    return (await check(url)).found


async def upgrade(url: str) -> SchemaState:
    """Upgrade because somebody asked for it; done once, however many processes do it at a time.

    The previous release may be running: every schema serves it too. A newer one is refused.
    """
    state = await check(url)
    if state.age is SchemaAge.NEWER:
        raise SchemaRefused(_newer(state))
    if state.age is not SchemaAge.EQUAL:
        await asyncio.to_thread(_run_alembic, url)
    return await check(url)


async def prepare(url: str, *, auto_upgrade: bool) -> SchemaState:
    """Make the schema fit at the start of a process, or raise `SchemaRefused` with what to type.

    It upgrades only if `auto_upgrade` says so and nobody of another version is at work.
    """
    state = await check(url)
    if state.age is SchemaAge.EQUAL:
        return state
    if state.age is SchemaAge.NEWER:
        raise SchemaRefused(_newer(state))
    if not auto_upgrade:
        raise SchemaRefused(f"{_gap(state)}; type: openab db upgrade")
    if state.is_in_use:
        raise SchemaRefused(
            f"{_gap(state)}, and a broker of the earlier release is at work in it: "
            "stop that one first, or type: openab db upgrade"
        )
    return await upgrade(url)


def _look(connection: sa.Connection) -> SchemaState:
    found = _revision(connection)
    age = _age(found)
    is_in_use = age is not SchemaAge.EMPTY and _has_lease(connection)
    return SchemaState(age, found, SCHEMA_REVISION, is_in_use)


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_ALEMBIC_TABLE.name):
        return None
    return connection.scalars(sa.select(_ALEMBIC_TABLE.c.version_num)).one_or_none()


def _age(found: str | None) -> SchemaAge:
    if found is None:
        return SchemaAge.EMPTY
    if found == SCHEMA_REVISION:
        return SchemaAge.EQUAL
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see _ALEMBIC_TABLE

    known = {script.revision for script in ScriptDirectory(str(_MIGRATIONS)).walk_revisions()}
    return SchemaAge.OLDER if found in known else SchemaAge.NEWER


def _has_lease(connection: sa.Connection) -> bool:
    now = from_micros(connection.scalar(sa.select(dialect.clock(connection.dialect.name))) or 0)
    living = sa.select(sa.literal(1)).where(conversations.c.lease_until > now).limit(1)
    return connection.scalar(living) is not None


def _run_alembic(url: str) -> None:
    from alembic import command  # noqa: PLC0415 - see _ALEMBIC_TABLE
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    attributes: dict[Any, Any] = config.attributes
    attributes["url"] = url
    try:
        with _one_command:
            command.upgrade(config, "head")
    except Exception as error:
        raise translated(error) from error


def _gap(state: SchemaState) -> str:
    found = "has no tables" if state.found is None else f"has schema {state.found}"
    return f"the database {found}, this openab needs {state.needed}"


def _newer(state: SchemaState) -> str:
    return (
        f"the database has schema {state.found}, newer than {state.needed} of this openab: "
        "install the release that upgraded it, or restore the backup made before"
    )
