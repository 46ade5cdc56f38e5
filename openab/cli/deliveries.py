"""`openab deliveries`: what is or was owed to conversations."""

from typing import TYPE_CHECKING

import typer

from openab.cli.database import ConfigOption, chosen_database, run
from openab.cli.listing import JsonOption, LimitOption, OpenOption, delivery_words, print_listing
from openab.cli.printing import moment

if TYPE_CHECKING:
    from openab.storage.inspection import DeliveryLine

app = typer.Typer()


@app.command()
def deliveries(
    config: ConfigOption = None,
    *,
    json: JsonOption = False,
    only_open: OpenOption = False,
    limit: LimitOption = 50,
) -> None:
    """List deliveries, the newest first. Their texts are not shown."""
    from openab.storage.inspection import list_deliveries

    address = chosen_database(config)
    lines = run(list_deliveries(address.url, only_open=only_open, limit=limit))
    headings = (
        "delivery", "what", "state", "why dead", "tries", "conversation", "message", "turn",
        "written",
    )  # fmt: skip
    print_listing(lines, headings, _cells, json=json)


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
