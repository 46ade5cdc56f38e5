"""How a session comes to be usable: initialize, then resume, else load, else new."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from openab.agents.acp.connection import AgentConnection
from openab.agents.acp.failures import (
    ConnectionLost,
    Restore,
    RpcError,
    failure_of,
    restore_failure,
)
from openab.agents.acp.options import SessionOptions
from openab.agents.acp.translate import event_of
from openab.agents.acp.wire import Json
from openab.agents.limits import Timeouts
from openab.domain.agent_events import AgentFailure, FailureKind, SessionChanged
from openab.domain.ids import AcpSessionId
from openab.ports.agent import AgentRefused, AgentSpec, AgentUnavailable, Opened, OpenedBy

log = structlog.get_logger()

PROTOCOL_VERSION = 1
#: Neither fs nor terminal: agents use their own tools. All defaults would be left out by some
#: writers and refused by some agents, so something is always said.
INITIALIZE: Json = {
    "protocolVersion": PROTOCOL_VERSION,
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "session": {"configOptions": {"boolean": {}}},
    },
    "clientInfo": {"name": "openab", "title": "openab", "version": "1"},
}


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an agent's answer to `initialize` says, read leniently."""

    name: str = ""
    version: str = ""
    can_load: bool = False
    can_resume: bool = False
    can_close: bool = False
    auth_methods: tuple[str, ...] = ()

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Abilities":
        """Whatever is missing or misshapen counts as unsupported."""
        can, about = _fields(answer.get("agentCapabilities")), _fields(answer.get("agentInfo"))
        of_sessions = _fields(can.get("sessionCapabilities"))
        methods = answer.get("authMethods")
        named = [_fields(m) for m in methods] if isinstance(methods, list) else []
        return cls(
            name=str(about.get("title") or about.get("name") or ""),
            version=str(about.get("version") or ""),
            can_load=can.get("loadSession") is True,
            can_resume=_offered(of_sessions.get("resume")),
            can_close=_offered(of_sessions.get("close")),
            auth_methods=tuple(str(m.get("name") or m.get("id")) for m in named if m),
        )


@dataclass(slots=True)
class Replay:
    """Counts what an agent replays while a session is being restored; nothing of it is shown."""

    count: int = 0
    seen: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, update: object) -> None:
        """One more update came; what is said about the session is no part of its history."""
        self.count += not isinstance(event_of(update), SessionChanged)
        self.seen.set()

    async def drained(self, start: float, quiet: float) -> None:
        """Return when the replay has been silent for `quiet`; some agents answer before it begins."""
        wait = quiet if self.count else start
        while await self._another(wait):
            wait = quiet

    async def _another(self, seconds: float) -> bool:
        self.seen.clear()
        try:
            async with asyncio.timeout(seconds):
                return await self.seen.wait()
        except TimeoutError:
            return False


class Opening:
    """One attempt to make a session usable over a fresh connection."""

    def __init__(
        self,
        connection: AgentConnection,
        spec: AgentSpec,
        timeouts: Timeouts,
        replay: Replay,
        options: SessionOptions,
    ) -> None:
        """`options` learns what the agent says of them while the session is opened."""
        self._connection, self._spec, self._timeouts = connection, spec, timeouts
        self._replay, self._options = replay, options
        self.abilities = Abilities()

    async def initialize(self) -> Abilities:
        """Agree on the protocol; AgentRefused when this is no ACP agent."""
        try:
            answer = await self._ask("initialize", INITIALIZE, self._timeouts.initialize)
        except RpcError as error:
            raise AgentRefused(self._failure(error)) from error
        except ConnectionLost as error:
            raise AgentRefused(await self._never_spoke()) from error
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            said = f"the agent answers with protocol version {answer.get('protocolVersion')!r}"
            raise AgentRefused(self._not_acp(f"{said}, openab speaks 1"))
        self.abilities = Abilities.of(answer)
        return self.abilities

    async def session(self, wanted: AcpSessionId | None) -> Opened:
        """Restore the wanted session, or begin one; raises AgentRefused or AgentUnavailable."""
        try:
            restored = await self._restore(wanted) if wanted else None
            return restored or await self._begin(context_lost=wanted is not None)
        except RpcError as error:
            raise AgentRefused(self._failure(error)) from error
        except ConnectionLost as error:
            raise AgentUnavailable(await self._connection.why_lost()) from error

    async def _begin(self, *, context_lost: bool) -> Opened:
        place = {"cwd": self._spec.working_dir, "mcpServers": []}
        answer = await self._ask("session/new", place, self._timeouts.open_session)
        session_id = answer.get("sessionId")
        if not isinstance(session_id, str) or not session_id:
            raise AgentRefused(self._not_acp("the answer to session/new has no session id"))
        self._options.take(answer)
        await self._set_options(session_id)
        return self._opened(AcpSessionId(session_id), OpenedBy.NEW, context_lost=context_lost)

    async def _restore(self, wanted: AcpSessionId) -> Opened | None:
        """None: definitely not there. The last word of those asked decides."""
        doubt: RpcError | None = None
        for method in self._rungs():
            try:
                return await self._restore_by(method, wanted)
            except RpcError as error:
                self._refuse_without_login(error)
                verdict = restore_failure(error, wanted)
                log.info("agent_restore_failed", method=method, code=error.code, verdict=verdict)
                if verdict is not Restore.UNSUPPORTED:
                    doubt = error if verdict is Restore.DOUBT else None
        if doubt:
            raise AgentUnavailable(self._failure(doubt)) from doubt
        return None

    def _rungs(self) -> list[str]:
        able = self.abilities
        rungs = {"session/resume": able.can_resume, "session/load": able.can_load}
        return [method for method, offered in rungs.items() if offered]

    async def _restore_by(self, method: str, wanted: AcpSessionId) -> Opened:
        self._replay.count = 0
        params = {"sessionId": wanted, "cwd": self._spec.working_dir, "mcpServers": []}
        self._options.take(await self._ask(method, params, self._timeouts.open_session))
        loaded = method == "session/load"
        start = self._timeouts.replay_start if loaded else self._timeouts.replay_quiet
        await self._replay.drained(start, self._timeouts.replay_quiet)
        # A load that replays nothing remembers nothing, whatever it answered.
        lost = loaded and not self._replay.count
        return self._opened(wanted, OpenedBy.RESUMED, context_lost=lost)

    async def _set_options(self, session_id: str) -> None:
        for option, value in self._spec.default_config_options.items():
            params = {"sessionId": session_id, "configId": option, "value": value}
            method = "session/set_config_option"
            try:
                answer = await self._ask(method, params, self._timeouts.open_session)
            except RpcError as error:
                log.warning("agent_option_refused", option=option, value=value, code=error.code)
            else:
                self._options.chosen(option, value, answer)

    async def _ask(self, method: str, params: Json, seconds: float) -> Json:
        try:
            async with asyncio.timeout(seconds):
                return await self._connection.request(method, params)
        except TimeoutError as error:
            said = f"the agent did not answer {method} within {seconds:g} s"
            tail = self._connection.process.stderr_tail()
            failure = AgentFailure(FailureKind.SETUP_TIMEOUT, said, stderr_tail=tail)
            raise AgentUnavailable(failure) from error

    def _refuse_without_login(self, error: RpcError) -> None:
        failure = self._failure(error)
        if failure.kind is FailureKind.AUTH_REQUIRED:
            raise AgentRefused(failure) from error

    def _failure(self, error: RpcError) -> AgentFailure:
        tail = self._connection.process.stderr_tail()
        return failure_of(error, self.abilities.auth_methods, tail)

    def _not_acp(self, said: str) -> AgentFailure:
        tail = self._connection.process.stderr_tail()
        return AgentFailure(FailureKind.NOT_ACP, said, stderr_tail=tail)

    async def _never_spoke(self) -> AgentFailure:
        lost = await self._connection.why_lost()
        never_ran = self._connection.process.could_not_execute()
        kind = FailureKind.NOT_FOUND if never_ran else FailureKind.NOT_ACP
        said = f"{self._spec.command} ended before it answered `initialize`: {lost.message}"
        return AgentFailure(kind, said, exit_code=lost.exit_code, stderr_tail=lost.stderr_tail)

    def _opened(self, session: AcpSessionId, by: OpenedBy, *, context_lost: bool) -> Opened:
        return Opened(
            acp_session_id=session,
            by=by,
            context_lost=context_lost,
            replayed=self._replay.count if by is OpenedBy.RESUMED else 0,
            agent_name=self.abilities.name,
            agent_version=self.abilities.version,
            options=self._options.known,
        )


def _fields(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _offered(value: object) -> bool:
    """A capability is offered by its presence: `{}` is yes; null and false are no."""
    return value is not None and value is not False
