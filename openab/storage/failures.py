"""What can go wrong with a statement or a commit, translated into the error tree."""

import asyncio
import re
import sqlite3

from sqlalchemy import exc

from openab.domain.errors import OpenabError, Rejected, Transient, Unknown
from openab.storage.trouble import Trouble, of_os, of_postgres, of_sqlite


class DatabaseUnavailable(Transient):
    """The database did not do it: out of reach, busy, full or shutting down. Nothing was changed."""

    def __init__(self, message: str, trouble: Trouble = Trouble.AWAY) -> None:
        super().__init__(message)
        #: Why, and so what people can do about it.
        self.trouble = trouble

    @property
    def told(self) -> str:
        """The reason, and what to do."""
        return f"{self}; {self.trouble.remedy}"


class CommitUnknown(Unknown):
    """The connection broke during COMMIT: what the transaction wrote may be there or not."""


class Conflict(Rejected):
    """A constraint refused the row; the transaction goes on only if a savepoint was around it."""

    def __init__(self, message: str, constraint: str | None = None) -> None:
        super().__init__(message)
        #: The constraint's name where the database tells it (SQLite names columns instead).
        self.constraint = constraint


class Unwritable(Rejected):
    """A value does not fit its column (a number too large, NUL in a short name)."""


#: SQLite's result codes that tell for sure that COMMIT did not happen: BUSY, READONLY, FULL.
_SQLITE_NOT_COMMITTED = frozenset({5, 8, 13})
#: Classes in which the server says that COMMIT did not happen: integrity, state, roll-back, resources.
_POSTGRES_NOT_COMMITTED = ("23", "25", "40", "53")
#: Of the class of roll-backs, but it says that nobody knows.
_POSTGRES_UNKNOWN = "40003"
#: A value, or a program, beyond what the server can take.
_POSTGRES_UNWRITABLE = ("22", "54")


def translated(error: Exception) -> Exception:
    """The error of our tree that `error` means; `error` itself where it is a bug."""
    if isinstance(error, OpenabError):
        return error
    if isinstance(error, exc.IntegrityError):
        return _conflict(error)
    if _is_unwritable(error):
        return Unwritable(_message(error))
    trouble = _trouble(error)
    return DatabaseUnavailable(_message(error), trouble) if trouble else error


def translated_commit(error: Exception) -> Exception:
    """The same for COMMIT, where only the server's word proves that nothing happened."""
    if isinstance(error, exc.IntegrityError):
        return _conflict(error)
    code, state = _sqlite_code(error), _sqlstate(error) or ""
    is_refused = state.startswith(_POSTGRES_NOT_COMMITTED) and state != _POSTGRES_UNKNOWN
    if is_refused or (code is not None and code & 0xFF in _SQLITE_NOT_COMMITTED):
        return DatabaseUnavailable(_message(error), _trouble(error) or Trouble.BUSY)
    return CommitUnknown(_message(error))


def _conflict(error: exc.IntegrityError) -> Conflict:
    cause = getattr(error.orig, "__cause__", None)
    name = getattr(cause, "constraint_name", None)
    found = re.match(r"CHECK constraint failed: (\w+)$", str(error.orig))
    return Conflict(_message(error), name or (found[1] if found else None))


def _trouble(error: Exception) -> Trouble | None:
    """Why the database does not do it now; None: that is not what the error says."""
    code, state = _sqlite_code(error), _sqlstate(error)
    known = of_postgres(state) if state else of_sqlite(code) if code is not None else None
    if known:
        return known
    if isinstance(error, exc.DBAPIError):
        return Trouble.AWAY if error.connection_invalidated else None
    if isinstance(error, exc.TimeoutError):
        # Our own pool: all connections are in use.
        return Trouble.BUSY
    # The driver lets time-outs and refused connections through as they are.
    if isinstance(error, OSError):
        return of_os(error.errno)
    return Trouble.AWAY if isinstance(error, asyncio.TimeoutError | sqlite3.Error) else None


def _is_unwritable(error: Exception) -> bool:
    if isinstance(error, UnicodeError | OverflowError | exc.DataError):
        return True
    # asyncpg refuses a value that it cannot encode before it asks the server.
    cause = getattr(getattr(error, "orig", None), "__cause__", None)
    refused = isinstance(error, exc.InterfaceError) and isinstance(cause, ValueError)
    return refused or (_sqlstate(error) or "").startswith(_POSTGRES_UNWRITABLE)


def _sqlite_code(error: Exception) -> int | None:
    code = getattr(_driver(error), "sqlite_errorcode", None)
    return None if code is None else int(code)


def _sqlstate(error: Exception) -> str | None:
    return getattr(_driver(error), "sqlstate", None)


def _driver(error: Exception) -> object:
    """The driver's own error; before there is a connection nothing is wrapped around it."""
    return getattr(error, "orig", None) or error


def _message(error: Exception) -> str:
    # Only the driver's first sentence: details and parameters quote what people wrote.
    original = _driver(error)
    return f"{type(original).__name__}: {str(original).splitlines()[0] if str(original) else '-'}"
