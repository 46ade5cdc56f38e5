"""A broker whose SQLite file can be read only for as long as the file that its environment names is there."""

import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from openab.storage import dialect

#: The name of that environment variable.
VARIABLE = "OPENAB_TEST_READ_ONLY"
_make = dialect._sqlite_engine


def _troubled(path: Path, **pool: Any) -> AsyncEngine:
    engine = _make(path, **pool)

    def taken(connection: Any, _record: object, _proxy: object) -> None:
        state = "ON" if Path(os.environ[VARIABLE]).exists() else "OFF"
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA query_only={state}")
        cursor.close()

    # Readers are that already.
    if pool.get("pool_size") == 1:
        sa.event.listen(engine.sync_engine.pool, "checkout", taken)
    return engine


if __name__ == "__main__":
    dialect._sqlite_engine = _troubled
    from openab.cli.main import main

    main()
