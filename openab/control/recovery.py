"""When a conversation is claimed, every open row of a former owner gets an outcome."""

from dataclasses import replace

import structlog

from openab.control.answers import with_tables
from openab.control.outcome import Run, finish
from openab.control.settings import Settings
from openab.domain.agent_events import (
    EndKind,
    PromptEnded,
    TextDelta,
    ToolChanged,
    ToolKind,
    ToolStatus,
)
from openab.domain.turn import TurnState
from openab.ports.feed import Shown
from openab.storage import conversations, streams, turns
from openab.storage.conversations import Ownership
from openab.storage.engine import Database, Transaction
from openab.storage.streams import Segment
from openab.storage.turns import Turn
from openab.text.answer import AnswerFold
from openab.text.tools import ToolFold

log = structlog.get_logger()


async def end_interrupted(database: Database, settings: Settings, ownership: Ownership) -> int:
    """End the turns that a former owner left running, with what it had committed of them.

    Its agent ended with it (embedded agents live inside their broker). Returns how many.
    """
    async with database.read() as tx:
        runs = {turn.id: await _left_behind(tx, turn) for turn in await _running(tx, ownership)}
    if not runs:
        return 0
    for turn_id, run in runs.items():
        # Whether anybody watched is not known any more, so nothing that was said is left out.
        answer = await with_tables(run.answer, settings.replies())
        runs[turn_id] = replace(run, answer=answer)
    async with database.transaction() as tx:
        where = await conversations.lock(tx, ownership)
        left = [turn for turn in await _running(tx, ownership) if turn.id in runs]
        for turn in left:
            await turns.log(tx, turn.id, "turn_recovered", {"attempt": turn.attempt})
            run = replace(runs[turn.id], end=_end(turn))
            await finish(tx, settings, where, turn, run)
    for turn in left:
        log.warning(_word(turn), turn_id=turn.id)
    return len(left)


async def _running(tx: Transaction, ownership: Ownership) -> list[Turn]:
    waiting = await turns.open_of(tx, ownership.conversation)
    return [turn for turn in waiting if turn.state is TurnState.RUNNING]


async def _left_behind(tx: Transaction, turn: Turn) -> Run:
    segments = await streams.segments_of(tx, turn.id)
    tools = ToolFold()
    for tool in await streams.tools_of(tx, turn.id):
        tools.add(_tool(tool))
    raw = "".join(segment.text for segment in segments)
    shown = Shown(edit_unknown=True)
    return Run(raw=raw, answer=_answer(segments), tools=tools.calls, end=None, shown=shown)


def _end(turn: Turn) -> PromptEnded | None:
    """Whoever asked for its end has got it; only the agent's word for it is missing."""
    return PromptEnded(EndKind.CANCELLED) if turn.cancel_requested_at else None


def _word(turn: Turn) -> str:
    return "turn_cancelled" if turn.cancel_requested_at else "turn_interrupted"


def _answer(segments: list[Segment]) -> str:
    fold = AnswerFold()
    for segment in segments:
        if segment.is_new_message:
            fold = AnswerFold(fold.text, broken=True)
        fold.add(TextDelta(segment.text))
    return fold.text


def _tool(written: dict[str, str]) -> ToolChanged:
    return ToolChanged(
        written["id"],
        written["title"],
        ToolKind(written["kind"]),
        ToolStatus(written["status"]),
        written.get("detail"),
    )
