"""What keeps a database from doing its work, by its error codes, and what people can do about it."""

import errno
from enum import StrEnum


class Trouble(StrEnum):
    """Why the database does not do it now. Each is waited out: nothing is given up."""

    #: Somebody else holds what is needed, or the server has no more connections.
    BUSY = "busy"
    #: No room on the disk.
    FULL = "full"
    #: It can be read only.
    READ_ONLY = "read_only"
    #: It does not let us in.
    REFUSED = "refused"
    #: The disk or the server reports an error of its own.
    BROKEN = "broken"
    #: It is out of reach, stopping or starting.
    AWAY = "away"

    @property
    def remedy(self) -> str:
        """What to do; openab goes on by itself once that is done."""
        return _REMEDIES[self]


_REMEDIES = {
    Trouble.BUSY: "find out who holds it, and end that",
    Trouble.FULL: "make room on its disk",
    Trouble.READ_ONLY: "let openab's user write to it (file, folder and disk; on Postgres: no stand-by)",
    Trouble.REFUSED: "check the address, the user and the permissions",
    Trouble.BROKEN: "look at the disk and at the database's own log; a damaged file needs a backup",
    Trouble.AWAY: "start it, or mend the way to it",
}
#: SQLite's primary result codes: PERM BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT FULL
#: CANTOPEN PROTOCOL AUTH NOTADB.
_SQLITE = {
    3: Trouble.REFUSED,
    5: Trouble.BUSY,
    6: Trouble.BUSY,
    7: Trouble.BUSY,
    8: Trouble.READ_ONLY,
    9: Trouble.AWAY,
    10: Trouble.BROKEN,
    11: Trouble.BROKEN,
    13: Trouble.FULL,
    14: Trouble.REFUSED,
    15: Trouble.BUSY,
    23: Trouble.REFUSED,
    26: Trouble.BROKEN,
}
#: IOERR_SHMSIZE: the index of the log could not grow.
_SQLITE_EXTENDED = {4874: Trouble.FULL}
#: By the beginning of SQLSTATE; the longest that fits counts.
_POSTGRES = {
    "08": Trouble.AWAY,
    "25006": Trouble.READ_ONLY,
    "25P03": Trouble.AWAY,
    "28": Trouble.REFUSED,
    "3D": Trouble.REFUSED,
    "40": Trouble.BUSY,
    "42501": Trouble.REFUSED,
    "53": Trouble.BUSY,
    "53100": Trouble.FULL,
    "55P03": Trouble.BUSY,
    "57": Trouble.AWAY,
    "58": Trouble.BROKEN,
    "XX": Trouble.BROKEN,
}
_LONGEST = 5


#: Of files and folders, before a database is open.
_ERRNO = {
    errno.ENOSPC: Trouble.FULL,
    errno.EDQUOT: Trouble.FULL,
    errno.EROFS: Trouble.READ_ONLY,
    errno.EACCES: Trouble.REFUSED,
    errno.EPERM: Trouble.REFUSED,
    errno.EIO: Trouble.BROKEN,
}


def of_os(number: int | None) -> Trouble:
    """The trouble that an operating system's error number tells."""
    return _ERRNO.get(number or 0, Trouble.AWAY)


def of_sqlite(code: int) -> Trouble | None:
    """The trouble that a result code tells; None: it tells of something else, such as a bug."""
    return _SQLITE_EXTENDED.get(code) or _SQLITE.get(code & 0xFF)


def of_postgres(sqlstate: str) -> Trouble | None:
    """The same for a server's SQLSTATE."""
    found = (_POSTGRES.get(sqlstate[:length]) for length in range(_LONGEST, 1, -1))
    return next(filter(None, found), None)
