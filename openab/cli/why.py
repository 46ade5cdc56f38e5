"""`openab why`: what became of a message, told from the database."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openab.cli.database import FAILED, UNUSABLE, ConfigOption, chosen_database, fail, run
from openab.cli.listing import JsonOption, delivery_words
from openab.cli.printing import as_json, moment, safe

if TYPE_CHECKING:
    from openab.storage.inbox import Entry
    from openab.storage.inspection import DeliveryLine, Findings, LogLine, Sighting, TurnStory

app = typer.Typer(add_completion=False)
_UNKNOWN = (
    "unknown: no account in this database has seen it. Either no openab was connected and allowed "
    "to see the channel when it was written, or another database is in use, or it has been "
    "forgotten since. openab doctor tells what the bot may see."
)


@app.command()
def why(
    message: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE_LINK", help="A message's link, or its bare id, or a spawn's id."
        ),
    ],
    config: ConfigOption = None,
    *,
    json: JsonOption = False,
) -> None:
    """What became of a message: disposition, reason, turn, deliveries, spawn, remedy. Exit 1: never seen."""
    from openab.app.diagnosis.links import message_id, row_id
    from openab.storage.inspection import find_message

    identity = message_id(message) or row_id(message)
    if identity is None:
        wanted = "give https://discord.com/channels/SERVER/CHANNEL/MESSAGE, or its or a spawn's id"
        fail(f"{safe(message)} is no message link ({wanted})", UNUSABLE)
    found = run(find_message(chosen_database(config).url, identity))
    if json:
        typer.echo(as_json(_record(identity, found)))
    else:
        typer.echo("\n".join(_told(identity, found)))
    if not _is_known(found):
        raise typer.Exit(FAILED)


def _is_known(found: "Findings") -> bool:
    return bool(found.sightings or found.own or found.spawns)


def _told(identity: str, found: "Findings") -> Iterator[str]:
    from openab.cli.why_spawns import told_spawn

    is_message = found.own or found.sightings or not found.spawns
    yield f"{'message' if is_message else 'spawn'} {identity}"
    if found.own is not None:
        yield "  openab sent it itself:"
        yield f"    {_delivery(found.own)}"
        yield from _story(found.own_story)
    for sighting in found.sightings:
        yield from _sighting(sighting)
    for spawn in found.spawns:
        yield from (f"  {line}" for line in told_spawn(spawn))
    if not _is_known(found):
        yield f"  {_UNKNOWN}"


def _sighting(sighting: "Sighting") -> Iterator[str]:
    entry = sighting.entry
    reaction = f", reaction of {entry.author_id}" if entry.kind == "reaction" else ""
    yield f"  account {entry.account}{reaction}, seen {moment(entry.seen_at)} UTC"
    yield f"    {entry.disposition.value}: {_reason(entry)}"
    yield from _story(sighting.story)


def _reason(entry: "Entry") -> str:
    from openab.domain.gates import in_words

    told = in_words(entry.disposition, entry.reason)
    return f"{told} ({entry.reason})" if told else safe(entry.reason)


def _story(story: "TurnStory | None") -> Iterator[str]:
    from openab.app.diagnosis.remedies import turn_remedies

    if story is None:
        return
    turn = story.turn
    outcome = f", outcome {turn.outcome}" if turn.outcome else ""
    yield f"    turn {turn.id}: {turn.state}{outcome}, attempt {turn.attempt}"
    if turn.cancel_requested_at:
        yield f"      cancel asked for at {moment(turn.cancel_requested_at)}"
    if turn.error:
        yield f"      error: {safe(_error(turn.error))}"
    yield from (f"      {_log_line(each)}" for each in story.log)
    yield from (f"      {_delivery(each)}" for each in story.deliveries)
    yield from (f"    to do: {each}" for each in turn_remedies(story))


def _error(error: Any) -> str:
    told = ": ".join(str(error[key]) for key in ("kind", "message") if error.get(key))
    tail = str(error.get("stderr_tail") or "").strip().splitlines()
    return f"{told} (it wrote last: {tail[-1]})" if tail else told


def _log_line(line: "LogLine") -> str:
    detail = ", ".join(f"{key} {value}" for key, value in line.detail.items())
    return safe(f"{moment(line.at)} {line.event}{f' ({detail})' if detail else ''}")


def _delivery(line: "DeliveryLine") -> str:
    told = f"delivery {line.id}: {delivery_words(line)}, {line.state}"
    if line.is_gone:
        told += ", deleted since by somebody"
    if line.dead_reason:
        told += f" ({': '.join(filter(None, (line.dead_reason, line.dead_detail)))})"
    if line.platform_id:
        told += f", message {line.platform_id}"
    return safe(told)


def _record(identity: str, found: "Findings") -> dict[str, Any]:
    from openab.cli.why_spawns import spawn_record

    return {
        "message_id": identity,
        "accounts": [_sighting_record(each) for each in found.sightings],
        "own_delivery": found.own,
        "own_turn": _story_record(found.own_story),
        "spawns": [spawn_record(each) for each in found.spawns],
    }


def _sighting_record(sighting: "Sighting") -> dict[str, Any]:
    from openab.domain.gates import in_words

    entry = sighting.entry
    return {
        "account": entry.account,
        "kind": entry.kind,
        "author_id": entry.author_id,
        "seen_at": entry.seen_at,
        "disposition": entry.disposition,
        "reason": entry.reason,
        "reason_in_words": in_words(entry.disposition, entry.reason),
        "turn": _story_record(sighting.story),
    }


def _story_record(story: "TurnStory | None") -> dict[str, Any] | None:
    from dataclasses import asdict

    from openab.app.diagnosis.remedies import turn_remedies

    if story is None:
        return None
    return {
        **asdict(story.turn),
        "log": story.log,
        "deliveries": story.deliveries,
        "remedies": turn_remedies(story),
    }
