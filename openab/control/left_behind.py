"""What the attempts of a turn left in its rows, for whoever goes on with it or ends it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openab.domain.agent_events import TextDelta, ToolKind, ToolStatus
from openab.domain.recovery import SeenCall
from openab.storage import streams
from openab.storage.engine import Transaction
from openab.storage.streams import Segment
from openab.storage.turns import Turn
from openab.text.answer import AnswerFold
from openab.text.tools import ToolCall


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """The committed part of a turn: its text by attempt, and its tool calls."""

    segments: tuple[Segment, ...] = ()
    tools: tuple[ToolCall, ...] = ()

    @property
    def raw(self) -> str:
        """The agents' text, exactly as it came."""
        return "".join(segment.text for segment in self.segments)

    @property
    def last_segment(self) -> int:
        """The number of the last piece of text; 0: there is none."""
        return self.segments[-1].n if self.segments else 0

    @property
    def seen_calls(self) -> tuple[SeenCall, ...]:
        """The calls of the last attempt; what an earlier one left unfinished was decided about then."""
        return tuple(
            SeenCall(call.kind, call.status) for call in self.tools if not call.is_interrupted
        )

    def parts(self, attempts: int) -> list[str]:
        """The answer of each of so many attempts, as people read it."""
        return [self._part(attempt) for attempt in range(1, attempts + 1)]

    def cut_off(self) -> "LeftBehind":
        """The same when the agent is lost: no call is under way any more."""
        return LeftBehind(self.segments, tuple(call.cut_off() for call in self.tools))

    def _part(self, attempt: int) -> str:
        fold = AnswerFold()
        for segment in self.segments:
            if segment.attempt != attempt:
                continue
            if segment.is_new_message:
                fold = AnswerFold(fold.text, broken=True)
            fold.add(TextDelta(segment.text))
        return fold.text


async def left_behind(tx: Transaction, turn: Turn) -> LeftBehind:
    """What was committed of a turn so far."""
    segments = await streams.segments_of(tx, turn.id)
    tools = [_read(written) for written in await streams.tools_of(tx, turn.id)]
    return LeftBehind(tuple(segments), tuple(tools))


def written_calls(calls: Sequence[ToolCall]) -> list[dict[str, object]]:
    """Tool calls as the stream's row holds them."""
    return [
        {
            "id": call.tool_id,
            "title": call.title,
            "kind": call.kind,
            "status": call.status,
            "detail": call.detail,
            "interrupted": call.is_interrupted,
        }
        for call in calls
    ]


def _read(written: Mapping[str, str]) -> ToolCall:
    return ToolCall(
        written["id"],
        written["title"],
        ToolKind(written["kind"]),
        ToolStatus(written["status"]),
        written.get("detail") or "",
        bool(written.get("interrupted")),
    )
