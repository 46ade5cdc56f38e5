"""`openab config check`: what is wrong with a configuration, before it is used."""

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from openab.config.findings import Caution

app = typer.Typer(help="Check the configuration file.", no_args_is_help=True, add_completion=False)


@app.callback()
def _config() -> None:
    """Without this, typer would take `check` for the whole command."""


@app.command("check")
def check(
    source: Annotated[
        str, typer.Option("-c", "--config", metavar="FILE|URL", help="The configuration.")
    ] = "config.toml",
    *,
    openab: Annotated[
        bool, typer.Option("--openab", help="Judge it as OpenAB would read it.")
    ] = False,
) -> None:
    """Tell every mistake and caution with its place. Exit code 2 if the file cannot be used."""
    from openab.cli.findings import tell_findings
    from openab.config.fetch import shown_source
    from openab.config.findings import ConfigInvalid

    shown = shown_source(source)
    try:
        cautions, usable = _as_openab(source) if openab else _as_ours(source, os.environ)
    except ConfigInvalid as invalid:
        tell_findings(source, invalid.cautions, invalid.mistakes)
        typer.echo(f"{shown} cannot be used: {_count(len(invalid.mistakes), 'mistake')}.", err=True)
        raise typer.Exit(2) from None
    tell_findings(source, cautions)
    typer.echo(f"{shown} {usable}, {_count(len(cautions), 'caution')}.")


def _as_ours(source: str, environ: Mapping[str, str]) -> "tuple[tuple[Caution, ...], str]":
    from openab.config.load import load

    loaded = load(source, environ)
    return loaded.cautions, f"can be used; database {loaded.database.masked}"


def _as_openab(source: str) -> "tuple[tuple[Caution, ...], str]":
    from openab.config.as_openab import judge_as_openab
    from openab.config.fetch import read_source

    text = asyncio.run(read_source(source))
    return judge_as_openab(text, os.environ), "can be used by OpenAB"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
