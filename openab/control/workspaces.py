"""Which folder a session works in: known, made and kept before its agent is opened."""

from dataclasses import dataclass

import structlog

from openab.control.persist import persist
from openab.control.services import Services
from openab.control.settings import WorkspaceSettings
from openab.domain.agent_events import AgentFailure, FailureKind
from openab.domain.ids import ConversationRef
from openab.ports.agent import AgentRefused
from openab.ports.workspaces import Fault, Workspace, WorkspaceRefused
from openab.storage import conversations, sessions
from openab.storage.conversations import Ownership
from openab.storage.sessions import Session
from openab.text import notices

log = structlog.get_logger()
_OF_THE_ALIAS = frozenset({Fault.UNKNOWN, Fault.MISSING, Fault.OUTSIDE_HOME})


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the session works, and what people are told of it in front of the answer."""

    path: str
    told: str = ""


class Placing:
    """For one run of a session's turn, by the conversation's owner: so nobody else places it."""

    def __init__(
        self, services: Services, ownership: Ownership, where: ConversationRef, session: Session
    ) -> None:
        self._services = services
        self._ownership = ownership
        self._where = where
        self._session = session

    async def place(self, usual: str) -> Placed:
        """The session's folder; `usual` is the agent's own, for a session that has none yet.

        Raises AgentRefused, which says what is wrong with the folder and what to do.
        """
        session = self._session
        if session.acp_session_id and not session.is_placed:
            # It began where it is, and would not be found from anywhere else.
            return Placed(session.working_dir)
        if session.is_placed and await self._services.workspaces.exists(session.working_dir):
            return Placed(session.working_dir)
        try:
            found = await self._found(usual)
        except WorkspaceRefused as error:
            raise await self._refused(error) from error
        if found.path != session.working_dir or self._is_special:
            await persist("workspace", lambda: self._keep(found.path))
        left = found.left
        told = notices.work_left(left.files, left.commits) if left else ""
        return Placed(found.path, told)

    @property
    def _is_special(self) -> bool:
        return bool(self._session.workspace_alias) or self._settings.per_thread != "off"

    @property
    def _settings(self) -> WorkspaceSettings:
        return self._services.settings.workspace

    async def _found(self, usual: str) -> Workspace:
        workspaces, alias = self._services.workspaces, self._session.workspace_alias
        base = await self._named(alias) if alias else usual
        if self._settings.per_thread == "worktree":
            if self._session.is_placed:
                return await workspaces.restored(self._where, base)
            return await workspaces.worktree(self._where, base)
        if self._settings.per_thread == "folder" and not alias:
            return Workspace(await workspaces.folder(self._where))
        return Workspace(base)

    async def _named(self, alias: str) -> str:
        known = self._settings.aliases
        name = alias.removeprefix("@")
        if not alias.startswith("@") or name not in known:
            raise WorkspaceRefused(Fault.UNKNOWN)
        return await self._services.workspaces.named(known[name])

    async def _refused(self, error: WorkspaceRefused) -> AgentRefused:
        alias = self._session.workspace_alias
        log.info("workspace_refused", session=self._session.key, fault=error.fault.value)
        if alias and error.fault in _OF_THE_ALIAS:
            # Else each later message without a directive would be refused, too.
            await persist("workspace", self._forget_alias)
        said = notices.workspace_refused(
            error.fault.value, alias or "", error.detail, tuple(self._settings.aliases)
        )
        return AgentRefused(AgentFailure(FailureKind.WORKSPACE, said))

    async def _keep(self, path: str) -> None:
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            await sessions.place(tx, self._session, path)

    async def _forget_alias(self) -> None:
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            await sessions.ask_for_workspace(tx, self._session.key, None)
