"""Proof of a process's death: a file that it keeps locked for as long as it lives, its own alone."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote
from uuid import uuid4

from openab.app.account_lock import boot_id, sign, try_lock

#: What a lease's row has room for; a longer path is left out, and then nothing is proved by it.
LONGEST_PROOF = 1024
#: Leases of a process that died so long ago have ended by themselves.
_FORGOTTEN_SECONDS = 3600.0
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class LifeLock:
    """One life of one process: made and locked by `acquire`, let go by `release` or by its death.

    The file stays when the process ends, so that its death can still be proved; `sweep` removes it
    later. Programs that this process starts do not inherit it.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is `$OPENAB_HOME/locks`; it is made when needed."""
        self._path = folder / f"life-{uuid4().hex}.lock"
        self._file: int | None = None

    def acquire(self) -> None:
        """Begin this life. Once."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._path, flags, 0o600)
        try:
            # Nobody else knows the file yet.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sign(file)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """End this life. Repeatable."""
        held, self._file = self._file, None
        if held is not None:
            os.close(held)

    @property
    def proof(self) -> str:
        """`boot:device:inode:path` of the held file, for others to prove our death by."""
        if self._file is None:
            raise RuntimeError("the life's lock is not held")
        identity = f"{boot_id()}:{_identity(self._file)}"
        proof = f"{identity}:{quote(os.fsencode(self._path.absolute()))}"
        return proof if len(proof) <= LONGEST_PROOF else identity


def proves_dead(proof: str) -> bool:
    """Whether the process that once gave this proof is certainly dead; False: nothing is proved.

    Dead is who kept, on this boot of this machine, exactly the file that stands there, and keeps it
    no more. Blocks for a moment.
    """
    boot, _, rest = proof.partition(":")
    identity, _, path = _split(rest)
    if not path or boot != boot_id():
        return False
    with _opened(os.fsdecode(unquote(path, errors="surrogateescape"))) as file:
        # First compare, then try: the lock of another file tells nothing.
        return file is not None and _identity(file) == identity and try_lock(file, fcntl.LOCK_SH)


def sweep(folder: Path) -> int:
    """Remove the files of processes that died long ago; how many. Blocks for a moment."""
    removed = 0
    for path in folder.glob("life-*.lock"):
        with suppress(OSError), _opened(path) as file:
            if file is None or time.time() - os.fstat(file).st_mtime < _FORGOTTEN_SECONDS:
                continue
            if try_lock(file, fcntl.LOCK_SH):
                path.unlink()
                removed += 1
    return removed


def _split(rest: str) -> tuple[str, str, str]:
    device, _, more = rest.partition(":")
    inode, colon, path = more.partition(":")
    return f"{device}:{inode}", colon, path


def _identity(file: int) -> str:
    status = os.fstat(file)
    return f"{status.st_dev}:{status.st_ino}"


@contextmanager
def _opened(path: str | Path) -> Iterator[int | None]:
    try:
        file = os.open(path, _READ)
    except (OSError, ValueError):
        # Not there, not for us, or no path at all: no proof either way.
        yield None
        return
    try:
        yield file
    finally:
        os.close(file)
