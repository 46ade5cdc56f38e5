"""What `openab why` tells of a spawn: who gave the task, how far it is, and where its answer went."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from openab.app.diagnosis.remedies import spawn_remedies
from openab.cli.printing import moment, safe
from openab.storage.spawn_stories import SpawnStory


def told_spawn(spawn: SpawnStory) -> Iterator[str]:
    """One line each, with what can be done."""
    reason = f" ({spawn.reason})" if spawn.reason else ""
    yield safe(f"spawn {spawn.id}: sub-agent {spawn.agent}, {spawn.state}{reason}")
    by = f"turn {spawn.parent_turn}" if spawn.parent_turn else "a command"
    yield safe(
        f"  asked for in {spawn.conversation_id} by {by}, for {spawn.requester_name} "
        f"({spawn.requester_id}), {moment(spawn.created_at)} UTC"
    )
    if spawn.starter_state:
        yield f"  its first message: {spawn.starter_state}"
    if spawn.thread_id:
        yield safe(f"  its thread {spawn.thread_id}, session {spawn.session_key}")
    if spawn.turn_id:
        outcome = f", outcome {spawn.turn_outcome}" if spawn.turn_outcome else ""
        yield f"  its turn {spawn.turn_id}: {spawn.turn_state or 'forgotten'}{outcome}"
    yield from _completion(spawn)
    yield from (f"  to do: {each}" for each in spawn_remedies(spawn))


def _completion(spawn: SpawnStory) -> Iterator[str]:
    if spawn.answered_in:
        yield f"  its answer went to {', '.join(spawn.answered_in)}"
    elif spawn.state == "held":
        yield "  its answer is held back"
    if spawn.settled_at and spawn.turn_id:
        told = spawn.parent_session_key or "nobody: no session had begun where it was asked for"
        yield safe(f"  its end, {moment(spawn.settled_at)} UTC, is told to {told}")


def spawn_record(spawn: SpawnStory) -> dict[str, Any]:
    """The same for machines."""
    return {**asdict(spawn), "remedies": spawn_remedies(spawn)}
