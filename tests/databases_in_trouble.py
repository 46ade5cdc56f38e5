"""Databases that refuse to work, by their own hand: full, read-only, cut off."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from openab.storage.engine import Database
from openab.storage.schema import accounts
from tests.builders import CHANNEL

#: SQLite's own limit of pages when nothing else is set.
_MOST_PAGES = 1_073_741_823


class Refusing:
    """Makes a database refuse what is written from the next transaction on, until it is healed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_sqlite = database.dialect == "sqlite"
        self._statement = ""
        self._healing = ""
        engine = database._dialect.writer.sync_engine
        if self._is_sqlite:
            # Before BEGIN, which a database that can only be read refuses, too.
            sa.event.listen(engine.pool, "checkout", self._taken)
        else:
            sa.event.listen(engine, "begin", self._begun)

    def read_only(self) -> None:
        """It may be read only."""
        if self._is_sqlite:
            self._statement, self._healing = "PRAGMA query_only=ON", "PRAGMA query_only=OFF"
        else:
            self._statement = "SET TRANSACTION READ ONLY"

    def full(self) -> None:
        """SQLite's file may not grow by a page; Postgres is made to say what it says on a full disk."""
        if self._is_sqlite:
            self._statement = "PRAGMA max_page_count=1"
            self._healing = f"PRAGMA max_page_count={_MOST_PAGES}"
        else:
            self._statement = (
                "DO $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device'"
                " USING ERRCODE = '53100'; END $$"
            )

    def heal(self) -> None:
        """From now on it does everything."""
        self._statement = ""

    def _taken(self, connection: Any, _record: object, _proxy: object) -> None:
        cursor = connection.cursor()
        cursor.execute(self._statement or self._healing or "PRAGMA schema_version")
        cursor.close()

    def _begun(self, connection: sa.Connection) -> None:
        if self._statement:
            connection.exec_driver_sql(self._statement)


@contextmanager
def small_disk(folder: Path, size: str = "2m") -> Iterator[Path | None]:
    """A disk of its own with little room; None where this process may not mount one."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def fill(disk: Path) -> Path:
    """Take all the room that is left; the file that does so."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for chunk in (65_536, 1):
            try:
                while file.write(b"x" * chunk):
                    pass
            except OSError:
                continue
    return filler


async def a_row(database: Database, account: str, size: int = 20_000) -> None:
    """Write something that needs new pages."""
    async with database.transaction() as tx:
        await tx.execute(
            accounts.insert().values(channel=CHANNEL, account=account, name="x" * size)
        )
