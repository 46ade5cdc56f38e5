"""What the listings have in common: their options, and a table or JSON lines."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from openab.cli.printing import print_lines, print_table

if TYPE_CHECKING:
    from openab.storage.inspection import DeliveryLine

Line = TypeVar("Line")
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
OpenOption = Annotated[bool, typer.Option("--open", help="Only what is not over.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]


def delivery_words(line: "DeliveryLine") -> str:
    """What a delivery is: `edit final 2`, `create notice`, `thread`."""
    words = dict.fromkeys((line.kind, line.purpose, str(line.part or "")))
    return " ".join(filter(None, words))


def print_listing(
    lines: Sequence[Line],
    headings: Sequence[str],
    cells: Callable[[Line], Sequence[str]],
    *,
    json: bool,
) -> None:
    """Print what was read; the database is closed by now."""
    if json:
        print_lines(lines)
    elif lines:
        print_table(headings, map(cells, lines))
    else:
        typer.echo("none", err=True)
