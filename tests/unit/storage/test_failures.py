"""Driver errors in the error tree: what a caller may do about each."""

import sqlite3
from typing import Any

import pytest
from sqlalchemy import exc

from openab.domain.errors import Rejected, Transient, Unknown
from openab.storage.failures import (
    CommitUnknown,
    Conflict,
    DatabaseUnavailable,
    Unwritable,
    translated,
    translated_commit,
)


def sqlite_error(code: int, text: str = "a failure", kind: Any = sqlite3.OperationalError) -> Any:
    error = kind(text)
    error.sqlite_errorcode = code
    wrapper = exc.IntegrityError if kind is sqlite3.IntegrityError else exc.OperationalError
    return wrapper("SELECT secret", {}, error)


class ServerError(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__("a failure\nDETAIL: secret")
        self.sqlstate = sqlstate


def postgres_error(sqlstate: str, *, is_cut_off: bool = False) -> exc.DBAPIError:
    return exc.DBAPIError(
        "SELECT secret", {}, ServerError(sqlstate), connection_invalidated=is_cut_off
    )


@pytest.mark.parametrize(
    "error",
    [
        sqlite_error(5),  # BUSY
        sqlite_error(517),  # BUSY_SNAPSHOT: the low byte tells the kind
        sqlite_error(10),  # IOERR
        sqlite_error(13),  # FULL
        postgres_error("08006"),
        postgres_error("40001"),
        postgres_error("40P01"),
        postgres_error("53300"),
        postgres_error("55P03"),
        postgres_error("57014"),
        postgres_error("57P01"),
        postgres_error("XX000", is_cut_off=True),
        TimeoutError(),
        ConnectionRefusedError("refused"),
        exc.TimeoutError("the pool is empty"),
    ],
)
def test_not_now_is_transient(error: Exception) -> None:
    found = translated(error)
    assert isinstance(found, DatabaseUnavailable)
    assert isinstance(found, Transient)


@pytest.mark.parametrize("error", [sqlite_error(1, "no such table: x"), postgres_error("42P01")])
def test_a_bug_stays_a_bug(error: Exception) -> None:
    assert translated(error) is error


def test_what_is_translated_already_stays() -> None:
    error = DatabaseUnavailable("closed")
    assert translated(error) is error


@pytest.mark.parametrize("error", [postgres_error("22021"), OverflowError("2**70")])
def test_a_value_that_does_not_fit_is_rejected(error: Exception) -> None:
    assert isinstance(translated(error), Unwritable)


def test_a_constraint_is_named_where_the_database_names_it() -> None:
    check = "CHECK constraint failed: ck_turns_state"
    found = translated(sqlite_error(275, check, sqlite3.IntegrityError))
    assert isinstance(found, Conflict)
    assert isinstance(found, Rejected)
    assert found.constraint == "ck_turns_state"


@pytest.mark.parametrize(
    "error", [postgres_error("57P01"), postgres_error("08006"), TimeoutError(), sqlite_error(10)]
)
def test_a_commit_without_an_answer_is_unknown(error: Exception) -> None:
    found = translated_commit(error)
    assert isinstance(found, CommitUnknown)
    assert isinstance(found, Unknown)


@pytest.mark.parametrize("error", [postgres_error("40001"), sqlite_error(5), sqlite_error(13)])
def test_a_commit_that_was_refused_did_not_happen(error: Exception) -> None:
    assert isinstance(translated_commit(error), DatabaseUnavailable)


def test_a_commit_against_a_constraint_is_a_conflict() -> None:
    error = sqlite_error(787, "FOREIGN KEY constraint failed", sqlite3.IntegrityError)
    assert isinstance(translated_commit(error), Conflict)


def test_details_and_statements_are_not_repeated() -> None:
    assert "secret" not in str(translated(postgres_error("40001")))
    assert "secret" not in str(translated_commit(postgres_error("08006")))
