"""`openab config check`: what is wrong with a configuration, before it is used."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from openab.config.findings import Caution, ConfigInvalid, Finding

app = typer.Typer(help="Check the configuration file.", no_args_is_help=True)


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
    from openab.config.fetch import shown_source

    shown = shown_source(source)
    try:
        cautions, usable = _as_openab(source) if openab else _as_ours(source, os.environ)
    except ConfigInvalid as invalid:
        _tell(shown, "caution", invalid.cautions)
        _tell(shown, "mistake", invalid.mistakes)
        typer.echo(f"{shown} cannot be used: {_count(len(invalid.mistakes), 'mistake')}.", err=True)
        raise typer.Exit(2) from None
    _tell(shown, "caution", cautions)
    typer.echo(f"{shown} {usable}, {_count(len(cautions), 'caution')}.")


def _as_ours(source: str, environ: Mapping[str, str]) -> tuple[tuple[Caution, ...], str]:
    from openab.config.load import load

    loaded = load(source, environ)
    return loaded.cautions, f"can be used; database {loaded.database.masked}"


def _as_openab(source: str) -> tuple[tuple[Caution, ...], str]:
    from openab.config.as_openab import judge_as_openab
    from openab.config.fetch import read_source

    text = asyncio.run(read_source(source))
    return judge_as_openab(text, os.environ), "can be used by OpenAB"


def _tell(shown: str, kind: str, findings: Iterable[Finding]) -> None:
    for finding in findings:
        place = shown if finding.line is None else f"{shown}:{finding.line}"
        path = f"{finding.path}: " if finding.path else ""
        remedy = f" ({finding.remedy})" if finding.remedy else ""
        typer.echo(f"{place}: {kind}: {path}{finding.message}{remedy}", err=True)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
