"""`openab deliveries resend ID`: owed anew once, however often it is typed."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from openab.storage.engine import Database
from tests import stories
from tests.commands import Ended, environment, openab


@pytest.fixture
async def env(tmp_path: Path, migrated_sqlite_address: str) -> dict[str, str]:
    database = await Database.open(migrated_sqlite_address)
    await stories.tell(database)
    await database.close()
    path = migrated_sqlite_address.partition(":///")[2]
    return environment(tmp_path, OPENAB_DATABASE_URL=f"sqlite:///{path}")


async def test_a_dead_delivery_is_owed_anew_once(env: dict[str, str], tmp_path: Path) -> None:
    async def typed(*words: str) -> Ended:
        return await openab("deliveries", *words, env=env, folder=tmp_path)

    listed = [json.loads(line) for line in (await typed("--json")).out.splitlines()]
    (dead,) = (line for line in listed if line["dead_reason"] == "forbidden")
    first, second = await typed("resend", dead["id"]), await typed("resend", dead["turn_id"])
    assert (first.code, first.out) == (0, "owed anew: 1\n")
    assert (second.code, second.out) == (0, "was owed anew before, nothing to do\n")
    nobody = await typed("resend", "nobody")
    assert (nobody.code, nobody.out) == (1, "")
    assert "nobody names no message that could not be delivered" in nobody.err
    with closing(sqlite3.connect(env["OPENAB_DATABASE_URL"].partition(":///")[2])) as opened:
        states = opened.execute(
            "SELECT version, state FROM deliveries WHERE turn_id = ? AND part = ? ORDER BY version",
            (dead["turn_id"], dead["part"]),
        ).fetchall()
    assert states == [(1, "dead"), (2, "pending")]
