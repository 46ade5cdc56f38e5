"""Workspaces with a real git: made once, found after a kill at any step, never removed with work in them."""

import asyncio
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from openab.agents.git import Git
from openab.agents.workspaces import LocalWorkspaces
from openab.domain.ids import ConversationRef
from openab.ports.workspaces import Fault, Unsaved, WorkspaceRefused
from tests.builders import a_ref

THREAD = a_ref("4711", "77")
OTHER = a_ref("4712", "77")
ENV = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "OPENAB_SECRET": "s"}


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    command = ["git", *settings, *arguments]
    told = subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )  # fmt: skip
    return told.stdout.strip()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def repo(home: Path) -> Path:
    made = home / "api"
    (made / "src").mkdir(parents=True)
    (made / "src" / "a.py").write_text("a = 1\n")
    git(made, "init", "-q", "-b", "main")
    git(made, "add", ".")
    git(made, "commit", "-q", "-m", "first")
    return made


@pytest.fixture
def spaces(tmp_path: Path, home: Path) -> LocalWorkspaces:
    return LocalWorkspaces(tmp_path / "own" / "workspaces", home, ENV, lock_seconds=0.3)


async def made(spaces: LocalWorkspaces, repo: Path, of: ConversationRef = THREAD) -> Path:
    return Path((await spaces.worktree(of, str(repo))).path)


class TestAWorktree:
    async def test_is_of_the_repositorys_head_on_a_branch_of_the_thread(
        self, spaces: LocalWorkspaces, repo: Path, tmp_path: Path
    ) -> None:
        tree = await made(spaces, repo)
        assert tree == tmp_path / "own" / "workspaces" / "900" / "4711" / "api"
        assert git(tree, "rev-parse", "--abbrev-ref", "HEAD") == "openab/4711"
        assert git(tree, "rev-parse", "HEAD") == git(repo, "rev-parse", "main")
        assert git(repo, "status", "--porcelain") == ""

    async def test_of_two_threads_do_not_overwrite_each_others_files(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        one, two = await asyncio.gather(made(spaces, repo), made(spaces, repo, OTHER))
        (one / "src" / "a.py").write_text("a = 2\n")
        assert (two / "src" / "a.py").read_text() == "a = 1\n"
        assert (repo / "src" / "a.py").read_text() == "a = 1\n"

    async def test_is_at_the_same_place_in_the_repository(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        assert (await made(spaces, repo / "src")).parts[-2:] == ("api", "src")

    async def test_of_two_accounts_in_one_thread_are_two(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        second = ConversationRef(THREAD.channel, "901", THREAD.conversation_id, "77")  # type: ignore[arg-type]
        one, two = await made(spaces, repo), await made(spaces, repo, second)
        assert one != two
        assert git(two, "rev-parse", "--abbrev-ref", "HEAD") == "openab/4711-901"

    async def test_of_a_second_repository_with_the_same_name_stands_beside(
        self, spaces: LocalWorkspaces, repo: Path, home: Path
    ) -> None:
        git(home, "clone", "-q", str(repo), "more/api")
        one, two = await made(spaces, repo), await made(spaces, home / "more" / "api")
        assert one.parent == two.parent
        assert two.name.startswith("api-")
        assert await made(spaces, home / "more" / "api") == two

    @pytest.mark.parametrize("thread", ["../../../etc", "a b", "-x", "..", "x" * 99, "é", "a/../b"])
    async def test_no_conversation_id_leads_out(
        self, spaces: LocalWorkspaces, repo: Path, tmp_path: Path, thread: str
    ) -> None:
        tree = await made(spaces, repo, a_ref(thread, "77"))
        assert tree.parent.parent == tmp_path / "own" / "workspaces" / "900"
        assert git(tree, "rev-parse", "--abbrev-ref", "HEAD").startswith("openab/x")
        assert Path(await spaces.folder(a_ref(thread, "77"))).parent == tree.parent


class TestMadeAgain:
    async def test_it_is_found_with_everything_in_it(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        tree = await made(spaces, repo)
        (tree / "new.txt").write_text("mine")
        assert (await spaces.restored(THREAD, str(repo))).path == str(tree)
        assert (tree / "new.txt").read_text() == "mine"

    async def test_uncommitted_work_of_a_former_session_stays(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        tree = await made(spaces, repo)
        (tree / "new.txt").write_text("mine")
        (tree / "src" / "a.py").write_text("a = 2\n")
        again = await spaces.worktree(THREAD, str(repo))
        assert (again.path, again.left) == (str(tree), Unsaved(2, 0))
        assert (tree / "new.txt").read_text() == "mine"

    async def test_commits_that_are_nowhere_else_stay(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        tree = await made(spaces, repo)
        (tree / "src" / "a.py").write_text("a = 2\n")
        git(tree, "commit", "-q", "-a", "-m", "second")
        mine = git(tree, "rev-parse", "HEAD")
        again = await spaces.worktree(THREAD, str(repo))
        assert again.left == Unsaved(0, 1)
        assert git(tree, "rev-parse", "openab/4711") == mine

    async def test_commits_of_a_detached_head_stay_too(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        tree = await made(spaces, repo)
        git(tree, "checkout", "-q", "--detach")
        git(tree, "commit", "-q", "--allow-empty", "-m", "second")
        assert (await spaces.worktree(THREAD, str(repo))).left == Unsaved(0, 1)

    async def test_a_clean_one_is_made_anew_from_todays_head(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        tree = await made(spaces, repo)
        (repo / "src" / "a.py").write_text("a = 3\n")
        git(repo, "commit", "-q", "-a", "-m", "second")
        again = await spaces.worktree(THREAD, str(repo))
        assert (again.path, again.left) == (str(tree), None)
        assert (tree / "src" / "a.py").read_text() == "a = 3\n"

    async def test_work_that_was_merged_elsewhere_is_no_reason_to_keep_it(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        tree = await made(spaces, repo)
        (tree / "src" / "a.py").write_text("a = 2\n")
        git(tree, "commit", "-q", "-a", "-m", "second")
        git(repo, "merge", "-q", "openab/4711")
        assert (await spaces.worktree(THREAD, str(repo))).left is None
        assert git(tree, "rev-parse", "HEAD") == git(repo, "rev-parse", "main")

    async def test_one_that_git_keeps_is_used_as_it_is(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        tree = await made(spaces, repo)
        git(repo, "worktree", "lock", str(tree))
        assert (await spaces.worktree(THREAD, str(repo))).left == Unsaved(0, 0)
        assert (tree / "src" / "a.py").exists()


def holder_of(place: Path) -> "subprocess.Popen[bytes]":
    """A process that has the folder locked, as the git of a killed broker has."""
    lock = os.open(place, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    holder = subprocess.Popen(["sleep", "60"], pass_fds=[lock])
    os.close(lock)
    return holder


class TestAfterAKill:
    """Each test leaves what a kill at one step leaves."""

    async def test_when_only_the_branch_was_made(self, spaces: LocalWorkspaces, repo: Path) -> None:
        git(repo, "branch", "openab/4711")
        tree = await made(spaces, repo)
        assert git(tree, "rev-parse", "--abbrev-ref", "HEAD") == "openab/4711"

    async def test_when_the_folder_was_made_and_nothing_in_it(
        self, spaces: LocalWorkspaces, repo: Path, tmp_path: Path
    ) -> None:
        tree = tmp_path / "own" / "workspaces" / "900" / "4711" / "api"
        tree.mkdir(parents=True)
        assert await made(spaces, repo) == tree
        assert (tree / "src" / "a.py").exists()

    @pytest.mark.parametrize("has_files", [True, False])
    async def test_in_the_middle_of_the_checkout(
        self, spaces: LocalWorkspaces, repo: Path, has_files: bool
    ) -> None:
        tree = await made(spaces, repo)
        (repo / ".git" / "worktrees" / "api" / "locked").write_text("initializing\n")
        (tree / "src" / "a.py").unlink()
        if not has_files:
            (tree / ".git").unlink()
        again = await spaces.restored(THREAD, str(repo))
        assert again.path == str(tree)
        assert (tree / "src" / "a.py").read_text() == "a = 1\n"
        assert git(tree, "status", "--porcelain") == ""

    async def test_when_somebody_has_removed_the_folder(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        tree = await made(spaces, repo)
        git(tree, "commit", "-q", "--allow-empty", "-m", "second")
        mine = git(tree, "rev-parse", "HEAD")
        shutil.rmtree(tree)
        assert (await spaces.restored(THREAD, str(repo))).path == str(tree)
        assert git(tree, "rev-parse", "HEAD") == mine

    async def test_while_its_git_still_works_on_it(
        self, spaces: LocalWorkspaces, repo: Path, tmp_path: Path
    ) -> None:
        place = tmp_path / "own" / "workspaces" / "900" / "4711"
        place.mkdir(parents=True)
        orphan = holder_of(place)
        try:
            with pytest.raises(WorkspaceRefused) as refused:
                await made(spaces, repo)
            assert refused.value.fault is Fault.BUSY
        finally:
            orphan.kill()
            orphan.wait()
        assert (await made(spaces, repo)).is_dir()


class TestRefusals:
    async def test_no_repository(self, spaces: LocalWorkspaces, home: Path) -> None:
        await refused(spaces, home, Fault.NOT_A_REPOSITORY)

    async def test_a_bare_one(self, spaces: LocalWorkspaces, home: Path) -> None:
        git(home, "init", "-q", "--bare", "bare")
        await refused(spaces, home / "bare", Fault.NOT_A_REPOSITORY)

    async def test_one_without_a_commit(self, spaces: LocalWorkspaces, home: Path) -> None:
        git(home, "init", "-q", "empty")
        await refused(spaces, home / "empty", Fault.NO_COMMIT)

    async def test_no_such_folder(self, spaces: LocalWorkspaces, home: Path) -> None:
        await refused(spaces, home / "gone", Fault.MISSING)

    async def test_a_strangers_files_are_not_touched(
        self, spaces: LocalWorkspaces, repo: Path, tmp_path: Path
    ) -> None:
        place = tmp_path / "own" / "workspaces" / "900" / "4711"
        (place / "api").mkdir(parents=True)
        (place / "api" / "notes").write_text("keep me")
        assert (await made(spaces, repo)).name.startswith("api-")
        assert (place / "api" / "notes").read_text() == "keep me"

    async def test_both_branches_in_use(
        self, spaces: LocalWorkspaces, repo: Path, tmp_path: Path
    ) -> None:
        for name in ("openab/4711", "openab/4711-900"):
            git(repo, "worktree", "add", "-q", "-b", name, str(tmp_path / name.replace("/", "_")))
        await refused(spaces, repo, Fault.TAKEN)

    async def test_no_git(self, tmp_path: Path, home: Path) -> None:
        without = LocalWorkspaces(tmp_path / "own", home, {"PATH": str(tmp_path)})
        await refused(without, home, Fault.NO_GIT)


async def refused(spaces: LocalWorkspaces, base: Path, fault: Fault) -> None:
    with pytest.raises(WorkspaceRefused) as error:
        await spaces.worktree(THREAD, str(base))
    assert error.value.fault is fault


class TestNamed:
    async def test_a_folder_inside_the_home_folder(
        self, spaces: LocalWorkspaces, home: Path, repo: Path
    ) -> None:
        (home / "link").symlink_to(repo)
        assert await spaces.named(str(home / "link")) == str(repo)

    @pytest.mark.parametrize("folder", ["gone", "file", "link-out", "../outside", "\0", "loop"])
    async def test_nothing_else(self, spaces: LocalWorkspaces, home: Path, folder: str) -> None:
        outside = home.parent / "outside"
        outside.mkdir()
        (home / "file").write_text("x")
        (home / "link-out").symlink_to(outside)
        (home / "loop").symlink_to(home / "loop")
        with pytest.raises(WorkspaceRefused) as error:
            await spaces.named(str(home / folder))
        is_outside = folder in {"link-out", "../outside"}
        assert error.value.fault is (Fault.OUTSIDE_HOME if is_outside else Fault.MISSING)


class TestGit:
    async def test_runs_no_hooks_and_gets_no_secrets(
        self, spaces: LocalWorkspaces, repo: Path
    ) -> None:
        hook = repo / ".git" / "hooks" / "post-checkout"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\nenv > {repo}/leak\n")
        hook.chmod(0o755)
        git(repo, "config", "alias.secrets", "!env")
        await made(spaces, repo)
        assert not (repo / "leak").exists()
        assert "OPENAB_SECRET" not in await Git(ENV)(str(repo), "secrets")

    async def test_is_ended_when_it_takes_too_long(self, repo: Path) -> None:
        git(repo, "config", "alias.slow", "!echo $$ > pid; sleep 60")
        with pytest.raises(WorkspaceRefused, match="did not end within"):
            await Git(ENV, seconds=2)(str(repo), "slow")
        pid = int((repo / "pid").read_text())
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"


def mode_of(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


async def test_a_folder_of_its_own_is_made_once(spaces: LocalWorkspaces) -> None:
    first = Path(await spaces.folder(THREAD))
    (first / "x").write_text("kept")
    assert await spaces.folder(THREAD) == str(first)
    assert await spaces.folder(OTHER) != str(first)
    assert (first / "x").read_text() == "kept"
    assert mode_of(first) == 0o700
    assert await spaces.exists(str(first))
    assert not await spaces.exists(str(first / "x"))
