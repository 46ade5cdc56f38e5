"""The workspaces port: the folders that sessions work in, made and looked at outside of any transaction."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from openab.domain.errors import Rejected
from openab.domain.ids import ConversationRef


class Fault(StrEnum):
    """Why a folder cannot be worked in."""

    #: Nobody has given a folder this name.
    UNKNOWN = "unknown"
    #: It is not there, or no folder.
    MISSING = "missing"
    #: It leads out of the home folder.
    OUTSIDE_HOME = "outside_home"
    #: No worktree can be made of it.
    NOT_A_REPOSITORY = "not_a_repository"
    #: The repository has nothing to check out yet.
    NO_COMMIT = "no_commit"
    #: git is not installed.
    NO_GIT = "no_git"
    #: git refused or did not answer; the detail has its words.
    GIT = "git"
    #: Something that is not ours stands where the folder has to be, or has its branch.
    TAKEN = "taken"
    #: Somebody still works on making it; it may be free in a moment.
    BUSY = "busy"


class WorkspaceRefused(Rejected):
    """The folder cannot be used now; nothing that was in it has been touched."""

    def __init__(self, fault: Fault, detail: str = "") -> None:
        super().__init__(f"{fault.value}: {detail}")
        self.fault = fault
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Work that is nowhere else: files that are not committed, commits that are on no other branch or remote."""

    files: int
    commits: int


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder to work in. `left`: what a former session left in it; then it was not made anew."""

    path: str
    left: Unsaved | None = None


class Workspaces(Protocol):
    """Folders on the agents' machine. Every call may be repeated, also after a kill in the middle of it."""

    async def exists(self, path: str) -> bool:
        """Whether there is a folder."""
        ...

    async def named(self, folder: str) -> str:
        """The real path of a folder that an alias names: there, and inside the home folder.

        Raises WorkspaceRefused (MISSING, OUTSIDE_HOME).
        """
        ...

    async def folder(self, of: ConversationRef) -> str:
        """The conversation's own folder, made empty if it is not there."""
        ...

    async def worktree(self, of: ConversationRef, base: str) -> Workspace:
        """The conversation's own worktree of the repository that `base` is in, at the same place in it.

        Made from the repository's HEAD on the branch `openab/CONVERSATION`. One that is there from
        before is made anew only if nothing in it is unsaved; else it is kept as it is.
        """
        ...

    async def restored(self, of: ConversationRef, base: str) -> Workspace:
        """The same, but one that is there is never made anew: its session lives."""
        ...
