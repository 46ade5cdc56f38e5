"""Whether the clock is good enough for hand-offs, which live by it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from openab.app.readiness import Readiness
from openab.domain.gates import GatePolicy
from openab.storage.engine import Database
from tests.builders import ACCOUNT, Offset

TRUSTING = GatePolicy(ACCOUNT, trusted_bots=frozenset({"901"}))


def _readiness(database: Database, skew: float, policy: GatePolicy = TRUSTING) -> Readiness:
    """A process whose Discord is so many seconds ahead of this machine."""
    readiness = Readiness()
    health = SimpleNamespace(lost_events=0, ready=True, reason="")
    readiness.database = database
    readiness.client = cast(
        "Any", SimpleNamespace(rest=SimpleNamespace(skew=skew), health=lambda: health)
    )
    readiness.live = cast("Any", SimpleNamespace(policy=lambda: policy))
    return readiness


@pytest.mark.parametrize(
    ("skew", "told"), [(0.0, ""), (3.0, ""), (8.0, "8 s behind"), (-8.0, "8 s ahead of")]
)
async def test_more_than_five_seconds_are_too_many(
    database: Database, skew: float, told: str
) -> None:
    check = (await _readiness(database, skew).checks())["handoffs"]
    assert check.ok == (not told)
    assert told in check.reason


async def test_it_is_the_databases_clock_that_counts(database: Database) -> None:
    readiness = _readiness(database, 8.0)
    Offset(database).pass_by(8.0)
    assert (await readiness.checks())["handoffs"].ok


async def test_a_bot_that_trusts_nobody_needs_no_clock(database: Database) -> None:
    check = (await _readiness(database, 99.0, GatePolicy(ACCOUNT)).checks())["handoffs"]
    assert check.ok
    assert "trusted_bot_ids is empty" in check.reason
