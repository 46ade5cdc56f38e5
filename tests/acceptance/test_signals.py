"""SIGTERM at any moment: a call in flight ends and counts, a start-up ends promptly."""

import pytest

from openab.simulator.discord import hang
from tests.acceptance.stage import Stage


async def test_a_reply_in_flight_is_sent_once_and_recorded(stage: Stage) -> None:
    sol = stage.broker(
        more="[cluster]\ndrain_seconds = 0\nlease_seconds = 90\ncall_seconds = 60\n"
        "[presentation]\nmode = 'final'\n"
    )
    await sol.start()
    held = stage.discord.faults.add(hang(90, "after"), route="create_message")
    asked = await stage.ask(sol, "[[say=the answer]]")
    await held.wait_hits(1, 60)
    sol.terminate()
    # Its time to drain is over, and still the call is let end.
    await sol.logged("owner_stopped")
    held.release()
    assert await sol.exit_code() == 0
    assert [one.content.count("the answer") for one in stage.finals(asked.id, sol)] == [1]
    assert sol.turn(asked)["state"] == "done"
    (row,) = sol.rows("SELECT state, tries FROM deliveries WHERE purpose = 'final'")
    assert (row["state"], row["tries"]) == ("sent", 1)
    assert not sol.rows("SELECT 1 FROM conversations WHERE lease_owner IS NOT NULL")
    assert len(held.requests) == 1


@pytest.mark.parametrize("route", ["me", "gateway"])
async def test_a_start_that_waits_for_discord_ends_promptly(stage: Stage, route: str) -> None:
    sol = stage.broker()
    held = stage.discord.faults.add(hang(90, "never"), route=route)
    await sol.start(connected=False)
    await held.wait_hits(1, 120)
    sol.terminate()
    assert await sol.exit_code(30) == 0
    held.release()
