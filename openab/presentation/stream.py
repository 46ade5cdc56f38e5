"""Shows a running turn: one task per turn folds, paces, renders and edits the placeholder."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import structlog

from openab.domain.agent_events import AgentEvent, SessionChanged, TextDelta, Thought, UsageChanged
from openab.domain.ids import ConversationRef, MessageRef, PlatformId, TurnId
from openab.domain.outbound import MessageBody, presentation_body
from openab.domain.window import Window
from openab.ports.feed import Phase, Shown, TurnOpening
from openab.ports.tasks import end, spawn
from openab.ports.writer import EditOutcome, LiveWriter
from openab.presentation.pacing import Budget, Marks, Pace, after_edit, next_edit
from openab.presentation.reactions import ReactionWatch
from openab.presentation.render import live_text
from openab.presentation.settings import FINAL, STREAM, PresentationSettings
from openab.presentation.status import Moment
from openab.presentation.transcript import begun
from openab.text.buttons import stop_button

__all__ = ["PresentationSettings", "Stream", "Streams"]

log = structlog.get_logger()

Clock = Callable[[], float]
ReactionSink = Callable[[TurnId, str], None]


def no_reactions(turn: TurnId, emoji: str) -> None:
    """Where nobody shows reactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a stream is given by whoever opens it."""

    writer: LiveWriter
    settings: PresentationSettings
    clock: Clock
    budget: Budget
    #: How many turns of the account are shown now.
    running: Callable[[], int]
    reaction: ReactionSink
    closed: Callable[["Stream"], None]


class Stream:
    """A TurnFeed. Its task lives from `start` to `close` and makes one edit at a time, of the newest state."""

    def __init__(self, opening: TurnOpening, around: Surroundings) -> None:
        self._opening = opening
        self._around = around
        self._mode = opening.mode
        self._pace = Pace(around.settings.edit_interval, around.settings.heartbeat)
        now = around.clock()
        self._opened_at = self._heard_at = now
        self._marks = Marks(now, now)
        self._window = Window()
        self._view = begun(opening.said, opening.tools)
        self._phase, self._detail = Phase.STARTING, ""
        self._sub_agents: tuple[str, ...] = ()
        self._reactions = ReactionWatch(around.settings.emojis, around.settings.timing)
        self._placeholder: MessageRef | None = None
        self._shown_body: MessageBody | None = None
        self._is_changed = self._is_lost = self._is_unknown = False
        #: Edits were refused, and none has been shown since: the next placeholder may fare no better.
        self._is_doubted = False
        self._closing = asyncio.Event()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; `close` ends what this began."""
        self._task = spawn(f"stream {self._opening.turn}", self._run())

    # ------------------------------------------------------------------ TurnFeed

    def event(self, event: AgentEvent) -> None:
        """Something was reported by the agent."""
        if self._closing.is_set():
            return
        now = self._around.clock()
        activity, was_stalled = self._activity(), self._reactions.is_stalled(self._heard_at, now)
        self._heard_at = now
        try:
            self._view.apply(event)
        except Exception:
            log.exception("presentation_failed", turn_id=self._opening.turn)
            return
        has_moved = was_stalled or activity != self._activity()
        if has_moved or not isinstance(event, Thought | TextDelta):
            self._wake.set()
        if has_moved or self._shows(event):
            self._note_change()

    def phase(self, phase: Phase, detail: str = "") -> None:
        """The turn is in this phase now."""
        if (phase, detail) != (self._phase, self._detail):
            self._phase, self._detail = phase, detail
            self._note_change()
            self._wake.set()

    def sub_agents(self, names: tuple[str, ...]) -> None:
        """These sub-agents work for the turn's session now."""
        if names != self._sub_agents:
            self._sub_agents = names
            self._note_change()

    def placeholder(self, message_id: PlatformId) -> None:
        """The placeholder (another one after a replacement) is on the network with this id."""
        now = self._around.clock()
        ref = MessageRef(self._opening.conversation.conversation_id, message_id)
        if ref != self._placeholder:
            self._placeholder, self._is_lost, self._shown_body = ref, False, None
            self._marks = Marks(now, now)
            self._is_changed = True
            self._wake.set()

    async def close(self, seconds: float) -> Shown:
        """Stop showing; waits up to `seconds` for the call in flight. Twice answers the same.

        An edit that is still out after that counts as unknown: it may land whenever it likes.
        """
        self._closing.set()
        self._wake.set()
        if self._task:
            await asyncio.wait([self._task], timeout=seconds)
            await end(self._task)
        self._around.closed(self)
        return Shown(edit_unknown=self._is_unknown, placeholder_lost=self._is_doubted)

    # ------------------------------------------------------------------ the task

    async def _run(self) -> None:
        try:
            while not self._closing.is_set():
                await self._step()
        except Exception:
            log.exception("presentation_failed", turn_id=self._opening.turn)

    async def _step(self) -> None:
        self._wake.clear()
        self._react()
        now, edit_due = self._around.clock(), self._edit_due()
        if edit_due is not None and edit_due <= now:
            await self._edit()
            return
        look_due = self._reactions.next_look(self._view, self._heard_at, now)
        await self._wait(edit_due, look_due)

    def _react(self) -> None:
        now = self._around.clock()
        emoji = self._reactions.look(self._view, self._phase, self._heard_at, now)
        if emoji is not None:
            self._around.reaction(self._opening.turn, emoji)

    async def _wait(self, *moments: float | None) -> None:
        """Until one of the moments or a sign that something changed."""
        due = min((moment for moment in moments if moment is not None), default=None)
        seconds = None if due is None else max(0.0, due - self._around.clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    # ------------------------------------------------------------------ editing

    def _activity(self) -> tuple[bool, bool]:
        return self._view.is_thinking, self._view.is_writing

    def _shows(self, event: AgentEvent) -> bool:
        if isinstance(event, TextDelta):
            return self._mode == STREAM and event.text != ""
        return not isinstance(event, Thought | UsageChanged | SessionChanged)

    def _note_change(self) -> None:
        # A stream that waits for its interval already is not woken by every delta.
        if not self._is_changed:
            self._is_changed = True
            self._wake.set()

    def _edit_due(self) -> float | None:
        if self._mode == FINAL or self._is_lost or not self._placeholder or self._view.ended:
            return None
        return next_edit(
            self._pace,
            self._marks,
            is_changed=self._is_changed,
            share=self._around.budget.share(self._around.running()),
            window_free=self._window.free_at(),
        )

    async def _edit(self) -> None:
        await self._slot()
        ref, body = self._placeholder, self._body()
        if self._closing.is_set() or self._view.ended or ref is None:
            return
        sent, self._is_changed = self._around.clock(), False
        if body == self._shown_body:
            self._marks = replace(self._marks, sent_at=sent)
            return
        self._window.note(sent)
        outcome = await self._send(ref, body)
        self._settle(ref, body, outcome, sent)

    async def _slot(self) -> None:
        slot = self._around.budget.reserve(self._around.clock())
        while not self._closing.is_set() and self._around.clock() < slot:
            self._wake.clear()
            await self._wait(slot)

    async def _send(self, ref: MessageRef, body: MessageBody) -> EditOutcome:
        try:
            return await self._around.writer.edit(ref, body, self._closing)
        except asyncio.CancelledError:
            self._is_unknown = True
            raise

    def _settle(
        self, ref: MessageRef, body: MessageBody, outcome: EditOutcome, sent: float
    ) -> None:
        now = self._around.clock()
        self._is_unknown = self._is_unknown or outcome is EditOutcome.UNKNOWN
        if ref != self._placeholder:
            return
        self._marks = after_edit(self._pace, self._marks, outcome, sent, now)
        if outcome is EditOutcome.SHOWN:
            self._shown_body, self._is_doubted = body, False
            return
        self._is_changed = True
        self._shown_body = None
        if outcome is EditOutcome.LOST:
            self._is_lost = self._is_doubted = True
            log.warning("presentation_failed", turn_id=self._opening.turn, outcome=outcome.value)
            self._opening.on_lost()

    def _body(self) -> MessageBody:
        text = live_text(
            self._view,
            self._moment(),
            self._around.settings.tool_display,
            with_answer=self._mode == STREAM,
        )
        return presentation_body(text, (stop_button(self._opening.turn),))

    def _moment(self) -> Moment:
        now = self._around.clock()
        return Moment(
            phase=self._phase,
            detail=self._detail,
            agent_name=self._opening.agent_name,
            elapsed_seconds=self._opening.elapsed_seconds + now - self._opened_at,
            quiet_seconds=now - self._heard_at,
            sub_agents=self._sub_agents,
        )


class Streams:
    """A FeedSource: opens a stream per turn and shares the account's budget among them."""

    def __init__(
        self,
        writer: Callable[[ConversationRef], LiveWriter],
        settings: PresentationSettings,
        *,
        clock: Clock = time.monotonic,
        budget: Budget | None = None,
        reaction: ReactionSink = no_reactions,
    ) -> None:
        #: Replace it to change what later turns get.
        self.settings = settings
        self.budget = budget or Budget()
        self._writer = writer
        self._clock = clock
        self._reaction = reaction
        self._open: set[Stream] = set()

    def open(self, opening: TurnOpening) -> Stream:
        """Begin to show a turn; its task ends with the feed's `close`."""
        around = Surroundings(
            writer=self._writer(opening.conversation),
            settings=self.settings,
            clock=self._clock,
            budget=self.budget,
            running=partial(len, self._open),
            reaction=self._reaction,
            closed=self._open.discard,
        )
        stream = Stream(opening, around)
        self._open.add(stream)
        stream.start()
        return stream

    async def close(self, seconds: float) -> None:
        """Close every stream that is still open, all within the same deadline."""
        await asyncio.gather(*(stream.close(seconds) for stream in tuple(self._open)))
