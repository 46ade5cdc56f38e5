"""Counts the write commits of a SQLite database from outside, by the frames of its write-ahead log."""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_HEADER, _FRAME = 32, 24


class CommitCount:
    """Grows while the block of `counting` runs."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._before = _commits(log)

    @property
    def so_far(self) -> int:
        """The commits since the block began."""
        return _commits(self._log) - self._before


@contextmanager
def counting(database: Path) -> Iterator[CommitCount]:
    """Count from now on; a reader that stays open keeps SQLite from beginning the log anew."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        yield CommitCount(database.with_name(database.name + "-wal"))


def _commits(log: Path) -> int:
    """A frame that tells the database's size ends a commit; those of an older log have another salt."""
    with log.open("rb") as file:
        header = file.read(_HEADER)
        if len(header) < _HEADER:
            return 0
        page = struct.unpack_from(">I", header, 8)[0]
        salt, count = header[16:24], 0
        while len(frame := file.read(_FRAME)) == _FRAME and frame[8:16] == salt:
            count += frame[4:8] != bytes(4)
            file.seek(page, 1)
        return count
