"""`openab bindings`: which conversation talks to which session, and the sub-agents that are at work."""

from typing import TYPE_CHECKING

import typer

from openab.cli.database import ConfigOption, chosen_database, run
from openab.cli.listing import JsonOption, LimitOption, OpenOption, print_listing
from openab.cli.printing import moment, print_table

if TYPE_CHECKING:
    from openab.storage.binding_listing import BindingLine, SpawnLine

app = typer.Typer(add_completion=False)
_HEADINGS = (
    "conversation", "session", "agent", "kind", "state", "bound by", "since", "last used", "ends",
    "why",
)  # fmt: skip
_SPAWN_HEADINGS = ("sub-agent", "state", "given by", "in conversation", "for", "session", "age")


@app.command()
def bindings(
    config: ConfigOption = None,
    *,
    json: JsonOption = False,
    only_open: OpenOption = False,
    limit: LimitOption = 50,
) -> None:
    """List bindings, the newest first, and the tasks of sub-agents that are not over."""
    from openab.storage.binding_listing import list_bindings

    address = chosen_database(config)
    found = run(list_bindings(address.url, only_open=only_open, limit=limit))
    if json:
        print_listing((*found.bindings, *found.spawns), (), lambda _: (), json=True)
        return
    if found.bindings or not found.spawns:
        print_listing(found.bindings, _HEADINGS, _cells, json=False)
    if found.spawns:
        print_table(_SPAWN_HEADINGS, map(_spawn_cells, found.spawns))


def _cells(line: "BindingLine") -> tuple[str, ...]:
    ends = f"{moment(line.ends_at)} ({line.ends_by})" if line.ends_at else ""
    return (
        line.conversation_id,
        line.session_key,
        line.agent,
        line.kind,
        line.state,
        line.bound_by or "openab",
        moment(line.bound_at),
        moment(line.last_activity_at),
        ends or moment(line.ended_at),
        line.end_reason or "",
    )


def _spawn_cells(line: "SpawnLine") -> tuple[str, ...]:
    return (
        line.agent,
        line.state,
        line.parent_session_key or "a person",
        line.conversation_id,
        line.requester_name or line.requester_id,
        line.session_key or "",
        _age(line.age_seconds),
    )


def _age(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
