"""One process per account on this machine: a locked file."""

import fcntl
import os
import platform
import time
import uuid
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil

from openab.domain.errors import Rejected

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW

# A former process may be ending right now; one that lives keeps the lock.
_TRIES = 10
_PAUSE_SECONDS = 0.02


class AccountTaken(Rejected):
    """Another process on this machine serves the account; `pid` is its number, if it told."""

    def __init__(self, channel: str, account: str, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"{who} on this machine already serves {channel} account {account}")
        self.pid = pid


class AccountLock:
    """The lock of one account, held from `acquire` to `release` or to the death of the process.

    The file is never deleted, so that its inode stays the account's. The kernel frees the lock of a
    killed process; a program that this process starts does not inherit it.
    """

    def __init__(self, folder: Path, channel: str, account: str) -> None:
        """`folder` is `$OPENAB_HOME/locks`; it is made when needed."""
        self._channel, self._account = channel, account
        self._path = folder / f"{quote(f'{channel}-{account}', safe='')}.lock"
        self._file: int | None = None

    def acquire(self) -> None:
        """Become the account's process on this machine. Raises AccountTaken; repeatable."""
        if self._file is not None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.parent.chmod(0o700)
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE_SECONDS)
            self._file = self._try()
            if self._file is not None:
                return
        raise AccountTaken(self._channel, self._account, self._pid_told())

    def release(self) -> None:
        """Let the account go. Repeatable."""
        held, self._file = self._file, None
        if held is not None:
            os.close(held)

    def __enter__(self) -> "AccountLock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def proof(self) -> str:
        """`boot:device:inode` of the held lock: whoever holds the same one now outlived us."""
        if self._file is None:
            raise RuntimeError("the account's lock is not held")
        return _proof(self._file)

    def _try(self) -> int | None:
        file = os.open(self._path, _OPEN | os.O_CREAT, 0o600)
        try:
            if try_lock(file, fcntl.LOCK_EX) and self._is_current(file):
                sign(file)
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return None

    def _is_current(self, file: int) -> bool:
        """Whether the path still leads to this file; somebody may have cleaned up in between."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(file), self._path.stat(follow_symlinks=False))
        return False

    def _pid_told(self) -> int | None:
        with suppress(OSError, ValueError):
            return int(self._path.read_text("ascii"))
        return None


def try_lock(file: int, kind: int) -> bool:
    """Lock an open file without waiting; False: somebody else keeps it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sign(file: int) -> None:
    """Write our process number into a lock's file, for people to read."""
    os.fchmod(file, 0o600)
    os.ftruncate(file, 0)
    os.pwrite(file, f"{os.getpid()}\n".encode("ascii"), 0)


def _proof(file: int) -> str:
    status = os.fstat(file)
    return f"{boot_id()}:{status.st_dev}:{status.st_ino}"


def boot_id() -> str:
    """What tells this boot of this machine from any other; where it may change within a boot, death is
    merely proved less often."""
    with suppress(OSError):
        return _BOOT_ID.read_text("ascii").strip()
    return f"{platform.node()}-{uuid.getnode():x}-{int(psutil.boot_time())}".replace(":", "-")
