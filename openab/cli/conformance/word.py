"""`openab conformance`: the command, its table and its exit codes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openab.cli.database import FAILED, UNUSABLE, fail
from openab.cli.printing import as_json, print_table

if TYPE_CHECKING:
    from openab.cli.conformance.bench import Row
    from openab.cli.conformance.examination import Assignment

app = typer.Typer(add_completion=False)
_API_BASE = "https://discord.com/api/v10"
_AGENT = Path(__file__).with_name("echo_agent.py")


@app.command()
def conformance(
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TESTER", envvar="OPENAB_TESTER_TOKEN", help="The token of the bot that tests."
        ),
    ] = None,
    channel: Annotated[
        str | None, typer.Option(metavar="ID", help="A text channel that both bots may write in.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="ID", help="The user id of the bot under test.")
    ] = None,
    stranger: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="OPENAB_STRANGER_TOKEN",
            help="The token of a third bot, one that the target does not trust.",
        ),
    ] = None,
    api_base: Annotated[str, typer.Option(metavar="URL", help="Discord's address.")] = _API_BASE,
    patience: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="How long an answer may take.")
    ] = 60.0,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave its threads, also if nothing failed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON for each rule.")] = False,
    print_agent: Annotated[
        bool, typer.Option("--print-agent", help="Print the agent that the target has to run.")
    ] = False,
) -> None:
    """Try every rule of receiving hand-offs (openab.multibot.handoff.v1) on any bot, from outside.

    The target has to trust the tester and to run the echo agent, which --print-agent prints; its
    first lines say how to configure both. Send it into a file, echo_agent.py for instance. The
    examination takes about four minutes, in threads of its own.

    Exit codes: 0 nothing fails, 1 something fails or Discord was out of reach, 2 unusable options.
    """
    if print_agent:
        typer.echo(_AGENT.read_text(encoding="utf-8"), nl=False)
        return
    if not (token and channel and target):
        fail("--token, --channel and --target are needed (or --print-agent)", UNUSABLE)
    for option, value in (("--channel", channel), ("--target", target)):
        if not (value.isascii() and value.isdigit()):
            fail(f"{option} takes an id in digits", UNUSABLE)
    import asyncio
    import time

    from openab.cli.conformance.bench import Pace
    from openab.cli.conformance.examination import Assignment

    assignment = Assignment(
        api_base=api_base,
        token=token,
        channel=channel,
        target=target,
        stranger=stranger,
        pace=Pace(time.monotonic, asyncio.sleep, time.time),
        patience=patience,
        keep=keep,
        tell=lambda told: typer.echo(told, err=True),
    )
    _show(_examined(assignment), as_lines=json)


def _examined(assignment: "Assignment") -> "list[Row]":
    import asyncio

    from openab.cli.conformance.examination import Unusable, examine
    from openab.cli.conformance.gateway import Deaf
    from openab.cli.conformance.rest import OutOfReach, RefusedByDiscord

    try:
        return asyncio.run(examine(assignment))
    except Unusable as unusable:
        fail(str(unusable), UNUSABLE)
    except (Deaf, OutOfReach, RefusedByDiscord) as failed:
        fail(str(failed), FAILED)


def _show(rows: "list[Row]", *, as_lines: bool) -> None:
    from openab.cli.conformance.bench import Verdict

    if as_lines:
        for row in rows:
            typer.echo(as_json(row))
    else:
        print_table(
            ("rule", "verdict", "reason"), ((row.rule, row.verdict, row.reason) for row in rows)
        )
    counted = [sum(row.verdict is verdict for row in rows) for verdict in Verdict]
    told = ", ".join(f"{n} {verdict}" for n, verdict in zip(counted, Verdict, strict=True))
    typer.echo(told, err=True)
    if any(row.verdict is Verdict.FAIL for row in rows):
        raise typer.Exit(FAILED)
