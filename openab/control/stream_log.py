"""Commits what all running turns streamed, in one transaction every quarter of a second."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog

from openab.control.left_behind import LeftBehind, written_calls
from openab.control.persist import Waits
from openab.domain.agent_events import Numbered, Position, TextDelta, UsageChanged
from openab.domain.errors import OpenabError, Transient, Unknown
from openab.domain.ids import TurnId
from openab.ports.agent import Agents
from openab.ports.signals import Signals
from openab.storage import conversations, sessions, streams
from openab.storage import turns as turn_rows
from openab.storage.conversations import Ownership
from openab.storage.engine import Database, Transaction
from openab.storage.sessions import Session
from openab.storage.streams import Progress, Segment
from openab.text.answer import AnswerFold
from openab.text.tools import ToolCall, ToolFold

log = structlog.get_logger()
#: How often a turn that goes on says so in its log.
_PROGRESS_EVERY = timedelta(seconds=60)


class StreamRecord:
    """One running turn's stream: what is known of it, and what is not committed yet."""

    def __init__(
        self,
        turn: TurnId,
        ownership: Ownership,
        on_lost: Callable[[], None],
        attempt: int = 1,
        earlier: LeftBehind | None = None,
    ) -> None:
        """`on_lost` is called when a commit shows that the conversation has another owner.

        `earlier` is what the attempts before this one left; it stays, and what comes is put behind it.
        """
        self.turn = turn
        self.ownership = ownership
        self.on_lost = on_lost
        #: What this attempt says.
        self.answer = AnswerFold()
        self.phase = "starting"
        self.position: Position | None = None
        #: When its log was last told how far it is, by the database's clock.
        self.told_at: datetime | None = None
        #: What the agent last said it has used, and what of that is committed.
        self.usage: UsageChanged | None = None
        self.kept_usage: UsageChanged | None = None
        self.session: Session | None = None
        before = earlier or LeftBehind()
        self._attempt = attempt
        self._raw = [before.raw] if before.segments else []
        self._tools = ToolFold(before.tools)
        self._segments: list[Segment] = []
        self._next_segment = before.last_segment + 1
        #: Whatever this attempt says first is another message than what was said before it.
        self._is_apart = bool(before.segments)
        self._is_dirty = False

    @property
    def raw(self) -> str:
        """The agent's text, exactly as it came, of all attempts."""
        return "".join(self._raw)

    @property
    def tools(self) -> tuple[ToolCall, ...]:
        """The tool calls so far, with their last state."""
        return self._tools.calls

    @property
    def has_heard(self) -> bool:
        """Whether the agent has shown in this attempt that it got the prompt."""
        return self.position is not None and self.position.n > 1

    @property
    def is_dirty(self) -> bool:
        """Whether something is not committed yet."""
        return self._is_dirty

    def keep_usage_of(self, session: Session) -> None:
        """What the agent says it uses is kept with this session."""
        self.session = session

    def take(self, numbered: Numbered) -> None:
        """One more event of the turn."""
        event = numbered.event
        appended = self.answer.add(event)
        self._tools.add(event)
        if isinstance(event, TextDelta) and event.text:
            self._raw.append(event.text)
            self._add(event.text, is_new=self._is_apart or len(appended) > len(event.text))
            self._is_apart = False
        elif isinstance(event, UsageChanged):
            self.usage = event
        self.position = numbered.position
        self._is_dirty = True

    def take_apart(self, numbered: Numbered) -> None:
        """An event of a later step: it is no part of the answer."""
        if isinstance(numbered.event, UsageChanged):
            self.usage = numbered.event
        self.position = numbered.position
        self._is_dirty = True

    def _add(self, text: str, *, is_new: bool) -> None:
        if self._segments and not is_new:
            last = self._segments[-1]
            # Not by `replace`: this is done for every delta of every turn.
            self._segments[-1] = Segment(
                last.n, last.text + text, last.is_new_message, last.attempt
            )
        else:
            self._segments.append(Segment(self._next_segment, text, is_new, self._attempt))
            self._next_segment += 1

    def take_pending(self) -> Progress:
        """What is to be committed now; it is pending again if `give_back` says so."""
        pending = Progress(
            turn=self.turn,
            segments=tuple(self._segments),
            position=self.position.n if self.position else 0,
            tools=written_calls(self._tools.calls),
            phase=self.phase,
        )
        self._segments, self._is_dirty = [], False
        return pending

    def give_back(self, progress: Progress) -> None:
        """The commit did not happen."""
        self._segments = [*progress.segments, *self._segments]
        self._is_dirty = True


async def _log_progress(tx: Transaction, kept: Sequence[StreamRecord]) -> None:
    now = await tx.now() if kept else None
    for record in kept:
        if record.told_at and now and now - record.told_at >= _PROGRESS_EVERY:
            told = {"characters": len(record.raw), "tools": len(record.tools)}
            await turn_rows.log(tx, record.turn, "turn_progress", told)
            tx.after_commit(partial(log.info, "turn_progress", turn_id=record.turn, **told))
            record.told_at = None
        record.told_at = record.told_at or now


class StreamLog:
    """The one committer of streams in this process."""

    def __init__(
        self, database: Database, agents: Agents, every: timedelta, signals: Signals
    ) -> None:
        self._database = database
        self._agents = agents
        self._every = every.total_seconds()
        self._signals = signals
        self._records: dict[TurnId, StreamRecord] = {}
        self._lock = asyncio.Lock()

    def open(
        self,
        turn: TurnId,
        ownership: Ownership,
        on_lost: Callable[[], None],
        attempt: int = 1,
        earlier: LeftBehind | None = None,
    ) -> StreamRecord:
        """Begin to record an attempt of a turn; see `StreamRecord`."""
        record = StreamRecord(turn, ownership, on_lost, attempt, earlier)
        self._records[turn] = record
        return record

    async def close(self, record: StreamRecord) -> None:
        """Stop recording; a commit in flight has ended when this returns."""
        self._records.pop(record.turn, None)
        async with self._lock:
            return

    async def run(self) -> None:
        """Commit at the set pace until the task is cancelled."""
        waits = Waits("stream_commit_failed")
        while True:
            await asyncio.sleep(self._every)
            error = await self.flush()
            if error:
                await waits.rest(error)
            else:
                waits.over()

    async def flush(self) -> Transient | Unknown | None:
        """Commit what is pending now; a failure leaves it pending, and is returned."""
        async with self._lock:
            dirty = [record for record in self._records.values() if record.is_dirty]
            if not dirty:
                return None
            steps = {record.turn: record.take_pending() for record in dirty}
            usages = {record.turn: record.usage for record in dirty}
            try:
                kept = await self._commit(dirty, steps, usages)
            except (Transient, Unknown) as error:
                for record in dirty:
                    record.give_back(steps[record.turn])
                return error
        for record in kept:
            record.kept_usage = usages[record.turn]
        await self._acknowledge(kept, steps)
        self._signals.tell("streams_committed")
        return None

    async def _commit(
        self,
        dirty: Sequence[StreamRecord],
        steps: dict[TurnId, Progress],
        usages: dict[TurnId, UsageChanged | None],
    ) -> list[StreamRecord]:
        async with self._database.transaction() as tx:
            ours = await conversations.locked_of(tx, [record.ownership for record in dirty])
            kept = [record for record in dirty if record.ownership.conversation in ours]
            await self._write(tx, kept, steps)
            await _log_progress(tx, kept)
            for record in kept:
                usage = usages[record.turn]
                if record.session and usage and usage != record.kept_usage:
                    await sessions.note_usage(tx, record.session, usage)
        for record in dirty:
            if record not in kept:
                record.on_lost()
        return kept

    async def _write(
        self, tx: Transaction, kept: Sequence[StreamRecord], steps: dict[TurnId, Progress]
    ) -> None:
        if not kept:
            return
        try:
            async with tx.savepoint():
                await streams.advance(tx, [steps[record.turn] for record in kept])
        except (Transient, Unknown):
            raise
        except OpenabError:
            await self._write_one_by_one(tx, kept, steps)

    async def _write_one_by_one(
        self, tx: Transaction, kept: Sequence[StreamRecord], steps: dict[TurnId, Progress]
    ) -> None:
        """A row that cannot be written costs its own turn its crash copy, never the others theirs."""
        for record in kept:
            try:
                async with tx.savepoint():
                    await streams.advance(tx, [steps[record.turn]])
            except (Transient, Unknown):
                raise
            except OpenabError as error:
                log.exception("stream_row_refused", turn_id=record.turn, error=str(error))

    async def _acknowledge(
        self, kept: Sequence[StreamRecord], steps: dict[TurnId, Progress]
    ) -> None:
        for record in kept:
            if record.position:
                committed = Position(record.position.incarnation, steps[record.turn].position)
                await self._agents.ack(record.turn, committed)
