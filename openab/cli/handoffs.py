"""`openab handoffs`: work that bots passed to each other, both ends, and what was refused."""

from typing import TYPE_CHECKING

import typer

from openab.cli.database import ConfigOption, chosen_database, run
from openab.cli.listing import JsonOption, LimitOption, OpenOption, print_listing
from openab.cli.printing import moment

if TYPE_CHECKING:
    from openab.storage.handoff_listing import HandoffLine

app = typer.Typer(add_completion=False)


@app.command()
def handoffs(
    config: ConfigOption = None,
    *,
    json: JsonOption = False,
    only_open: OpenOption = False,
    limit: LimitOption = 50,
) -> None:
    """List hand-offs, the newest first. Their texts are not shown."""
    from openab.storage.handoff_listing import list_handoffs

    address = chosen_database(config)
    lines = run(list_handoffs(address.url, only_open=only_open, limit=limit))
    headings = (
        "when", "account", "", "other bot", "state", "reason", "conversation", "message", "turn",
        "event", "expires",
    )  # fmt: skip
    print_listing(lines, headings, _cells, json=json)


def _cells(line: "HandoffLine") -> tuple[str, ...]:
    return (
        moment(line.at),
        line.account,
        "to" if line.direction == "out" else "from",
        line.peer_id,
        line.state,
        line.reason or "",
        line.conversation_id,
        line.message_id or "",
        line.turn_id or "",
        line.event_id or "",
        moment(line.expires_at),
    )
