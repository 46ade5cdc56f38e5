"""Streams: how far a running turn is, and its raw text as it came."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.ids import AccountId, TurnId
from openab.storage.engine import Transaction
from openab.storage.schema import stream_segments, streams


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of raw text; `is_new_message`: the agent began another message with it."""

    n: int
    text: str
    is_new_message: bool = False
    #: Which attempt of the turn said it.
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """What one commit adds to a turn's stream."""

    turn: TurnId
    segments: Sequence[Segment]
    position: int
    tools: Sequence[Mapping[str, object]]
    phase: str


_ENSURE = postgresql.insert(streams).on_conflict_do_nothing()
_SEGMENT = postgresql.insert(stream_segments)
# A commit of unknown outcome is repeated with what came since, under the same numbers.
_APPEND = _SEGMENT.on_conflict_do_update(
    index_elements=["turn_id", "n"], set_={"text": _SEGMENT.excluded.text}
)
_ADVANCE = (
    sa.update(streams)
    .where(streams.c.turn_id == sa.bindparam("b_turn"))
    .values(
        position=sa.bindparam("b_position"),
        tools=sa.bindparam("b_tools"),
        phase=sa.bindparam("b_phase"),
        last_progress_at=sa.bindparam("b_at"),
        last_sign_at=sa.bindparam("b_at"),
    )
)


async def ensure(tx: Transaction, turn: TurnId, account: AccountId, phase: str) -> None:
    """A turn's stream row; doing it twice changes nothing."""
    await tx.execute(_ENSURE, {"turn_id": turn, "account": account, "phase": phase, "tools": []})


async def advance(tx: Transaction, steps: Sequence[Progress]) -> None:
    """Append the segments and move the positions of many turns at once; twice is harmless."""
    now = await tx.now()
    segments = [
        {
            "turn_id": step.turn,
            "n": segment.n,
            "text": segment.text,
            "is_new_message": segment.is_new_message,
            "attempt": segment.attempt,
        }
        for step in steps
        for segment in step.segments
    ]
    if segments:
        await tx.execute(_APPEND, segments)
    await tx.execute(
        _ADVANCE,
        [
            {
                "b_turn": step.turn,
                "b_position": step.position,
                "b_tools": list(step.tools),
                "b_phase": step.phase,
                "b_at": now,
            }
            for step in steps
        ],
    )


async def segments_of(tx: Transaction, turn: TurnId) -> list[Segment]:
    """The raw text that was committed so far, in order."""
    result = await tx.execute(
        sa.select(stream_segments)
        .where(stream_segments.c.turn_id == turn)
        .order_by(stream_segments.c.n)
    )
    return [Segment(row.n, row.text, row.is_new_message, row.attempt) for row in result]


async def tools_of(tx: Transaction, turn: TurnId) -> list[dict[str, Any]]:
    """The tool calls seen, with their last state."""
    result = await tx.execute(sa.select(streams.c.tools).where(streams.c.turn_id == turn))
    row = result.one_or_none()
    return list(row.tools) if row else []


async def begin_attempt(
    tx: Transaction, turn: TurnId, tools: Sequence[Mapping[str, object]]
) -> None:
    """Another attempt counts its events from 1; `tools`: the calls before it, with their last state."""
    await tx.execute(
        sa.update(streams)
        .where(streams.c.turn_id == turn)
        .values(position=0, phase="recovering", tools=list(tools), last_sign_at=await tx.now())
    )


async def note_phase(tx: Transaction, turn: TurnId, phase: str) -> None:
    """What a turn is at while nobody runs it."""
    await tx.execute(sa.update(streams).where(streams.c.turn_id == turn).values(phase=phase))


async def forget_text(tx: Transaction, turn: TurnId) -> None:
    """The joined text stands in the turn's row now; the segments are not needed any more."""
    await tx.execute(sa.delete(stream_segments).where(stream_segments.c.turn_id == turn))
