"""`openab sessions`: which agent remembers which conversation."""

from typing import TYPE_CHECKING

import typer

from openab.cli.database import ConfigOption, chosen_database, run
from openab.cli.listing import JsonOption, LimitOption, OpenOption, print_listing
from openab.cli.printing import moment

if TYPE_CHECKING:
    from openab.storage.inspection import SessionLine

app = typer.Typer(add_completion=False)


@app.command()
def sessions(
    config: ConfigOption = None,
    *,
    json: JsonOption = False,
    only_open: OpenOption = False,
    limit: LimitOption = 50,
) -> None:
    """List sessions, the last used first. --open: those with a turn that is not over."""
    from openab.storage.inspection import list_sessions

    address = chosen_database(config)
    lines = run(list_sessions(address.url, only_open=only_open, limit=limit))
    headings = (
        "session", "agent", "working dir", "agent's session", "open turns", "bound to", "last used",
    )  # fmt: skip
    print_listing(lines, headings, _cells, json=json)


def _cells(line: "SessionLine") -> tuple[str, ...]:
    return (
        line.session_key,
        line.agent,
        line.working_dir,
        line.acp_session_id or "",
        str(line.open_turns),
        ", ".join(line.bound_to),
        moment(line.last_activity_at),
    )
