"""One SQLite file, several processes: one that leaves must not take the others' commits along."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

# Opens the file twice, as a broker and its lease renewal do, lets a visitor come and go, commits
# and is killed.
_BROKER = """
import asyncio, os, signal, sys
import sqlalchemy as sa
from openab.storage.engine import Database

async def main(url, path):
    database = await Database.open(url)
    async with database.transaction() as tx:
        await tx.execute(sa.text("CREATE TABLE kept (word TEXT)"))
    renewal = await Database.open(url)
    visit = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM kept').fetchall()"
    visitor = await asyncio.create_subprocess_exec(sys.executable, "-c", visit, path)
    assert await visitor.wait() == 0
    async with database.transaction() as tx:
        await tx.execute(sa.text("INSERT INTO kept VALUES ('committed')"))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


async def test_a_process_that_leaves_takes_no_commit_of_another_along(tmp_path: Path) -> None:
    path = tmp_path / "openab.db"
    url = f"sqlite+aiosqlite:///{path}"
    async with asyncio.timeout(30):
        broker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _BROKER, url, str(path)), stderr=asyncio.subprocess.PIPE
        )
        _, errors = await broker.communicate()
    assert broker.returncode == -9, errors.decode()
    with closing(sqlite3.connect(path)) as later:
        assert later.execute("SELECT word FROM kept").fetchall() == [("committed",)]
