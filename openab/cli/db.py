"""`openab db`: upgrade, look at, check and vacuum the database."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from openab.domain.database_url import DATABASE_URL_VARIABLE, DatabaseAddress, DatabaseUrlInvalid
from openab.domain.errors import OpenabError, Rejected

Result = TypeVar("Result")
ConfigOption = Annotated[
    str | None, typer.Option("-c", "--config", help="Configuration: a file or an address.")
]

app = typer.Typer(help="The database: its schema and its space.", no_args_is_help=True)


@app.command()
def upgrade(config: ConfigOption = None) -> None:
    """Bring the schema to what this openab needs. Brokers of the previous release may go on."""
    from openab.storage import upgrade as schema

    address = _target(config)
    before = _run(schema.check(address.url))
    after = _run(schema.upgrade(address.url))
    if before.found == after.found:
        typer.echo(f"schema {after.found}, nothing to do")
    else:
        typer.echo(f"schema {before.found or 'none'} -> {after.found}")


@app.command()
def current(config: ConfigOption = None) -> None:
    """Print the schema's revision."""
    from openab.storage import upgrade as schema

    typer.echo(_run(schema.current(_target(config).url)) or "no tables")


@app.command()
def check(config: ConfigOption = None) -> None:
    """Exit 0 if this openab can run on the schema, 1 if not, saying what to do."""
    from openab.storage import upgrade as schema

    state = _run(schema.prepare(_target(config).url, auto_upgrade=False))
    typer.echo(f"schema {state.found}, as needed")


@app.command()
def vacuum(config: ConfigOption = None) -> None:
    """Give the space of deleted rows back; other writers wait meanwhile."""
    from openab.storage import upgrade as schema

    _run(schema.vacuum(_target(config).url))
    typer.echo("done")


def _target(config: str | None) -> DatabaseAddress:
    """The address to work on, printed without its password; a mistake in it ends with 2."""
    try:
        address = _address(config)
    except Rejected as error:
        _fail(error, 2)
    typer.echo(f"database: {address.masked}", err=True)
    return address


def _address(config: str | None) -> DatabaseAddress:
    """The variable alone is enough: then no configuration (nor the token it names) has to be there."""
    from openab.config.load import load
    from openab.config.paths import openab_home, user_home
    from openab.domain.database_url import database_address

    source = config or ("config.toml" if Path("config.toml").exists() else None)
    if source is None or os.environ.get(DATABASE_URL_VARIABLE):
        home, folder = user_home(os.environ), openab_home(os.environ)
        return database_address(os.environ, home=str(home), folder=str(folder))
    return load(source, os.environ).database


def _run(step: Coroutine[Any, Any, Result]) -> Result:
    """Do it; an expected failure is one line and exit 1."""
    try:
        return asyncio.run(step)
    except OpenabError as error:
        _fail(error, 2 if isinstance(error, DatabaseUrlInvalid) else 1)


def _fail(error: Exception, code: int) -> NoReturn:
    typer.echo(str(error), err=True)
    raise typer.Exit(code)
