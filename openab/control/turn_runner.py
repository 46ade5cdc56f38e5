"""Runs one turn from claim to outcome."""

import asyncio
from collections.abc import Callable

import structlog

from openab.control.bodies import first_placeholder
from openab.control.outcome import Run, finish
from openab.control.prompts import content, transcript_preamble
from openab.control.reception import owe_placeholder
from openab.control.retire import owe_notice, placeholders_of
from openab.control.services import Services
from openab.control.stream_log import StreamRecord
from openab.domain.agent_events import (
    AgentEvent,
    EndKind,
    HostNotice,
    PermissionAsked,
    PermissionSettled,
    PromptEnded,
)
from openab.domain.delivery import DeliveryState
from openab.domain.errors import Transient, Unknown
from openab.domain.ids import PlatformId
from openab.domain.turn import Claimed, TurnState
from openab.ports.agent import (
    AgentRefused,
    AgentSession,
    AgentUnavailable,
    Opened,
    OpenedBy,
    Prompt,
)
from openab.ports.feed import Phase, TurnFeed, TurnOpening
from openab.ports.tasks import end, spawn
from openab.storage import conversations, sessions, streams, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.engine import Transaction
from openab.storage.sessions import Session
from openab.storage.turns import Turn
from openab.text import notices

log = structlog.get_logger()
_RETRY_SECONDS = 1.0


class TurnRunner:
    """One run; its owner starts `run` as a task and cancels it when the lease is lost."""

    def __init__(
        self,
        services: Services,
        where: Conversation,
        ownership: Ownership,
        turn: Turn,
        *,
        on_lost: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        """`wake` tells the owner that rows are owed; `on_lost` that the lease is gone."""
        self._services = services
        self._where = where
        self._ownership = ownership
        self._turn = turn
        self._on_lost = on_lost
        self._wake = wake
        self._cancelled = asyncio.Event()
        self._session: AgentSession | None = None
        self._feed: TurnFeed | None = None
        self._placeholder: PlatformId | None = None
        self._preface = ""

    @property
    def turn_id(self) -> str:
        """Which turn this run is of."""
        return self._turn.id

    def placeholder(self, message_id: PlatformId) -> None:
        """The turn's live message is on the network now."""
        self._placeholder = message_id
        if self._feed:
            self._feed.placeholder(message_id)

    def cancel(self) -> None:
        """Somebody wants the turn to stop; twice is harmless."""
        self._cancelled.set()

    async def run(self) -> None:
        """Run it. Cancelling this task ends the agent and leaves the turn `running`, for recovery."""
        session = await self._claim()
        log.info("turn_started", turn_id=self._turn.id, session=session.key)
        self._services.counters.turn_started()
        started = self._services.clock()
        record = self._services.stream_log.open(self._turn.id, self._ownership, self._on_lost)
        feed = self._open_feed(session)
        try:
            prompt_end = await self._work(session, record, feed)
        except BaseException:
            await self._abandon(record, feed)
            raise
        await self._end(record, feed, prompt_end)
        seconds = self._services.clock() - started
        self._services.counters.turn_ended(prompt_end.kind.value, seconds)
        log.info("turn_ended", turn_id=self._turn.id, kind=prompt_end.kind.value, seconds=seconds)

    async def _claim(self) -> Session:
        """Close the batch, raise the session's epoch and owe the placeholder; then only, prompt."""
        services, settings = self._services, self._services.settings
        async with services.database.transaction() as tx:
            where = await conversations.lock(tx, self._ownership)
            session = await sessions.take(tx, self._turn.session_key, services.agents.incarnation)
            await turns.record(
                tx,
                self._turn,
                Claimed(),
                started_at=await tx.now(),
                attempt=1,
                step=1,
                incarnation=services.agents.incarnation,
            )
            await streams.ensure(tx, self._turn.id, self._turn.account, "starting")
            self._turn = await _reread(tx, self._turn)
            if settings.mode(where.ref, where.has_other_bot) != "final":
                await self._ensure_placeholder(tx, where)
            self._where = where
        self._services.signals.tell("turn_claimed")
        self._wake()
        return session

    async def _ensure_placeholder(self, tx: Transaction, where: Conversation) -> None:
        known = await placeholders_of(tx, self._turn)
        if known:
            sent = known[-1].state is DeliveryState.SENT
            self._placeholder = known[-1].platform_id if sent else None
            return
        body = first_placeholder(self._turn.id)
        await owe_placeholder(tx, self._services.settings, self._turn.id, where, body)

    def _open_feed(self, session: Session) -> TurnFeed:
        mode = self._services.settings.mode(self._where.ref, self._where.has_other_bot)
        feed = self._services.feeds.open(
            TurnOpening(
                turn=self._turn.id,
                conversation=self._where.ref,
                trigger=self._turn.trigger,
                agent_name=session.agent,
                mode=mode,
            )
        )
        self._feed = feed
        feed.phase(Phase.STARTING)
        if self._placeholder:
            feed.placeholder(self._placeholder)
        return feed

    async def _work(self, session: Session, record: StreamRecord, feed: TurnFeed) -> PromptEnded:
        """Everything between claim and end; an agent's failure is a way to end, not an exception."""
        services = self._services
        name = AgentSession(services.database.id, session.key, session.generation, session.epoch)
        self._session = name
        try:
            opened = await self._open(name, session)
            if opened is None:
                return PromptEnded(EndKind.CANCELLED)
            preamble = await self._remember(session, opened)
            blocks = content(self._turn.batch, preamble)
            prompt = Prompt(
                self._turn.id,
                self._turn.attempt,
                self._turn.step,
                services.agents.incarnation,
                blocks,
            )
            await services.agents.prompt(name, prompt)
        except (AgentRefused, AgentUnavailable) as error:
            return PromptEnded(EndKind.FAILED, failure=error.failure)
        feed.phase(Phase.WORKING)
        record.phase = "working"
        services.signals.tell("agent_prompted")
        return await self._follow(name, record, feed)

    async def _open(self, name: AgentSession, session: Session) -> Opened | None:
        """The agent, ready to be prompted; None if the turn was cancelled meanwhile."""
        services = self._services
        opening = spawn(
            f"open {session.key}",
            services.agents.open(name, services.settings.agent(), session.acp_session_id),
        )
        waiting = spawn(f"cancel {self._turn.id}", self._cancelled.wait())
        try:
            await asyncio.wait({opening, waiting}, return_when=asyncio.FIRST_COMPLETED)
            return await opening if opening.done() else None
        finally:
            await end(waiting)
            if not opening.done():
                await end(opening)

    async def _remember(self, session: Session, opened: Opened) -> str:
        """Keep the agent's session id; returns the preamble for an agent that lost its memory."""
        services = self._services
        async with services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            await sessions.remember_agent(tx, session.key, opened.acp_session_id)
            detail = {"by": opened.by.value, "replayed": opened.replayed}
            await turns.log(tx, self._turn.id, "session_opened", detail)
            if opened.by is not OpenedBy.NEW or session.acp_session_id is None:
                return ""
            entries = await turns.transcript(tx, session.key)
        self._preface = notices.context_lost()
        log.warning("session_context_lost", session=session.key, turn_id=self._turn.id)
        return transcript_preamble(entries)

    async def _follow(
        self, name: AgentSession, record: StreamRecord, feed: TurnFeed
    ) -> PromptEnded:
        """Take the turn's events until its end; pass a cancel on, once."""
        canceller = spawn(f"cancel {self._turn.id}", self._pass_cancel_on(name, feed))
        try:
            async for numbered in self._services.agents.events(self._turn.id, 0):
                record.take(numbered)
                feed.event(numbered.event)
                if isinstance(numbered.event, PromptEnded):
                    return numbered.event
                await self._tell(numbered.event)
        finally:
            await end(canceller)
        raise RuntimeError("the agent's events ended without an end")

    async def _pass_cancel_on(self, name: AgentSession, feed: TurnFeed) -> None:
        await self._cancelled.wait()
        feed.phase(Phase.CANCELLING)
        await self._services.agents.cancel(name, self._turn.id)

    async def _tell(self, event: AgentEvent) -> None:
        """What people must be told by a message of its own."""
        if isinstance(event, HostNotice):
            key = f"turn:{self._turn.id}:{event.code}:v1"
            async with self._services.database.transaction() as tx:
                await conversations.lock(tx, self._ownership)
                await owe_notice(tx, self._turn, key, notices.host_notice(event))
            self._wake()
        elif isinstance(event, PermissionAsked | PermissionSettled):
            log.info("permission_event", turn_id=self._turn.id, kind=type(event).__name__)

    async def _end(self, record: StreamRecord, feed: TurnFeed, prompt_end: PromptEnded) -> None:
        """Shielded, so that a stop between the agent's end and its record loses nothing it can keep."""
        closing = spawn(f"end {self._turn.id}", self._record_end(record, feed, prompt_end))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    async def _record_end(
        self, record: StreamRecord, feed: TurnFeed, prompt_end: PromptEnded
    ) -> None:
        shown = await feed.close(self._services.settings.call.total_seconds())
        await self._services.stream_log.close(record)
        run = Run(
            raw=record.raw,
            answer=record.answer.text,
            tools=record.tools,
            end=prompt_end,
            shown=shown,
            preface=self._preface,
        )
        await self._commit_end(run)
        if record.position:
            await self._services.agents.ack(self._turn.id, record.position, outcome=True)
        self._services.signals.tell("turn_answered")
        self._wake()

    async def _commit_end(self, run: Run) -> None:
        """Try until it is stored, or stored already, or the lease is lost."""
        while True:
            try:
                async with self._services.database.transaction() as tx:
                    where = await conversations.lock(tx, self._ownership)
                    turn = await _reread(tx, self._turn)
                    if turn.state is TurnState.RUNNING:
                        await finish(tx, self._services.settings, where, turn, run)
            except (Transient, Unknown) as error:
                log.warning("outcome_waits_for_database", turn_id=self._turn.id, error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _abandon(self, record: StreamRecord, feed: TurnFeed) -> None:
        """The lease or the process ends: show nothing more, and stop the agent that nobody follows."""
        await feed.close(0)
        await self._services.stream_log.close(record)
        if self._session:
            await self._services.agents.close(self._session)


async def _reread(tx: Transaction, turn: Turn) -> Turn:
    fresh = await turns.get(tx, turn.id)
    assert fresh is not None
    return fresh
