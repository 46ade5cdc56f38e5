"""`openab setup`: from a token to a configuration that works, asked step by step."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from openab.cli.setup.guide import GUIDE

app = typer.Typer(add_completion=False)
_DEFAULT_API = "https://discord.com/api/v10"
FAILED, UNUSABLE = 1, 2


@app.command()
def setup(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")
    ] = Path("config.toml"),
    api_base: Annotated[
        str, typer.Option("--api-base", metavar="URL", help="Another base for Discord's API.")
    ] = _DEFAULT_API,
) -> None:
    """Ask what a bot needs, try it, and write the file. Without a terminal: say how to write it by hand."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        typer.echo(GUIDE)
        return
    folder = output.absolute().parent
    if output.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        typer.echo(f"{output} cannot be written: name a file in a folder of yours (-o)", err=True)
        raise typer.Exit(UNUSABLE)
    from openab.cli.setup.steps import Steps
    from openab.cli.setup.writing import offer

    base = api_base.rstrip("/")
    answers = Steps(os.environ, "" if base == _DEFAULT_API else base).ask()
    if not offer(answers, output, os.environ):
        raise typer.Exit(FAILED)
