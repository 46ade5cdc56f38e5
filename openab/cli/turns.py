"""`openab turns`: what was asked, and how far it is."""

from typing import TYPE_CHECKING

import typer

from openab.cli.database import ConfigOption, chosen_database, run
from openab.cli.listing import JsonOption, LimitOption, OpenOption, print_listing
from openab.cli.printing import moment

if TYPE_CHECKING:
    from openab.storage.inspection import TurnLine

app = typer.Typer(add_completion=False)


@app.command()
def turns(
    config: ConfigOption = None,
    *,
    json: JsonOption = False,
    only_open: OpenOption = False,
    limit: LimitOption = 50,
) -> None:
    """List turns, the newest first. What was said in them is not shown."""
    from openab.storage.inspection import list_turns

    address = chosen_database(config)
    lines = run(list_turns(address.url, only_open=only_open, limit=limit))
    headings = (
        "turn",
        "source",
        "state",
        "outcome",
        "conversation",
        "asked by",
        "accepted",
        "took",
        "error",
    )
    print_listing(lines, headings, _cells, json=json)


def _cells(line: "TurnLine") -> tuple[str, ...]:
    return (
        line.id,
        line.source,
        line.state,
        line.outcome or "",
        line.conversation_id,
        line.requester_name or line.requester_id,
        moment(line.created_at),
        _took(line),
        str((line.error or {}).get("kind", "")),
    )


def _took(line: "TurnLine") -> str:
    if line.started_at is None or line.answered_at is None:
        return ""
    return f"{(line.answered_at - line.started_at).total_seconds():.0f} s"
