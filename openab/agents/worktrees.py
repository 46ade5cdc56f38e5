"""A conversation's worktree: made once, found again after a kill at any step, never removed with work in it."""

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from openab.agents.git import Git
from openab.ports.workspaces import Fault, Unsaved, WorkspaceRefused

#: What git writes into the lock of a worktree that it is still making.
_UNFINISHED = "initializing"
_FORCE = ("--force", "--force")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as seen from a folder in it."""

    root: str
    #: Where the folder is below the root; empty or with a `/` at its end.
    prefix: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A worktree that the repository knows of."""

    path: Path
    branch: str
    lock: str


async def repository(git: Git, folder: str) -> Repository:
    """The repository that the folder is in; it has at least one commit."""
    try:
        root = await git(folder, "rev-parse", "--show-toplevel")
        prefix = await git(folder, "rev-parse", "--show-prefix")
    except WorkspaceRefused as error:
        if error.fault is not Fault.GIT:
            raise
        raise WorkspaceRefused(Fault.NOT_A_REPOSITORY, error.detail) from error
    try:
        await git(folder, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    except WorkspaceRefused as error:
        raise WorkspaceRefused(Fault.NO_COMMIT, root) from error
    return Repository(root, prefix)


class Worktree:
    """The worktree at one place. Whoever uses it holds the lock of the folder around it (`held`)."""

    def __init__(self, git: Git, of: Repository, tree: Path, held: int) -> None:
        self._git, self._repository, self._tree, self._held = git, of, tree, held

    async def is_known(self) -> bool:
        """Whether the repository knows it, finished or not."""
        return await self._entry() is not None

    async def ensure(self, branches: Sequence[str]) -> bool:
        """Make it, on the first of these branches that is free; False: it was there."""
        entry = await self._entry()
        if entry and _UNFINISHED in entry.lock:
            # Its maker was killed, and no agent has been in it.
            await asyncio.to_thread(shutil.rmtree, self._tree, ignore_errors=True)
        elif entry and self._tree.is_dir():
            return False
        force = _FORCE if entry else ()
        for branch in branches:
            if await self._add(branch, force):
                return True
        raise WorkspaceRefused(Fault.TAKEN, branches[0])

    async def unsaved(self) -> Unsaved | None:
        """The work in it that is nowhere else."""
        files = await self._ask("status", "--porcelain", "--untracked-files=all")
        own = await self._branch()
        others = ([f"--exclude={own}"] if own else []) + ["--branches", "--remotes", "--tags"]
        commits = int(await self._ask("rev-list", "--count", "HEAD", "--not", *others))
        found = Unsaved(len(files.splitlines()), commits)
        return found if found.files or found.commits else None

    async def remove(self) -> None:
        """Take it away with its branch; git itself refuses where something is not committed."""
        branch, commit = await self._branch(), await self._ask("rev-parse", "HEAD")
        await self._do("worktree", "remove", str(self._tree))
        if branch.startswith("openab/"):
            # Only while it still stands where it was looked at.
            await self._do("update-ref", "-d", f"refs/heads/{branch}", commit)

    async def _add(self, branch: str, force: Sequence[str]) -> bool:
        others = [one.branch for one in await self._listed() if one.path != self._tree]
        if branch in others:
            return False
        known = await self._do("for-each-ref", "--format=%(refname)", f"refs/heads/{branch}")
        is_there = f"refs/heads/{branch}" in known.splitlines()
        what = [str(self._tree), branch] if is_there else ["-b", branch, str(self._tree), "HEAD"]
        await self._do("worktree", "add", *force, *what)
        return True

    async def _entry(self) -> Entry | None:
        return next((one for one in await self._listed() if one.path == self._tree), None)

    async def _listed(self) -> list[Entry]:
        return list(_entries(await self._do("worktree", "list", "--porcelain")))

    async def _branch(self) -> str:
        name = await self._ask("rev-parse", "--abbrev-ref", "HEAD")
        return "" if name == "HEAD" else name

    async def _ask(self, *arguments: str) -> str:
        return await self._git(str(self._tree), *arguments, held=(self._held,))

    async def _do(self, *arguments: str) -> str:
        return await self._git(self._repository.root, *arguments, held=(self._held,))


def _entries(listed: str) -> Iterator[Entry]:
    for block in listed.split("\n\n"):
        fields = dict(line.partition(" ")[::2] for line in block.splitlines())
        if path := fields.get("worktree"):
            branch = fields.get("branch", "").removeprefix("refs/heads/")
            yield Entry(Path(path), branch, fields.get("locked", ""))
