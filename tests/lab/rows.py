"""Reads the rows that are judged, from outside: the broker's own code is not asked."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from tests.lab.observation import BindingSeen, HandoffSeen, SpawnSeen, TurnSeen, turn_of

_TURNS = (
    "SELECT t.id, c.conversation_id AS place, t.order_key, t.seq, t.state, t.outcome, t.attempt,"
    " t.raw, t.batch, t.trigger_message_id, t.started_at, t.answered_at, t.source, t.idempotency_key"
    " FROM turns t JOIN conversations c ON c.id = t.conversation"
)
_SPAWNS = (
    "SELECT s.id, s.state, c.conversation_id AS parent, s.parent_turn, d.platform_id AS starter,"
    " s.turn_id AS turn, s.session_key AS session FROM spawns s"
    " JOIN conversations c ON c.id = s.requester_conversation"
    " JOIN deliveries d ON d.id = s.starter_delivery"
)
_BINDINGS = (
    "SELECT b.session_key AS session, c.conversation_id AS place, b.state, b.ended_at"
    " FROM bindings b JOIN conversations c ON c.id = b.conversation"
)
_SESSIONS = "SELECT session_key AS session FROM sessions"
_HANDOFFS = "SELECT event_id, direction, state, turn_id AS turn FROM handoffs"
_STATES = "SELECT state, batch, source FROM turns"
_PREFIX = {"spawn": "spawn:", "completion": "completion:"}
_OWED = "SELECT count(*) AS owed FROM deliveries WHERE state IN ('pending', 'sending', 'unknown')"
_MARK = "SELECT intake_mark AS mark FROM accounts"
_RUNNING = "SELECT id, attempt, incarnation, state FROM turns WHERE outcome IS NULL"


class Rows:
    """The database of one laboratory: a file, or the address of a PostgreSQL database."""

    def __init__(self, database: Path | str) -> None:
        self._database = database
        self._connection: Any = None
        self._turn = asyncio.Lock()

    async def turns(self) -> list[TurnSeen]:
        """Every turn."""
        return [turn_of(row) for row in await self._read(_TURNS)]

    async def spawns(self) -> list[SpawnSeen]:
        """Every spawn."""
        rows = await self._read(_SPAWNS)
        return [SpawnSeen(**{**row, "starter": row["starter"] or ""}) for row in rows]

    async def bindings(self) -> list[BindingSeen]:
        """Every binding."""
        rows = await self._read(_BINDINGS)
        return [BindingSeen(**{**row, "ended_at": (row["ended_at"] or 0) / 1e6}) for row in rows]

    async def sessions(self, agent: str) -> list[str]:
        """The keys of a named agent's sessions."""
        keys = [str(row["session"]) for row in await self._read(_SESSIONS)]
        return [key for key in keys if key.endswith(f":{agent}")]

    async def handoffs(self) -> list[HandoffSeen]:
        """Every hand-off."""
        return [HandoffSeen(**row) for row in await self._read(_HANDOFFS)]

    async def ends(self) -> dict[str, str]:
        """Message id → the state of the turn that it is in; starters stand behind their turn's source."""
        return {
            _PREFIX.get(row["source"], "") + str(one["record"]["message_id"]): str(row["state"])
            for row in await self._read(_STATES)
            for one in json.loads(row["batch"])
        }

    async def running(self) -> dict[str, tuple[int, str]]:
        """The turns that run: id → attempt and the host's incarnation."""
        return {
            row["id"]: (row["attempt"], str(row["incarnation"]))
            for row in await self._read(_RUNNING)
            if row["state"] == "running"
        }

    async def hears(self) -> bool:
        """Whether the account listens since some moment: what was said before is nobody's business."""
        return any(row["mark"] for row in await self._read(_MARK))

    async def owed(self) -> int:
        """How many deliveries are open."""
        return sum(int(row["owed"]) for row in await self._read(_OWED))

    async def close(self) -> None:
        """Read nothing more."""
        if self._connection is not None:
            await self._connection.close()

    async def _read(self, statement: str) -> list[dict[str, Any]]:
        if isinstance(self._database, Path):
            return await asyncio.to_thread(_read_file, self._database, statement)
        async with self._turn:
            if self._connection is None:
                self._connection = await asyncpg.connect(self._database)
            try:
                return [dict(row) for row in await self._connection.fetch(statement)]
            except asyncpg.UndefinedTableError:
                # The first broker has not made it yet.
                return []


def _read_file(file: Path, statement: str) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as opened:
        opened.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in opened.execute(statement)]
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
