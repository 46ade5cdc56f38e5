"""Database addresses."""

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.database_url import (
    DatabaseUrlInvalid,
    database_address,
    parse_database_url,
)

HOME = "/home/me"


@pytest.mark.parametrize(
    ("written", "url", "file"),
    [
        ("sqlite:///~/.openab/openab.db", "sqlite+aiosqlite:////home/me/.openab/openab.db",
         "/home/me/.openab/openab.db"),
        ("sqlite:////var/x.db", "sqlite+aiosqlite:////var/x.db", "/var/x.db"),
        ("sqlite:///here.db", "sqlite+aiosqlite:///here.db", "here.db"),
        ("sqlite+aiosqlite:////var/x.db", "sqlite+aiosqlite:////var/x.db", "/var/x.db"),
    ],
)  # fmt: skip
def test_sqlite_is_a_file(written: str, url: str, file: str) -> None:
    address = parse_database_url(written, HOME)

    assert (address.url, address.file, address.is_sqlite) == (url, file, True)


@pytest.mark.parametrize(
    ("written", "url", "masked"),
    [
        ("postgres://h/d", "postgresql+asyncpg://h/d", "postgresql://h/d"),
        ("postgresql://u@h:5/d", "postgresql+asyncpg://u@h:5/d", "postgresql://u@h:5/d"),
        ("postgresql+asyncpg://u:p@[::1]:5/d", "postgresql+asyncpg://u:p@[::1]:5/d",
         "postgresql://u:***@[::1]:5/d"),
        ("postgres://u:p%40@h/d?sslmode=require", "postgresql+asyncpg://u:p%40@h/d?ssl=require",
         "postgresql://u:***@h/d?ssl=require"),
        ("postgresql:///d?host=/run/pg", "postgresql+asyncpg:///d?host=/run/pg",
         "postgresql:///d?host=/run/pg"),
    ],
)  # fmt: skip
def test_postgres_speaks_asyncpg(written: str, url: str, masked: str) -> None:
    address = parse_database_url(written, HOME)

    assert (address.url, address.masked, address.is_sqlite) == (url, masked, False)


@given(user=st.text(min_size=1, max_size=20), password=st.text(min_size=1, max_size=20))
def test_every_login_survives_and_no_password_is_shown(user: str, password: str) -> None:
    made = sa.URL.create("postgresql", user, password, "h", 5, "d")

    address = parse_database_url(made.render_as_string(hide_password=False), HOME)

    read = sa.make_url(address.url)
    assert (read.username, read.password, read.host, read.database) == (user, password, "h", "d")
    assert ":***@" in address.masked
    assert address.masked in repr(address)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("mysql://u:secret@h/d", "mysql:// is not served"),
        ("postgresql+psycopg2://u:secret@h/d", "is not served"),
        ("secret", "no database address"),
        ("sqlite://", "three slashes"),
        ("sqlite://secret/x.db", "three slashes"),
        ("sqlite:///", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("sqlite:///x.db?mode=ro", "no parameters"),
        ("postgresql://u:secret@h", "name is missing"),
        ("postgresql://u:secret@h:port/d", "cannot be read"),
        ("postgresql://u:secret/x@h/d", "cannot be read"),
        ("postgresql://u:1/secret@h/d", "holds /"),
        ("postgresql://u:secret@h/d?sslmode=on", "sslmode cannot be"),
        ("postgresql://u:secret@h/d?sslrootcert=/ca", "sslrootcert cannot stand"),
        ("postgresql://u:secret@h/d?channel_binding=require", "channel_binding is not served"),
    ],
)
def test_an_unusable_address_says_why_and_never_its_password(written: str, said: str) -> None:
    with pytest.raises(DatabaseUrlInvalid) as raised:
        parse_database_url(written, HOME)

    assert said in raised.value.message
    assert raised.value.remedy
    assert "secret" not in str(raised.value)


def test_the_variable_beats_the_file_which_beats_the_own_folder() -> None:
    variable = {"OPENAB_DATABASE_URL": "sqlite:////v.db"}
    empty = {"OPENAB_DATABASE_URL": ""}

    def file(environ: dict[str, str], configured: str) -> str | None:
        return database_address(environ, configured, home=HOME, folder="/own").file

    assert file(variable, "sqlite:////c.db") == "/v.db"
    assert file(empty, "sqlite:////c.db") == "/c.db"
    assert file({}, "") == "/own/openab.db"


@pytest.mark.parametrize("path", ["/a b/c.db", "/50%/x.db", "/%41/x.db", "/ü#1+/x.db"])
def test_the_engine_opens_the_file_that_was_written(path: str) -> None:
    address = parse_database_url(f"sqlite:///{path}", HOME)

    assert sa.make_url(address.url).database == path
