"""Kill it anywhere, start it again: every point once, and by chance, on each dialect."""

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.lab.laboratory import Laboratory, Setting, open_laboratory, open_rooms
from tests.lab.points import SIDES, agent_methods, channel_methods, effect, transactions
from tests.lab.runs import Report, by_chance, every_point

_SEED = "OPENAB_LAB_SEED"
#: Effects that no story brings about, and where else each is proved.
RARE = {
    "commit:control.commands.Commands._resend": "an unclear delivery: test_control_deliveries",
    "commit:control.conversation_turns.ConversationTurns._note_orderly_stop": "test_drain",
    "commit:control.recovery.Recovery._fence": "the same life lost its run: test_control_recovery",
    "commit:control.retention.Retention._delete_sessions": "after keep_days: test_retention",
    "commit:control.workspaces.Placing._forget_alias": "an unknown name: test_control_workspaces",
    "commit:control.containment.end_barely": "rows that the database refuses: test_control_mends",
    "commit:control.dispatcher.Dispatcher._free_orphans": "a claim in doubt: test_control_mends",
    "commit:control.owner.ConversationOwner._hold_on": "a lease that ran out: test_control_mends",
    "commit:control.owner.ConversationOwner._leave": "a lost owner: test_control_turns",
    "commit:control.outbox.Outbox._is_said_by_another": "bots: test_control_bot_turns",
    "commit:control.agent_run.AgentRun._owe_notice": "long turns: test_control_turns",
    "commit:control.turn_placeholder.TurnPlaceholder.renew": "long turns: test_control_mends",
    "commit:control.outbox.Outbox._wait_for_evidence": "new doubt: test_control_deliveries",
    "commit:control.personas.Personas._postpone": "a webhook in doubt: test_control_personas",
    "commit:control.handoff_sending.HandoffSender._refuse": "bots: test_control_handoff_sending",
    "commit:control.handoff_sending.HandoffSender._renew": "bots: test_control_handoff_sending",
    "commit:control.handoff_sending.HandoffSender._wait": "bots: test_control_handoff_sending",
    "commit:control.shortening.Shortening._begin": "too large: test_control_handoff_sending",
}
#: Threads out of the archive: test_control_deliveries.
_RARE_CALLS = {"unarchive"}


@pytest.fixture(params=["sqlite", "postgres"])
def setting(request: pytest.FixtureRequest) -> Setting:
    """A laboratory of each dialect."""
    if request.param == "sqlite":
        return Setting()
    address: str = request.getfixturevalue("migrated_postgres_address")
    return Setting(postgres=address.replace("postgresql+asyncpg://", "postgresql://"))


@pytest.fixture
async def rooms(setting: Setting, tmp_path: Path) -> AsyncIterator[list[Laboratory]]:
    """Laboratories side by side, of each dialect."""
    async with open_rooms(setting, tmp_path) as opened:
        yield opened


def test_what_is_called_rare_exists() -> None:
    assert RARE.keys() <= transactions()


@pytest.mark.slow
@pytest.mark.timeout(1500)
async def test_a_kill_at_each_point_loses_nothing_and_doubles_nothing(
    rooms: list[Laboratory],
) -> None:
    report = await every_point(rooms, Report(), is_enough=lambda seen: not _missed(seen))
    assert not report.violations, report.told()
    assert not _missed(report), f"no process was killed at {sorted(_missed(report))}"


def _missed(report: Report) -> set[str]:
    """Where somebody should have been killed and nobody was."""
    commits = {f"{one}:{side}" for one in transactions() - RARE.keys() for side in SIDES}
    return commits - set(report.hits) | _calls_missed(report)


def _calls_missed(report: Report) -> set[str]:
    """The calls of the ports at which nobody was killed, whatever they were made for."""
    wanted = {f"discord:{name}" for name in channel_methods() if name not in _RARE_CALLS}
    wanted |= {f"agent:{name}" for name in agent_methods()}
    return wanted - {effect(point).rpartition(":")[0] for point in report.hits}


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_ten_strikes_by_chance_lose_nothing_and_double_nothing(setting: Setting) -> None:
    seed = int(os.environ.get(_SEED, random.SystemRandom().randrange(1_000_000)))
    async with open_laboratory(setting) as lab:
        report = await by_chance(lab, Report(seed=seed), 10, 3)
    assert not report.violations, report.told()
    assert report.strokes
