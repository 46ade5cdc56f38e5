"""`openab deliveries`: what is or was owed to conversations, and how to have it sent again."""

from typing import TYPE_CHECKING, Annotated

import typer

from openab.cli.database import FAILED, ConfigOption, chosen_database, fail, run
from openab.cli.listing import JsonOption, LimitOption, OpenOption, delivery_words, print_listing
from openab.cli.printing import moment

if TYPE_CHECKING:
    from openab.control.resend import Resent
    from openab.storage.inspection import DeliveryLine

app = typer.Typer(add_completion=False)
_BY = "the command line"


@app.callback(invoke_without_command=True)
def deliveries(
    context: typer.Context,
    config: ConfigOption = None,
    *,
    json: JsonOption = False,
    only_open: OpenOption = False,
    limit: LimitOption = 50,
) -> None:
    """List deliveries, the newest first. Their texts are not shown."""
    if context.invoked_subcommand is not None:
        return
    from openab.storage.inspection import list_deliveries

    address = chosen_database(config)
    lines = run(list_deliveries(address.url, only_open=only_open, limit=limit))
    headings = (
        "delivery", "what", "state", "why dead", "tries", "conversation", "message", "turn",
        "written",
    )  # fmt: skip
    print_listing(lines, headings, _cells, json=json)


@app.command()
def resend(
    what: Annotated[
        str,
        typer.Argument(metavar="ID", help="A dead delivery, or a turn for all of its dead ones."),
    ],
    config: ConfigOption = None,
) -> None:
    """Owe dead messages anew: each once, however often this is typed. A running broker sends them within seconds."""
    resent = run(_resend(chosen_database(config).url, what))
    if resent.verdict.value == "nothing":
        fail(f"nothing to send again: {what} names no message that could not be delivered", FAILED)
    if resent.verdict.value == "done_before":
        typer.echo("was owed anew before, nothing to do")
    else:
        typer.echo(f"owed anew: {resent.count}")


async def _resend(url: str, what: str) -> "Resent":
    from openab.control.resend import resend as owe_anew
    from openab.storage.engine import Database
    from openab.storage.upgrade import prepare

    await prepare(url, auto_upgrade=False)
    database = await Database.open(url)
    try:
        async with database.transaction() as tx:
            return await owe_anew(tx, what, _BY)
    finally:
        await database.close()


def _cells(line: "DeliveryLine") -> tuple[str, ...]:
    return (
        line.id,
        delivery_words(line),
        f"{line.state} (gone since)" if line.is_gone else line.state,
        ": ".join(filter(None, (line.dead_reason, line.dead_detail))),
        str(line.tries),
        line.conversation_id,
        line.platform_id or "",
        line.turn_id or "",
        moment(line.created_at),
    )
