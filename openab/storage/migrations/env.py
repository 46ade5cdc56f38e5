"""Alembic's entry: which database, one transaction per revision, plain types in revisions."""

import asyncio
import sys
from typing import Any

import sqlalchemy as sa
from alembic import context
from alembic.autogenerate.api import AutogenContext
from alembic.operations.ops import MigrationScript
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from openab.domain.errors import Rejected
from openab.storage import dialect, target
from openab.storage.schema import metadata


def main() -> None:
    """Do what the command asked for, or write it as SQL."""
    # `openab` gives the address and prints it by itself.
    url = context.config.attributes.get("url") or _announced_url()
    if context.is_offline_mode():
        _write_sql(sa.make_url(url).get_backend_name())
        return
    with dialect.one_migration(url):
        asyncio.run(_connect_and_migrate(url))


def _announced_url() -> str:
    try:
        address = target.from_surroundings(context.get_x_argument(as_dictionary=True))
    except Rejected as error:
        raise CommandError(str(error)) from error
    sys.stderr.write(f"database: {address.masked}\n")
    return address.url


def _write_sql(name: str) -> None:
    context.configure(dialect_name=name, literal_binds=True, **_options())
    for statement in dialect.offline_preamble(name):
        context.execute(statement)
    with context.begin_transaction():
        context.run_migrations()


async def _connect_and_migrate(url: str) -> None:
    engine = dialect.migration_engine(url)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(_migrate)
    finally:
        await engine.dispose()


def _migrate(connection: sa.Connection) -> None:
    dialect.lock_migration(connection)
    context.configure(connection=connection, on_version_apply=_on_version, **_options())
    with context.begin_transaction():
        context.run_migrations()


def _options() -> dict[str, Any]:
    return {
        "target_metadata": metadata,
        "render_as_batch": True,
        # Without it the script of `--sql` has no transactions for SQLite.
        "transactional_ddl": True,
        "transaction_per_migration": True,
        "render_item": _render_plainly,
        "process_revision_directives": _count,
    }


def _on_version(ctx: MigrationContext, *_told: object, **_more: object) -> None:
    if ctx.connection is not None:
        dialect.check_foreign_keys(ctx.connection)


def _render_plainly(kind: str, item: object, _context: AutogenContext) -> str | bool:
    """Revisions import nothing of openab, so our types are written as what they are made of."""
    if kind == "type" and isinstance(item, sa.types.TypeDecorator):
        return f"sa.{item.impl_instance!r}"
    return False


def _count(
    _context: MigrationContext, _revision: object, directives: list[MigrationScript]
) -> None:
    """Revisions are counted: 0001, 0002, …"""
    head = ScriptDirectory.from_config(context.config).get_current_head()
    for script in directives:
        script.rev_id = f"{int(head or 0) + 1:04d}"


main()
