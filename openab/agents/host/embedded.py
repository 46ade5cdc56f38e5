"""The agent port inside the broker's own process: one agent process per session, events in memory."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import structlog

from openab.agents.acp.process_tree import OWNER_VARIABLE, owner_marker
from openab.agents.acp.session import AcpSession
from openab.agents.host.journal import Journal
from openab.agents.limits import Sizes, Timeouts
from openab.domain.agent_events import (
    AgentFailure,
    EndKind,
    FailureKind,
    Numbered,
    Position,
    PromptEnded,
)
from openab.domain.ids import AccountId, AcpSessionId, Incarnation, TurnId
from openab.domain.options import Option
from openab.ports.agent import (
    AgentSession,
    AgentSpec,
    AgentUnavailable,
    Liveness,
    Opened,
    OpenedBy,
    Prompt,
    PromptLost,
    SessionBusy,
    SessionStatus,
    StaleEpoch,
)

log = structlog.get_logger()

#: Prompts of one session that are remembered after their turns were forgotten.
_REMEMBERED = 256
#: Sessions whose epochs are remembered though no process of theirs is open.
_KNOWN_SESSIONS = 1024


class _Entry:
    """What the host knows of one (database, key, generation)."""

    def __init__(self, *, is_complete: bool = True) -> None:
        """`is_complete`: whatever was given to this session in this life of the host is in `given`."""
        self.is_complete = is_complete
        self.epoch = 0
        self.opening = asyncio.Lock()
        self.session: AcpSession | None = None
        self.given: OrderedDict[tuple[TurnId, int, int], None] = OrderedDict()

    @property
    def is_idle(self) -> bool:
        """No process is open, and none is being opened."""
        return self.session is None and not self.opening.locked()

    def give(self, step: tuple[TurnId, int, int]) -> bool:
        """Note a prompt; False if it was noted before."""
        if step in self.given:
            return False
        self.given[step] = None
        if len(self.given) > _REMEMBERED:
            self.given.popitem(last=False)
        return True


class EmbeddedAgents:
    """Fulfils `ports.agent.Agents`; its incarnation ends with the process, and so do its agents."""

    def __init__(
        self,
        *,
        database_id: str,
        account: AccountId,
        incarnation: Incarnation,
        timeouts: Timeouts | None = None,
        sizes: Sizes | None = None,
    ) -> None:
        self._incarnation = incarnation
        self._timeouts, self._sizes = timeouts or Timeouts(), sizes or Sizes()
        #: What every process started here carries in its environment.
        self.markers = {OWNER_VARIABLE: owner_marker(database_id, account, incarnation)}
        self._entries: dict[tuple[str, str, int], _Entry] = {}
        self._journals: dict[TurnId, Journal] = {}
        self._has_forgotten = False
        self._stopped = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def incarnation(self) -> Incarnation:
        """This life of the host."""
        return self._incarnation

    @property
    def processes(self) -> int:
        """How many agents run."""
        return sum(
            entry.session is not None and entry.session.is_usable
            for entry in self._entries.values()
        )

    async def stop(self) -> None:
        """End every agent and take no more commands. Turns that run get no end event: readers get
        PromptLost, so that nobody takes an orderly stop for the turn's outcome. Twice is harmless.
        """
        self._stopped = True
        for journal in self._journals.values():
            if not journal.ended:
                journal.close()
        sessions = [entry.session for entry in self._entries.values() if entry.session]
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(session.end(), name="stop an agent")
        for entry in self._entries.values():
            async with entry.opening:  # whoever was starting a process has now ended it
                pass

    async def open(
        self, session: AgentSession, spec: AgentSpec, acp_session_id: AcpSessionId | None
    ) -> Opened:
        """See the port. Opening an open session twice at once makes one process."""
        entry = self._command(session)
        async with entry.opening:
            self._check(entry, session)
            if entry.session and entry.session.is_usable and entry.session.acp_session_id:
                known = entry.session.options.known
                return Opened(entry.session.acp_session_id, OpenedBy.LIVE, options=known)
            if entry.session:
                await entry.session.end()
            entry.session = AcpSession(spec, self.markers, self._timeouts, self._sizes)
            opened = await entry.session.open(acp_session_id)
        log.info(
            "agent_session_opened",
            key=session.key,
            by=opened.by,
            pid=entry.session.pid,
            acp_session=opened.acp_session_id,
        )
        return opened

    async def prompt(self, session: AgentSession, prompt: Prompt) -> None:
        """See the port."""
        entry = self._command(session)
        if prompt.incarnation != self._incarnation:
            raise PromptLost("the prompt names another life of this host")
        step = (prompt.turn, prompt.attempt, prompt.step)
        running = entry.session.running if entry.session else None
        if step in entry.given:
            if running:
                await running.written.wait()
            return
        if running:
            raise SessionBusy(f"turn {running.turn} is running on this session")
        entry.give(step)
        await self._start(entry, prompt)

    def unwritten(
        self, session: AgentSession, turn: TurnId, attempt: int, step: int, incarnation: Incarnation
    ) -> bool:
        """See the port; a turn that runs is among the newest that its session was given."""
        entry = self._entries.get(_name(session))
        if entry is None or not entry.is_complete or incarnation != self._incarnation:
            return False
        return (turn, attempt, step) not in entry.given

    async def events(self, turn: TurnId, after: int) -> AsyncIterator[Numbered]:
        """See the port; PromptLost for a turn that this life of the host does not know."""
        journal = self._journals.get(turn)
        if journal is None:
            raise PromptLost("this life of the host does not know the turn")
        async for numbered in journal.read(after):
            yield numbered

    async def ack(self, turn: TurnId, position: Position, *, outcome: bool = False) -> None:
        """See the port; a position of another incarnation says nothing here."""
        journal = self._journals.get(turn)
        if outcome and journal and position.incarnation == self._incarnation:
            journal.is_unwanted = True
            self._forget()

    def _forget(self) -> None:
        """Journals that nobody reads, and the oldest of the many sessions that are not open."""
        for turn, journal in list(self._journals.items()):
            if journal.is_unwanted and journal.ended:
                del self._journals[turn]
        surplus = len(self._entries) - _KNOWN_SESSIONS
        idle = [name for name, entry in self._entries.items() if entry.is_idle]
        for name in idle[: max(0, surplus)]:
            del self._entries[name]
            self._has_forgotten = True

    async def cancel(self, session: AgentSession, turn: TurnId) -> None:
        """See the port."""
        entry = self._command(session)
        if entry.session and entry.session.running and entry.session.running.turn == turn:
            await entry.session.cancel()

    async def answer(self, session: AgentSession, request_id: str, option_id: str | None) -> bool:
        """See the port; NoSuchOption (a Rejected) for an option that was not offered."""
        entry = self._command(session)
        running = entry.session.running if entry.session else None
        return running.questions.answer(request_id, option_id) if running else False

    def options(self, session: AgentSession) -> tuple[Option, ...]:
        """See the port."""
        entry = self._entries.get(_name(session))
        live = entry.session if entry else None
        return live.options.known if live and live.is_usable else ()

    async def set_option(self, session: AgentSession, option_id: str, value: str) -> None:
        """See the port; an `open` that comes meanwhile waits, and so does the prompt behind it."""
        entry = self._command(session)
        async with entry.opening:
            self._check(entry, session)
            live = entry.session
            if live is None or not live.is_usable:
                said = "the session is not open at this host"
                raise AgentUnavailable(AgentFailure(FailureKind.TRANSPORT, said))
            if live.running:
                raise SessionBusy(f"turn {live.running.turn} is running on this session")
            await live.set_option(option_id, value)

    async def close(self, session: AgentSession, within: float | None = None) -> None:
        """See the port; a prompt that runs is cancelled first and gets its end event."""
        entry = self._command(session)
        if (live := entry.session) is None:
            return
        await live.end(within)
        if entry.session is live:
            entry.session = None

    def status(self, session: AgentSession) -> SessionStatus:
        """See the port."""
        entry = self._entries.get(_name(session))
        live = entry.session if entry else None
        if live is None or not live.is_usable:
            return SessionStatus(Liveness.ABSENT)
        running = live.running
        return SessionStatus(
            liveness=Liveness.PROMPTING if running else Liveness.IDLE,
            turn=running.turn if running else None,
            pid=live.pid,
            quiet_seconds=live.quiet_seconds,
        )

    async def _start(self, entry: _Entry, prompt: Prompt) -> None:
        journal = self._journal(prompt.turn, prompt.attempt)
        journal.begin()
        if entry.session and entry.session.is_usable:
            await entry.session.prompt(prompt.turn, prompt.content, journal)
            return
        said = "the session is not open at this host"
        failure = AgentFailure(FailureKind.TRANSPORT, said)
        journal.add(PromptEnded(EndKind.FAILED, failure=failure))

    def _journal(self, turn: TurnId, attempt: int) -> Journal:
        """The attempt's journal; whoever still reads an earlier one's learns that it is lost."""
        known = self._journals.get(turn)
        if known and known.attempt == attempt:
            return known
        if known:
            known.close()
        journal = Journal(self._incarnation, self._sizes, attempt)
        self._journals[turn] = journal
        return journal

    def _command(self, session: AgentSession) -> _Entry:
        """The session's entry, if the caller may command it; its epoch is the newest from now on."""
        name = _name(session)
        entry = self._entries.get(name) or _Entry(is_complete=not self._has_forgotten)
        self._check(entry, session)
        entry.epoch = session.epoch
        # At the end: those before it were not commanded for longer.
        self._entries.pop(name, None)
        self._entries[name] = entry
        return entry

    def _check(self, entry: _Entry, session: AgentSession) -> None:
        if self._stopped:
            raise PromptLost("this host has been stopped")
        if session.epoch < entry.epoch:
            raise StaleEpoch(f"epoch {session.epoch} is older than {entry.epoch}")


def _name(session: AgentSession) -> tuple[str, str, int]:
    return session.database_id, session.key, session.generation
