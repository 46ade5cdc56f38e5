"""Runs one turn from claim to outcome."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from openab.control.agent_run import AgentRun
from openab.control.answers import delivered_answer, with_tables
from openab.control.completions import hold_places
from openab.control.left_behind import LeftBehind, left_behind
from openab.control.outcome import Run, finish, prepared, redacted, trouble
from openab.control.persist import persist
from openab.control.services import Services
from openab.control.shortening import Shortening
from openab.control.spawning import hold_for_spawn
from openab.control.stream_log import StreamRecord
from openab.control.turn_placeholder import TurnPlaceholder
from openab.domain.agent_events import EndKind, PromptEnded, UsageChanged
from openab.domain.errors import OpenabError
from openab.domain.ids import PlatformId, TurnId
from openab.domain.options import Option
from openab.domain.turn import Claimed, TurnState
from openab.ports.feed import Phase, TurnFeed, TurnOpening
from openab.ports.tasks import end, spawn
from openab.storage import conversations, sessions, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.engine import Transaction
from openab.storage.sessions import Session
from openab.storage.turns import Turn
from openab.text.continuation import over_attempts
from openab.text.output import Intent, body_of, intent_of

log = structlog.get_logger()
#: The words of the turn's own log.
_ENDED = {
    "completed": "turn_completed",
    "failed": "turn_failed",
    "cancelled": "turn_cancelled",
}


class TurnRunner:
    """One run; its owner starts `run` as a task and cancels it when the lease is lost."""

    def __init__(
        self,
        services: Services,
        where: Conversation,
        ownership: Ownership,
        turn: Turn,
        *,
        is_recovered: bool = False,
        on_lost: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        """`wake` tells the owner that rows are owed; `on_lost` that the lease is gone.

        `is_recovered`: an earlier run of the turn was lost, and it was decided that it is run again.
        """
        self._services = services
        self._where = where
        self._ownership = ownership
        self._turn = turn
        self._is_recovered = is_recovered
        #: What earlier attempts left, and how that is told; read when the turn is claimed.
        self._earlier = LeftBehind()
        self._said = ""
        self._intent = Intent()
        self._elapsed = 0.0
        self._on_lost = on_lost
        self._wake = wake
        self._cancelled = asyncio.Event()
        #: The agent has been prompted, or is not going to be.
        self.under_way = asyncio.Event()
        self._agent: AgentRun | None = None
        self._feed: TurnFeed | None = None
        self._placeholder = TurnPlaceholder(services, ownership, is_recovered=is_recovered)
        #: How much of the turn is shown; decided when it is claimed.
        self._mode = "final"

    @property
    def turn_id(self) -> TurnId:
        """Which turn this run is of."""
        return self._turn.id

    def placeholder(self, message_id: PlatformId) -> None:
        """The turn's live message, the first or a later one, is on the network now."""
        self._placeholder.appeared(message_id)
        if self._feed:
            self._feed.placeholder(message_id)

    def sub_agents(self, names: tuple[str, ...]) -> None:
        """These sub-agents work for the turn's session now; whoever watches it is told."""
        if self._feed:
            self._feed.sub_agents(names)

    @property
    def needs_placeholder(self) -> bool:
        """Whether the live message is lost, or the network is soon going to limit edits of it."""
        return self._placeholder.needs_successor

    async def renew_placeholder(self) -> None:
        """Owe another live message; when it is on the network, the old one is retired."""
        await self._placeholder.renew(self._turn.id)
        self._services.signals.tell("placeholder_renewed")

    def _lose_placeholder(self) -> None:
        self._placeholder.is_lost = True
        self._wake()

    def cancel(self) -> None:
        """Somebody wants the turn to stop; twice is harmless."""
        self._cancelled.set()

    async def answer(self, number: int, choice: int) -> bool:
        """Pass the answer to a permission question on; False: it is not open any more."""
        return await self._agent.answer(number, choice) if self._agent else False

    async def run(self) -> None:
        """Run it. Cancelling this task ends the agent and leaves the turn `running`, for recovery."""
        session = await self._claimed()
        if session is None:
            log.info("turn_taken_back", turn_id=self._turn.id)
            return
        self._services.signals.tell("turn_claimed")
        log.info("turn_started", turn_id=self._turn.id, session=session.key)
        if not self._is_recovered:
            self._services.counters.turn_started()
        self._wake()
        started = self._services.clock()
        prompt_end = await self._follow(session)
        seconds = self._services.clock() - started
        self._services.counters.turn_ended(prompt_end.kind.value, seconds)
        if prompt_end.failure:
            word, kind = trouble(prompt_end.failure), prompt_end.failure.kind.value
            log.warning(word, turn_id=self._turn.id, kind=kind)
        log.info(_ENDED[prompt_end.kind.value], turn_id=self._turn.id, seconds=seconds)

    async def _follow(self, session: Session) -> PromptEnded:
        record = self._services.stream_log.open(
            self._turn.id, self._ownership, self._on_lost, self._turn.attempt, self._earlier
        )
        record.keep_usage_of(session)
        feed = self._open_feed(session)
        agent = AgentRun(
            self._services,
            self._ownership,
            self._turn,
            session,
            self._where,
            self._cancelled,
            self._earlier,
            self.under_way,
        )
        self._agent = agent
        try:
            prompt_end = await agent.work(record, feed)
            if prompt_end.kind is EndKind.COMPLETED:
                prompt_end = await self._intend(agent, record, feed, prompt_end)
            feed.event(prompt_end)
        except BaseException:
            await self._abandon(agent, record, feed)
            raise
        try:
            await self._end(agent, record, feed, prompt_end)
        except OpenabError:
            await agent.close()
            raise
        return prompt_end

    async def _intend(
        self, agent: AgentRun, record: StreamRecord, feed: TurnFeed, completed: PromptEnded
    ) -> PromptEnded:
        """Read what the complete output asks for; a hand-off that is too large is asked for once more."""
        earlier = self._earlier.parts(self._turn.attempt - 1)
        intent = intent_of([*earlier, record.answer.text])
        question = Shortening(self._services, self._ownership, self._where, self._turn)
        self._intent, ended = await question.of(intent, completed, agent, record, feed)
        return ended

    async def _claimed(self) -> Session | None:
        try:
            return await persist("turn claim", self._claim)
        except _WorksElsewhere:
            return None

    async def _claim(self) -> Session | None:
        """Close the batch, raise the session's epoch and owe the placeholder; then only, prompt.

        None: the turn was cancelled meanwhile. A claim whose commit was in doubt is done again.
        """
        services, settings = self._services, self._services.settings
        async with services.database.transaction() as tx:
            where = await conversations.lock(tx, self._ownership)
            turn = await turns.locked(tx, self._turn.id)
            if turn is None or turn.state not in {TurnState.QUEUED, TurnState.RUNNING}:
                return None
            session = await sessions.take(tx, turn.session_key, services.agents.incarnation)
            if await turns.is_running_elsewhere(tx, turn):
                # Whoever works with the session keeps it: the epoch is not raised after all.
                raise _WorksElsewhere
            if turn.state is TurnState.QUEUED:
                turn = await self._record_claim(tx, turn)
            self._turn = turn
            if self._is_recovered:
                await self._take_up(tx)
            self._mode = settings.mode(where.ref, where.has_other_bot)
            await self._placeholder.ensure(tx, where, self._turn, self._mode)
            self._where = where
        return session

    async def _take_up(self, tx: Transaction) -> None:
        """What earlier attempts left stays, and people are shown it further on."""
        turn = self._turn
        self._earlier = await left_behind(tx, turn)
        self._elapsed = (await tx.now() - (turn.started_at or turn.created_at)).total_seconds()
        if turn.attempt > 1:
            self._said = over_attempts([*map(body_of, self._earlier.parts(turn.attempt - 1)), ""])

    async def _record_claim(self, tx: Transaction, turn: Turn) -> Turn:
        """The locked turn as it is from now on."""
        incarnation, now = self._services.agents.incarnation, await tx.now()
        state = await turns.record(
            tx, turn, Claimed(), started_at=now, attempt=1, step=1, incarnation=incarnation
        )
        return replace(
            turn, state=state, started_at=now, attempt=1, step=1, incarnation=incarnation
        )

    def _open_feed(self, session: Session) -> TurnFeed:
        feed = self._services.feeds.open(
            TurnOpening(
                turn=self._turn.id,
                conversation=self._where.ref,
                trigger=self._turn.trigger,
                agent_name=session.agent,
                on_lost=self._lose_placeholder,
                mode=self._mode,
                elapsed_seconds=self._elapsed,
                said=self._said,
                tools=self._earlier.tools,
            )
        )
        self._feed = feed
        feed.phase(Phase.RECOVERING if self._is_recovered else Phase.STARTING)
        if self._placeholder.message_id:
            feed.placeholder(self._placeholder.message_id)
        return feed

    async def _end(
        self, agent: AgentRun, record: StreamRecord, feed: TurnFeed, prompt_end: PromptEnded
    ) -> None:
        """Shielded, so that a stop between the agent's end and its record loses nothing it can keep."""
        closing = spawn(f"end {self._turn.id}", self._record_end(agent, record, feed, prompt_end))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await self._end_soon(closing)
            raise

    async def _end_soon(self, closing: "asyncio.Task[None]") -> None:
        """A stopping process waits a while for the outcome; without a database it waits in vain."""
        await asyncio.wait({closing}, timeout=2 * self._services.settings.call.total_seconds())
        if not closing.done():
            log.warning("outcome_left_to_recovery", turn_id=self._turn.id)
        await end(closing)

    async def _record_end(
        self, agent: AgentRun, record: StreamRecord, feed: TurnFeed, prompt_end: PromptEnded
    ) -> None:
        shown = await feed.close(self._services.settings.call.total_seconds())
        if self._is_recovered:
            # An edit of the former owner may still land, whenever it likes.
            shown = replace(shown, edit_unknown=True)
        await self._services.stream_log.close(record)
        replies = self._services.settings.replies()
        run = Run(
            raw=record.raw,
            answer=await delivered_answer(record.answer, self._mode, replies),
            tools=record.tools,
            end=redacted(prompt_end, self._services.settings.redact),
            shown=shown,
            preface=agent.preface,
            earlier=await with_tables(self._said, replies) if self._said else "",
            intent=self._intent,
        )
        # With what is known of a cancellation now.
        turn = await persist("outcome", self._as_it_is)
        run = await prepared(self._services.settings, turn, run)
        known = agent.known_options
        # Whoever failed without a sign may have been asked in vain.
        has_heard = prompt_end.kind is not EndKind.FAILED or record.has_heard
        await persist(
            "outcome",
            lambda: self._commit_end(run, agent, record.usage, known, has_heard=has_heard),
        )
        if record.position:
            await self._services.agents.ack(self._turn.id, record.position, outcome=True)
        self._services.signals.tell("turn_answered")
        self._wake()

    async def _as_it_is(self) -> Turn:
        async with self._services.database.read() as tx:
            return await _reread(tx, self._turn)

    async def _commit_end(
        self,
        run: Run,
        agent: AgentRun,
        usage: UsageChanged | None,
        known: tuple[Option, ...],
        *,
        has_heard: bool,
    ) -> None:
        """Store it, unless it is stored already."""
        async with self._services.database.transaction() as tx:
            await hold_places(tx, self._turn)
            if self._intent.sub_agent:
                await hold_for_spawn(tx, self._where)
            where = await conversations.lock(tx, self._ownership)
            turn = await _reread(tx, self._turn)
            if turn.state is not TurnState.RUNNING:
                return
            is_kept = await agent.keep(tx, usage, known, has_heard=has_heard)
            if not is_kept and turn.cancel_requested_at:
                # A reset ends the agent, too: whatever that looked like, the turn was cancelled.
                run = replace(run, end=PromptEnded(EndKind.CANCELLED))
            await finish(tx, self._services.settings, where, turn, run)

    async def _abandon(self, agent: AgentRun, record: StreamRecord, feed: TurnFeed) -> None:
        """The lease or the process ends: show nothing more, and stop the agent that nobody follows."""
        await feed.close(0)
        await self._services.stream_log.flush()
        await self._services.stream_log.close(record)
        await agent.close()


class _WorksElsewhere(OpenabError):
    """The session runs a turn of another conversation that is bound to it."""


async def _reread(tx: Transaction, turn: Turn) -> Turn:
    fresh = await turns.get(tx, turn.id)
    assert fresh is not None
    return fresh
