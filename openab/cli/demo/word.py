"""The word `openab demo`."""

import asyncio
import shlex
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from openab.cli.demo.stage import Staging, evening

app = typer.Typer(add_completion=False)
FAILED, INTERRUPTED = 1, 130
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@app.command()
def demo(
    *,
    pace: Annotated[
        float,
        typer.Option(min=0.1, max=10.0, help="How long the agents take: 0.5 is twice as fast."),
    ] = 1.0,
    grace: Annotated[
        float, typer.Option(hidden=True, help="Seconds that a busy machine may add to a promise.")
    ] = 0.0,
    broker_command: Annotated[
        str, typer.Option(hidden=True, help="Another broker, to see the proofs fail.")
    ] = "",
) -> None:
    """Watch the main job: two bots and a person in one thread, live, with proofs at the end.

    Needs no token and no network: a loopback Discord, SQLite in a temporary folder, scripted
    agents. About a minute. Exit codes: 0 every proof holds, 1 one does not.
    """
    # A terminal that cannot show a character gets a question mark, not a traceback.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    staging = Staging(
        console=_Console(highlight=False, markup=False, emoji=False),
        broker=shlex.split(broker_command) or (sys.executable, "-m", "openab"),
        pace=pace,
        grace=grace,
        is_open_end=sys.stdin.isatty() and sys.stdout.isatty(),
    )
    try:
        holds = asyncio.run(_until_stopped(staging))
    except asyncio.CancelledError:
        with suppress(BrokenPipeError):
            typer.echo("Stopped; nothing is left behind.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(0 if holds else FAILED)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Nobody reads any more: go silent, and end in order rather than from the middle of a print."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        signal.raise_signal(signal.SIGTERM)


async def _until_stopped(staging: Staging) -> bool:
    """The evening; the first signal ends it in order, more of them change nothing: that is bounded."""
    evening_task = asyncio.current_task()
    asked: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not asked and evening_task:
            evening_task.cancel()
        asked.append(number)

    for number in _STOPS:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return await evening(staging)
