"""What a turn asks of its agent: open, prompt, follow to the end, and pass cancels and answers on."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import structlog

from openab.control.announcing import announced
from openab.control.left_behind import LeftBehind
from openab.control.permissions import Questions
from openab.control.persist import persist
from openab.control.prompts import content, transcript_preamble
from openab.control.retire import owe_notice
from openab.control.services import Services
from openab.control.session_options import SessionOptions
from openab.control.stream_log import StreamRecord
from openab.control.workspaces import Placing
from openab.domain.agent_events import (
    AgentEvent,
    AgentFailure,
    EndKind,
    FailureKind,
    HostNotice,
    Numbered,
    PermissionAsked,
    PermissionSettled,
    Position,
    PromptEnded,
    UsageChanged,
)
from openab.domain.errors import LeaseLost, Rejected
from openab.domain.ids import named_agent
from openab.domain.options import Option
from openab.ports.agent import (
    AgentRefused,
    AgentSession,
    AgentUnavailable,
    Opened,
    OpenedBy,
    Prompt,
    PromptLost,
    SessionBusy,
    StaleEpoch,
    TextBlock,
)
from openab.ports.feed import Phase, TurnFeed
from openab.ports.tasks import end, spawn
from openab.storage import conversations, sessions, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.engine import Transaction
from openab.storage.sessions import Session
from openab.storage.turns import Turn
from openab.text import notices
from openab.text.answer import AnswerFold
from openab.text.continuation import continuation

log = structlog.get_logger()
#: A hung agent gets so long to be ended; its turn ends in any case.
_CLOSE_SECONDS = 30.0
_Take = Callable[[Numbered], None]


class AgentRun:
    """One prompt to one end. An agent's failure is a way to end; only a lost lease is raised."""

    def __init__(
        self,
        services: Services,
        ownership: Ownership,
        turn: Turn,
        session: Session,
        where: Conversation,
        cancelled: asyncio.Event,
        earlier: LeftBehind,
        under_way: asyncio.Event,
    ) -> None:
        """`earlier`: what the attempts before this one left; the agent is told of it.

        `under_way` is set when it has been prompted.
        """
        self._services = services
        self._ownership = ownership
        self._where = where
        self._turn = turn
        self._session = session
        self._cancelled = cancelled
        self._earlier = earlier
        self._under_way = under_way
        self._name = AgentSession(
            services.database.id, session.key, session.generation, session.epoch
        )
        self._questions = Questions(services, ownership, turn)
        self._placing = Placing(services, ownership, where.ref, session)
        self._options = SessionOptions(services, ownership, turn, session)
        self._chosen = session.chosen
        self._gave_context = False
        self._is_announced = session.is_announced
        self._announced = ""
        #: Told in front of the answer.
        self.preface = ""

    async def work(self, record: StreamRecord, feed: TurnFeed) -> PromptEnded:
        """From the session's opening to the end of the prompt. Raises LeaseLost."""
        return await self._guarded(self._work(record, feed))

    async def ask_again(
        self, record: StreamRecord, feed: TurnFeed, step: int, question: str
    ) -> tuple[PromptEnded, str]:
        """Another prompt of the same attempt, and what is answered to it alone. Raises LeaseLost."""
        answer = AnswerFold()

        async def asking() -> PromptEnded:
            services, turn = self._services, self._turn
            after = record.position.n if record.position else 0
            blocks = [TextBlock(question)]
            incarnation = services.agents.incarnation
            prompt = Prompt(turn.id, turn.attempt, step, incarnation, blocks)
            await services.agents.prompt(self._name, prompt)
            services.signals.tell("agent_prompted")

            def take(numbered: Numbered) -> None:
                record.take_apart(numbered)
                answer.add(numbered.event)

            return await self._follow(take, feed, after)

        return await self._guarded(asking()), answer.text

    async def _guarded(self, work: Coroutine[Any, Any, PromptEnded]) -> PromptEnded:
        try:
            return await work
        except (AgentRefused, AgentUnavailable) as error:
            return PromptEnded(EndKind.FAILED, failure=error.failure)
        except SessionBusy as error:
            failure = AgentFailure(FailureKind.ERROR, str(error))
            return PromptEnded(EndKind.FAILED, failure=failure)
        except (StaleEpoch, PromptLost) as error:
            # Another owner commands the session, or the host is being stopped.
            raise LeaseLost(str(error)) from error

    async def answer(self, number: int, choice: int) -> bool:
        """Somebody who may has answered a permission question; False: it is not open any more."""
        return await self._questions.answer(self._name, number, choice)

    @property
    def known_options(self) -> tuple[Option, ...]:
        """What can be chosen in the session now, as the agent last said it."""
        return self._services.agents.options(self._name)

    async def keep(
        self,
        tx: Transaction,
        usage: UsageChanged | None,
        known: tuple[Option, ...],
        *,
        has_heard: bool,
    ) -> bool:
        """Keep what the agent said of its session; False: the session was reset under this run.

        `has_heard`: it has shown that it got the prompt, and with that what it had forgotten.
        """
        if usage:
            await sessions.note_usage(tx, self._session, usage)
        if has_heard and self._gave_context:
            await sessions.context_given(tx, self._session)
        if has_heard and self._announced:
            await sessions.announced(tx, self._session)
        await self._options.keep(tx, known)
        session = await sessions.get(tx, self._session.key)
        return session is not None and session.generation == self._session.generation

    async def close(self) -> None:
        """End the agent that nobody follows any more."""
        try:
            await self._services.agents.close(self._name)
        except Rejected as error:
            # Somebody newer commands it, and its journal, or the host itself ends.
            log.info("agent_not_closed", turn_id=self._turn.id, told=str(error))
            return
        # Whoever ends the turn does so by the rows; nobody reads its events any more.
        unread = Position(self._services.agents.incarnation, 0)
        await self._services.agents.ack(self._turn.id, unread, outcome=True)

    async def _work(self, record: StreamRecord, feed: TurnFeed) -> PromptEnded:
        services, turn = self._services, self._turn
        opened = await self._open()
        if opened is None:
            return PromptEnded(EndKind.CANCELLED)
        preamble = await persist("agent session", lambda: self._remember(opened))
        if preamble is None:
            # The session was reset after this turn was claimed: nobody wants this agent any more.
            await self.close()
            return PromptEnded(EndKind.CANCELLED)
        await self._options.apply(self._name, opened, self._chosen)
        if not self._is_announced:
            self._announced = await announced(services, self._where, turn)
        blocks = content(turn.batch, preamble, self._continuation(), self._announced)
        incarnation = services.agents.incarnation
        prompt = Prompt(turn.id, turn.attempt, turn.step, incarnation, blocks)
        await services.agents.prompt(self._name, prompt)
        self._under_way.set()
        feed.phase(Phase.WORKING)
        record.phase = "working"
        services.signals.tell("agent_prompted")

        def take(numbered: Numbered) -> None:
            record.take(numbered)
            if not isinstance(numbered.event, PromptEnded):
                # Whether that ends the turn is not decided yet.
                feed.event(numbered.event)

        return await self._follow(take, feed)

    def _continuation(self) -> str:
        """What an agent is told of earlier attempts; empty for the first."""
        attempt = self._turn.attempt
        if attempt == 1:
            return ""
        said = "\n\n".join(filter(None, self._earlier.parts(attempt - 1)))
        return continuation(self._earlier.tools, said)

    async def _open(self) -> Opened | None:
        """The agent, ready to be prompted; None if the turn was cancelled meanwhile."""
        opening = spawn(f"open {self._session.key}", self._start())
        waiting = spawn(f"cancel {self._turn.id}", self._cancelled.wait())
        try:
            await asyncio.wait({opening, waiting}, return_when=asyncio.FIRST_COMPLETED)
            return await opening if opening.done() else None
        finally:
            await end(waiting)
            if not opening.done():
                await end(opening)

    async def _start(self) -> Opened:
        """The folder first, then room for one more agent, and only then the agent that works there."""
        services, spec = self._services, self._services.settings.spec_of(self._session.key)
        if spec is None:
            said = notices.not_configured_any_more(named_agent(self._session.key) or "")
            raise AgentRefused(AgentFailure(FailureKind.NOT_CONFIGURED, said))
        placed = await self._placing.place(spec.working_dir)
        self.preface = placed.told
        await services.pool.admit(self._turn.id, self._name)
        spec, known = replace(spec, working_dir=placed.path), self._session.acp_session_id
        return await services.agents.open(self._name, spec, known)

    async def _remember(self, opened: Opened) -> str | None:
        """Keep the agent's session id; returns the preamble for an agent that lost its memory.

        An agent that lived on is known, and was not asked. None: the session was reset meanwhile, so
        this agent's id is not to be kept.
        """
        session = self._session
        is_known = opened.acp_session_id == session.acp_session_id and not session.context_owed
        if opened.by is OpenedBy.LIVE and is_known:
            return ""
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            kept = await sessions.remember_agent(
                tx,
                session,
                opened.acp_session_id,
                context_lost=opened.context_lost,
                is_new=opened.by is OpenedBy.NEW,
            )
            if kept is None:
                return None
            self._is_announced = kept.is_announced
            self._chosen = kept.chosen
            detail = {"by": opened.by.value, "replayed": opened.replayed}
            await turns.log(tx, self._turn.id, "session_opened", detail)
            entries = (
                await turns.transcript(tx, session.key, since=session.reset_at)
                if kept.context_owed
                else []
            )
        self._gave_context = kept.context_owed
        if not entries:
            # Nothing was said before (or it is remembered), so nothing is lost.
            return ""
        self.preface = "\n\n".join(filter(None, (self.preface, notices.context_lost())))
        log.warning("session_context_lost", session=session.key, turn_id=self._turn.id)
        return transcript_preamble(entries)

    async def _follow(self, take: _Take, feed: TurnFeed, after: int = 0) -> PromptEnded:
        """Until the prompt's end; the host ends it at the hard time-out, and if it does not, we do."""
        settings = self._services.settings
        spec = settings.spec_of(self._session.key) or settings.agent()
        hard = spec.hard_timeout_seconds
        limit = asyncio.timeout(hard + settings.pool.hung_grace.total_seconds())
        try:
            async with limit:
                return await self._take_events(take, feed, after)
        except TimeoutError:
            if not limit.expired():
                raise
        await self._evict_hung()
        said = f"the agent did not end {hard:g} s after its prompt, and was ended by force"
        return PromptEnded(EndKind.FAILED, failure=AgentFailure(FailureKind.HARD_TIMEOUT, said))

    async def _evict_hung(self) -> None:
        log.warning("session_hung", session=self._session.key, turn_id=self._turn.id)
        self._services.pool.count("hung")
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.close()
        except TimeoutError:
            log.warning("hung_agent_not_ended", session=self._session.key)

    async def _take_events(self, take: _Take, feed: TurnFeed, after: int) -> PromptEnded:
        """Take the prompt's events until its end; pass a cancel on, once."""
        canceller = spawn(f"cancel {self._turn.id}", self._pass_cancel_on(feed))
        try:
            async for numbered in self._services.agents.events(self._turn.id, after):
                take(numbered)
                if isinstance(numbered.event, PromptEnded):
                    return numbered.event
                await self._tell(numbered.event, feed)
        finally:
            await end(canceller)
        raise RuntimeError("the agent's events ended without an end")

    async def _pass_cancel_on(self, feed: TurnFeed) -> None:
        await self._cancelled.wait()
        feed.phase(Phase.CANCELLING)
        try:
            await self._services.agents.cancel(self._name, self._turn.id)
        except Rejected as error:
            # Whoever commands the session now has its end, too.
            log.info("cancel_not_passed_on", turn_id=self._turn.id, told=str(error))

    async def _tell(self, event: AgentEvent, feed: TurnFeed) -> None:
        """What people must be told by a message of its own."""
        if isinstance(event, HostNotice):
            await persist("host notice", lambda: self._owe_notice(event))
        elif isinstance(event, PermissionAsked):
            await self._questions.ask(event)
        elif isinstance(event, PermissionSettled):
            await self._questions.settle(event)
        else:
            return
        if not self._cancelled.is_set():
            waits = self._questions.is_any_open
            feed.phase(Phase.WAITING_PERMISSION if waits else Phase.WORKING)
        self._services.signals.tell("notice_owed")

    async def _owe_notice(self, event: HostNotice) -> None:
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership, is_beside=True)
            key = f"turn:{self._turn.id}:{event.code}:{self._turn.attempt}:v1"
            await owe_notice(tx, self._turn, key, notices.host_notice(event))
