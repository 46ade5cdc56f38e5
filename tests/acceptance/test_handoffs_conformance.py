"""Our own broker under `openab conformance`: every rule of receiving holds, seen from outside."""

import time

import pytest

from openab.cli.conformance import echo_agent
from openab.cli.conformance.bench import Pace, Verdict
from openab.cli.conformance.examination import Assignment, examine
from tests.acceptance.stage import PATIENCE, Stage

#: What no tester can find out from outside.
_NOT_TESTABLE = 5

pytestmark = [pytest.mark.slow]


async def test_our_broker_passes_every_rule(stage: Stage) -> None:
    tester, stranger = stage.discord.add_bot("tester"), stage.discord.add_bot("stranger")
    stage.foreign = {tester.id, stranger.id}
    room = stage.room()
    stage.discord.grant(tester.id, room, "manage_webhooks", "manage_threads")
    stage.discord.limits.enabled = False
    broker = stage.broker(
        discord=f'allow_bot_messages = "mentions"\ntrusted_bot_ids = ["{tester.id}"]\n'
        "max_bot_turns = 100\n",
        agent_args=[str(echo_agent.__file__)],
        agent_command="python3",
    )
    await broker.start()

    async def wait(seconds: float) -> None:
        stage.discord.clock.advance(seconds)

    told: list[str] = []
    rows = await examine(
        Assignment(
            api_base=stage.discord.api_base,
            token=tester.token,
            channel=room,
            target=broker.bot.id,
            stranger=stranger.token,
            pace=Pace(stage.discord.clock.monotonic, wait, time.time),
            patience=PATIENCE,
            keep=False,
            tell=told.append,
        )
    )
    assert [row for row in rows if row.verdict is Verdict.FAIL] == [], told
    assert sum(row.verdict is Verdict.NOT_TESTABLE for row in rows) == _NOT_TESTABLE
    assert await broker.stop() == 0
