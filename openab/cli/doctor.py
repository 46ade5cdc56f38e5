"""`openab doctor`: tries every part and says what to do about each that is not in order."""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer

from openab.cli.printing import safe

if TYPE_CHECKING:
    from openab.app.diagnosis.report import Found
    from openab.config.load import Loaded

app = typer.Typer(add_completion=False)
FAILED, UNUSABLE = 1, 2
_SIGNS = {"well": "✓", "warning": "!", "failure": "✗"}


@app.command()
def doctor(
    source: Annotated[
        str, typer.Option("-c", "--config", metavar="FILE|URL", help="The configuration.")
    ] = "config.toml",
) -> None:
    """Try every part. Exit codes: 0 in order (perhaps with warnings), 1 something fails, 2 unusable configuration."""
    from openab.cli.quiet import quiet_logs
    from openab.cli.run import load_or_tell

    loaded = load_or_tell(source)
    if loaded is None:
        raise typer.Exit(UNUSABLE)
    typer.echo(f"database: {loaded.database.masked}", err=True)
    config = loaded.config
    secrets = (value.reveal() for _name, value in config.agent_variables())
    quiet_logs(config.discord.bot_token.reveal(), *secrets)
    raise typer.Exit(asyncio.run(_examine(loaded)))


async def _examine(loaded: "Loaded") -> int:
    from openab.app.diagnosis.doctor import examine
    from openab.app.diagnosis.report import Level

    seen: list[Level] = []
    async for found in examine(loaded, os.environ):
        typer.echo(_line(found))
        seen.append(found.level)
    failures, warnings = seen.count(Level.FAILURE), seen.count(Level.WARNING)
    typer.echo(f"{len(seen)} checks, {warnings} to think about, {failures} failed.")
    return FAILED if failures else 0


def _line(found: "Found") -> str:
    remedy = f" → {found.remedy}" if found.remedy else ""
    return f"{_SIGNS[found.level]} {found.part}: {safe(found.told)}{safe(remedy)}"
