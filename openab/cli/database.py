"""Which database a command works on, and how it ends when that cannot be used."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from openab.domain.database_url import DatabaseAddress, DatabaseUrlInvalid
from openab.domain.errors import OpenabError, Rejected

Result = TypeVar("Result")
FAILED, UNUSABLE = 1, 2
ConfigOption = Annotated[
    str | None,
    typer.Option("-c", "--config", metavar="FILE|URL", help="The configuration."),
]


def chosen_database(config: str | None) -> DatabaseAddress:
    """The address to work on, told on stderr without its password; a mistake in it ends with 2.

    Only `[database].url` counts: neither the token nor a sound rest of the file is needed.
    """
    try:
        address = _address(config)
    except (Rejected, OSError) as error:
        fail(str(error), UNUSABLE)
    typer.echo(f"database: {address.masked}", err=True)
    return address


def run(step: Coroutine[Any, Any, Result]) -> Result:
    """Do it; what can be expected to fail is one line and exit 1."""
    try:
        return asyncio.run(step)
    except (OpenabError, OSError) as error:
        said = str(getattr(error, "told", error))
        fail(said, UNUSABLE if isinstance(error, DatabaseUrlInvalid) else FAILED)
    except Exception as error:
        from openab.storage.inspection import explained

        told = explained(error)
        if told is None:
            raise
        fail(told, FAILED)


def fail(told: str, code: int) -> NoReturn:
    """Say it on stderr and end with the code."""
    typer.echo(told, err=True)
    raise typer.Exit(code)


def _address(config: str | None) -> DatabaseAddress:
    from openab.config.fetch import is_remote
    from openab.config.load import load
    from openab.domain.database_url import DATABASE_URL_VARIABLE
    from openab.storage.target import TargetUnclear, from_surroundings

    source = config or "config.toml"
    if is_remote(source) and not os.environ.get(DATABASE_URL_VARIABLE):
        return load(source, os.environ).database
    if config and not is_remote(config) and not Path(config).exists():
        fail(f"there is no file {config}", UNUSABLE)
    try:
        return from_surroundings({}, os.environ, Path(source))
    except TargetUnclear:
        # It is written with ${...}, or the file is no TOML before that is replaced.
        return load(source, os.environ).database
