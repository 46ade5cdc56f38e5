"""`openab handoffs`, and what `openab why` says of them."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner

from openab.cli.main import app
from openab.domain.gates import Disposition
from openab.domain.handoff import MEANINGS, REMEDIES, Refusal, draft
from openab.domain.ids import AccountId, DeliveryId, MessageRef, PlatformId, TurnId
from openab.domain.message import Place
from openab.storage import handoff_refusals, handoffs, inbox
from openab.storage.engine import Database
from openab.storage.handoffs import Incoming
from openab.storage.inbox import Entry
from tests.builders import ACCOUNT, HOME, SENT_AT, a_ref
from tests.commands import Ended, environment

Typed = Callable[..., Ended]
LUNA = AccountId("901")
EVENT = "0b0d9c4e-7a35-4c6e-9d4f-3f0a5f0d3b11"
SECRET = "what is asked"


@pytest.fixture
async def typed(
    tmp_path: Path, migrated_sqlite_address: str, monkeypatch: pytest.MonkeyPatch
) -> Typed:
    """A command on a database of two bots that gave each other work."""
    database = await Database.open(migrated_sqlite_address)
    await _told(database)
    await database.close()
    monkeypatch.chdir(tmp_path)
    path = migrated_sqlite_address.partition(":///")[2]
    env = environment(tmp_path, OPENAB_DATABASE_URL=f"sqlite:///{path}")

    def run(*words: str) -> Ended:
        clean: dict[str, str | None] = dict.fromkeys(os.environ)
        result = CliRunner().invoke(app, words, env={**clean, **env}, catch_exceptions=False)
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run


async def _told(database: Database) -> None:
    """One hand-off from Luna to us with both ends, and one refusal of each kind."""
    us = PlatformId(ACCOUNT)
    envelope = draft(LUNA, us, a_ref(), Place.CHANNEL, None, UUID(EVENT), datetime.now(UTC), SECRET)
    async with database.transaction() as tx:
        await handoffs.owe(tx, LUNA, envelope, TurnId("turn-1"), DeliveryId("delivery-1"))
        message = MessageRef(HOME, PlatformId("1000"))
        incoming = Incoming(ACCOUNT, envelope, message, SENT_AT)
        assert await handoffs.accept(tx, incoming, TurnId("turn-2")) is None
        await inbox.add(tx, _entry("1000", Disposition.HANDOFF, "accepted"))
        for number, reason in enumerate(Refusal):
            refused = PlatformId(str(2000 + number))
            await handoff_refusals.note(
                tx, ACCOUNT, reason, PlatformId(LUNA), MessageRef(HOME, refused), None
            )
            await inbox.add(tx, _entry(refused, Disposition.REFUSED, reason.value))


def _entry(message: str, became: Disposition, reason: str) -> Entry:
    return Entry(ACCOUNT, "message", message, HOME, PlatformId(LUNA), became, reason)


def test_both_ends_and_the_refusals_are_listed_without_texts(typed: Typed) -> None:
    listed = typed("handoffs", "--json")
    lines = [json.loads(line) for line in listed.out.splitlines()]
    ends = {line["direction"]: line for line in lines if line["event_id"]}
    assert {line["event_id"] for line in ends.values()} == {EVENT}
    assert [(ends[way]["account"], ends[way]["peer_id"], ends[way]["state"]) for way in ("out", "in")] == [
        ("901", "900", "owed"),
        ("900", "901", "accepted"),
    ]  # fmt: skip
    assert (ends["in"]["message_id"], ends["in"]["turn_id"]) == ("1000", "turn-2")
    refused = [line["reason"] for line in lines if line["state"] == "refused"]
    assert set(refused) == {reason.value for reason in Refusal}
    shown = typed("handoffs")
    assert "rate_limited" in shown.out
    assert EVENT in shown.out
    assert SECRET not in listed.out + shown.out


def test_only_what_is_owed_is_open(typed: Typed) -> None:
    (line,) = typed("handoffs", "--open", "--json").out.splitlines()
    assert json.loads(line)["state"] == "owed"
    # However many newer ones are over.
    assert typed("handoffs", "--open", "--json", "--limit", "1").out.splitlines() == [line]
    assert len(typed("handoffs", "--json", "--limit", "3").out.splitlines()) == 3


def test_why_explains_each_outcome(typed: Typed) -> None:
    assert (
        "handoff: a valid hand-off; it started a turn of its own (accepted)"
        in typed("why", "1000").out
    )
    for number, reason in enumerate(Refusal):
        told = typed("why", str(2000 + number)).out
        assert MEANINGS[reason] in told
        assert f"{REMEDIES[reason]} ({reason.value})" in told
