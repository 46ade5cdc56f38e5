"""Eight processes decide on the same hand-offs at the same time: each is accepted once, ten a minute."""

import time

import pytest

from benchmarks.handoff_decisions import admitted, carried_out
from benchmarks.handoff_worker import Order


@pytest.mark.timeout(400)
async def test_eight_processes_accept_each_event_once(migrated_address: str) -> None:
    order = Order(migrated_address, "900", time.time(), seconds=120, messages=24, sources=2)
    reports = await carried_out(order, 8)

    assert [one.decisions for one in reports] == [24] * 8
    # Twelve of each source came within a minute.
    assert sum(one.accepted for one in reports) == 20
    assert await admitted(migrated_address) == (10, 20)
