"""One process per account and machine, whatever happened to the one before."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openab.app import account_lock
from openab.app.account_lock import AccountLock, AccountTaken

HOLDER = """
import sys
from pathlib import Path
from openab.app.account_lock import AccountLock
lock = AccountLock(Path(sys.argv[1]), "discord", "42")
lock.acquire()
print(lock.proof, flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that holds the account's lock."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        self.pid = self._process.pid
        self.proof = self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "locks"


@pytest.fixture
def hold(folder: Path) -> Iterator[Callable[[], Holder]]:
    holders: list[Holder] = []

    def start() -> Holder:
        holders.append(Holder(folder))
        return holders[-1]

    yield start
    for holder in holders:
        holder.kill()


@pytest.fixture
def lock(folder: Path) -> Iterator[AccountLock]:
    ours = AccountLock(folder, "discord", "42")
    yield ours
    ours.release()


def test_a_living_process_keeps_its_account(hold: Callable[[], Holder], lock: AccountLock) -> None:
    holder = hold()
    with pytest.raises(AccountTaken, match=f"process {holder.pid} .*discord account 42") as taken:
        lock.acquire()
    assert taken.value.pid == holder.pid


def test_a_killed_process_is_succeeded(hold: Callable[[], Holder], lock: AccountLock) -> None:
    holder = hold()
    holder.kill()
    lock.acquire()
    assert lock.proof == holder.proof


def test_looking_does_not_stop_a_start(
    folder: Path, lock: AccountLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.acquire()
    lock.release()
    looking, tried = os.open(folder / "discord-42.lock", os.O_RDONLY), threading.Event()
    assert account_lock.try_lock(looking, fcntl.LOCK_SH)

    def end_the_look(_: float) -> None:
        if not tried.is_set():
            os.close(looking)
        tried.set()

    monkeypatch.setattr(time, "sleep", end_the_look)
    lock.acquire()
    assert tried.is_set()
    assert lock.proof


def test_two_accounts_do_not_meet(folder: Path) -> None:
    with AccountLock(folder, "discord", "1") as one, AccountLock(folder, "discord", "2") as other:
        assert one.proof != other.proof


def test_a_second_lock_in_one_process_is_refused(folder: Path, lock: AccountLock) -> None:
    lock.acquire()
    with pytest.raises(AccountTaken) as taken:
        AccountLock(folder, "discord", "42").acquire()
    assert taken.value.pid == os.getpid()


def test_acquire_and_release_are_repeatable(folder: Path, lock: AccountLock) -> None:
    lock.release()
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.release()
    with AccountLock(folder, "discord", "42"), pytest.raises(RuntimeError, match="not held"):
        _ = lock.proof


def test_files_are_ours_alone(folder: Path, lock: AccountLock) -> None:
    folder.mkdir(parents=True, mode=0o755)
    (folder / "discord-42.lock").touch(mode=0o644)
    lock.acquire()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "discord-42.lock").stat().st_mode & 0o777 == 0o600
    assert (folder / "discord-42.lock").read_text() == f"{os.getpid()}\n"


def test_an_account_cannot_leave_the_folder(folder: Path) -> None:
    with AccountLock(folder, "discord", "../../x"):
        assert [path.name for path in folder.iterdir()] == ["discord-..%2F..%2Fx.lock"]


def test_a_symbolic_link_is_not_followed(folder: Path, lock: AccountLock, tmp_path: Path) -> None:
    folder.mkdir(parents=True)
    target = tmp_path / "precious"
    target.write_text("kept")
    (folder / "discord-42.lock").symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        lock.acquire()
    assert target.read_text() == "kept"


def test_a_child_does_not_inherit_the_lock(
    hold: Callable[[], Holder], folder: Path, lock: AccountLock
) -> None:
    lock.acquire()
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False
    )
    try:
        lock.release()
        other = AccountLock(folder, "discord", "42")
        other.acquire()
        assert other.proof
        other.release()
    finally:
        child.communicate(b"\n", timeout=10)


def test_without_a_boot_id_the_system_is_described(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = account_lock.boot_id()
    monkeypatch.setattr(account_lock, "_BOOT_ID", tmp_path / "none")
    described = account_lock.boot_id()
    assert described == account_lock.boot_id() != real
    assert ":" not in described
