"""The folders that sessions work in, on this machine: aliases, own folders, worktrees."""

import asyncio
import fcntl
import hashlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from openab.agents.git import Git
from openab.agents.worktrees import Repository, Worktree, repository
from openab.domain.ids import ConversationRef
from openab.ports.workspaces import Fault, Unsaved, Workspace, WorkspaceRefused

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FOLDER = "files"
#: A git of a killed process may still be at work in the folder, and holds its lock.
_LOCK_SECONDS = 30.0
_LOCK_TRY_SECONDS = 0.1


class LocalWorkspaces:
    """See `openab.ports.workspaces`. All own folders are `ROOT/ACCOUNT/CONVERSATION/…`."""

    def __init__(
        self,
        root: Path,
        home: Path,
        environ: Mapping[str, str],
        *,
        git_seconds: float = 120.0,
        lock_seconds: float = _LOCK_SECONDS,
    ) -> None:
        self._root, self._home = root, home
        self._git = Git(environ, git_seconds)
        self._lock_seconds = lock_seconds

    async def exists(self, path: str) -> bool:
        """See the port."""
        return await asyncio.to_thread(Path(path).is_dir)

    async def named(self, folder: str) -> str:
        """See the port."""
        return await asyncio.to_thread(self._named, folder)

    async def folder(self, of: ConversationRef) -> str:
        """See the port."""
        async with self._held(of) as (place, _):
            made = place / _FOLDER
            made.mkdir(mode=0o700, exist_ok=True)
            return str(made)

    async def worktree(self, of: ConversationRef, base: str) -> Workspace:
        """See the port."""
        found = await repository(self._git, base)
        async with self._held(of) as (place, lock):
            tree, worktree = await self._tree(place, found, lock)
            left: Unsaved | None = None
            if not await worktree.ensure(_branches(of)):
                left = await self._anew(of, worktree)
            return Workspace(_same_place(tree, found), left)

    async def restored(self, of: ConversationRef, base: str) -> Workspace:
        """See the port."""
        found = await repository(self._git, base)
        async with self._held(of) as (place, lock):
            tree, worktree = await self._tree(place, found, lock)
            await worktree.ensure(_branches(of))
            return Workspace(_same_place(tree, found))

    async def _anew(self, of: ConversationRef, worktree: Worktree) -> Unsaved | None:
        """What a former session has left: if nothing is lost by it, the worktree is made once more."""
        left = await worktree.unsaved()
        if left:
            return left
        try:
            await worktree.remove()
        except WorkspaceRefused:
            # git has a reason of its own to keep it (a lock, a submodule): then it is used as it is.
            return Unsaved(0, 0)
        await worktree.ensure(_branches(of))
        return None

    async def _tree(self, place: Path, found: Repository, lock: int) -> tuple[Path, Worktree]:
        """Where this repository's worktree is: beside one of another repository with the same name."""
        name = _safe(Path(found.root).name)
        tree = place / name
        worktree = Worktree(self._git, found, tree, lock)
        if not _is_vacant(tree) and not await worktree.is_known():
            tree = place / f"{name}-{_digest(found.root)[:8]}"
            worktree = Worktree(self._git, found, tree, lock)
            if not _is_vacant(tree) and not await worktree.is_known():
                raise WorkspaceRefused(Fault.TAKEN, str(tree))
        return tree, worktree

    def _named(self, folder: str) -> str:
        try:
            real = Path(folder).expanduser().resolve(strict=True)
            home = self._home.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise WorkspaceRefused(Fault.MISSING, folder) from error
        if not real.is_relative_to(home):
            raise WorkspaceRefused(Fault.OUTSIDE_HOME, folder)
        if not real.is_dir():
            raise WorkspaceRefused(Fault.MISSING, folder)
        return str(real)

    @asynccontextmanager
    async def _held(self, of: ConversationRef) -> AsyncIterator[tuple[Path, int]]:
        """The conversation's place, and its lock, which ends with the last process that has it open."""
        place = self._root.resolve() / _safe(of.account) / _safe(of.conversation_id)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            await self._locked(lock)
            yield place, lock
        finally:
            os.close(lock)

    async def _locked(self, lock: int) -> None:
        try:
            async with asyncio.timeout(self._lock_seconds):
                # Nobody tells when another process lets go of a lock.
                while not _try_lock(lock):  # noqa: ASYNC110 - there is no sign to wait for
                    await asyncio.sleep(_LOCK_TRY_SECONDS)
        except TimeoutError as error:
            raise WorkspaceRefused(Fault.BUSY) from error


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_vacant(tree: Path) -> bool:
    return not tree.exists() or (tree.is_dir() and not any(tree.iterdir()))


def _same_place(tree: Path, found: Repository) -> str:
    """The folder in the worktree that the base is in its repository, where it is committed."""
    inside = tree / found.prefix
    return str(inside if inside.is_dir() else tree)


def _branches(of: ConversationRef) -> tuple[str, str]:
    """The second one is for another account in the same conversation, on the same repository."""
    name = f"openab/{_safe(of.conversation_id)}"
    return name, f"{name}-{_safe(of.account)}"


def _safe(name: str) -> str:
    """As one part of a path or a branch: itself where it is harmless, else a digest of it."""
    return name if _SAFE_NAME.fullmatch(name) else f"x{_digest(name)[:24]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
