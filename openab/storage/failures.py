"""What can go wrong with a statement or a commit, translated into the error tree."""

import asyncio
import re
import sqlite3

from sqlalchemy import exc

from openab.domain.errors import OpenabError, Rejected, Transient, Unknown


class DatabaseUnavailable(Transient):
    """The database did not do it: out of reach, busy, full or shutting down. Nothing was changed."""


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


#: SQLite's primary result codes for "not now": BUSY LOCKED NOMEM READONLY INTERRUPT IOERR FULL
#: CANTOPEN PROTOCOL.
_SQLITE_NOT_NOW = frozenset({5, 6, 7, 8, 9, 10, 13, 14, 15})
#: SQLite's result codes that tell for sure that COMMIT did not happen: BUSY, FULL.
_SQLITE_NOT_COMMITTED = frozenset({5, 13})
#: Connection, read-only stand-by, roll-back, resources, operator, system; and lock_not_available.
_POSTGRES_NOT_NOW = ("08", "25006", "40", "53", "57", "58", "55P03")
#: Roll-back and integrity classes: the server said that COMMIT did not happen.
_POSTGRES_NOT_COMMITTED = ("40", "23")


def translated(error: Exception) -> Exception:
    """The error of our tree that `error` means; `error` itself where it is a bug."""
    if isinstance(error, OpenabError):
        return error
    if isinstance(error, exc.IntegrityError):
        return _conflict(error)
    if _is_unwritable(error):
        return Unwritable(_message(error))
    return DatabaseUnavailable(_message(error)) if _is_not_now(error) else error


def translated_commit(error: Exception) -> Exception:
    """The same for COMMIT, where only the server's word proves that nothing happened."""
    if isinstance(error, exc.IntegrityError):
        return _conflict(error)
    code, state = _sqlite_code(error), _sqlstate(error)
    if code in _SQLITE_NOT_COMMITTED or (state or "").startswith(_POSTGRES_NOT_COMMITTED):
        return DatabaseUnavailable(_message(error))
    return CommitUnknown(_message(error))


def _conflict(error: exc.IntegrityError) -> Conflict:
    cause = getattr(error.orig, "__cause__", None)
    name = getattr(cause, "constraint_name", None)
    found = re.match(r"CHECK constraint failed: (\w+)$", str(error.orig))
    return Conflict(_message(error), name or (found[1] if found else None))


def _is_not_now(error: Exception) -> bool:
    if isinstance(error, exc.DBAPIError):
        code, state = _sqlite_code(error), _sqlstate(error)
        known = code in _SQLITE_NOT_NOW or (state or "").startswith(_POSTGRES_NOT_NOW)
        return error.connection_invalidated or known
    # The driver lets time-outs and refused connections through as they are.
    return isinstance(error, OSError | asyncio.TimeoutError | exc.TimeoutError | sqlite3.Error)


def _is_unwritable(error: Exception) -> bool:
    if isinstance(error, UnicodeError | OverflowError | exc.DataError):
        return True
    # asyncpg refuses a value that it cannot encode before it asks the server.
    cause = getattr(getattr(error, "orig", None), "__cause__", None)
    refused = isinstance(error, exc.InterfaceError) and isinstance(cause, ValueError)
    return refused or (_sqlstate(error) or "").startswith("22")


def _sqlite_code(error: Exception) -> int | None:
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _sqlstate(error: Exception) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)


def _message(error: Exception) -> str:
    # Only the driver's first sentence: details and parameters quote what people wrote.
    original = getattr(error, "orig", None) or error
    return f"{type(original).__name__}: {str(original).splitlines()[0] if str(original) else '-'}"
