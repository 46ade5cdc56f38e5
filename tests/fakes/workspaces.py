"""Folders that are not there: the workspaces port as a record of what was asked."""

from openab.domain.ids import ConversationRef
from openab.ports.workspaces import Fault, Unsaved, Workspace, WorkspaceRefused


class RecordedWorkspaces:
    """Fulfils `ports.workspaces.Workspaces`; every folder counts as there unless it is in `gone`."""

    def __init__(self) -> None:
        #: Every call that made something: (method, conversation, base).
        self.made: list[tuple[str, str, str]] = []
        self.gone: set[str] = set()
        #: Raised by the next call, once.
        self.refuse: Fault | None = None
        #: What a worktree is found to hold.
        self.left: Unsaved | None = None

    async def exists(self, path: str) -> bool:
        """See the port."""
        return path not in self.gone

    async def named(self, folder: str) -> str:
        """See the port."""
        self._refuse_once(folder)
        return folder

    async def folder(self, of: ConversationRef) -> str:
        """See the port."""
        return self._make("folder", of, "").path

    async def worktree(self, of: ConversationRef, base: str) -> Workspace:
        """See the port."""
        return self._make("worktree", of, base)

    async def restored(self, of: ConversationRef, base: str) -> Workspace:
        """See the port."""
        return self._make("restored", of, base)

    def _make(self, how: str, of: ConversationRef, base: str) -> Workspace:
        self._refuse_once(base)
        self.made.append((how, of.conversation_id, base))
        path = f"/own/{of.conversation_id}{base}"
        self.gone.discard(path)
        return Workspace(path, self.left if how == "worktree" else None)

    def _refuse_once(self, detail: str) -> None:
        if self.refuse:
            fault, self.refuse = self.refuse, None
            raise WorkspaceRefused(fault, detail)
