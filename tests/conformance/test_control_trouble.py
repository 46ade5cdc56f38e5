"""While the database refuses to work: turns run, events wait in order, and all of it is written later."""

import asyncio

import pytest
from structlog.testing import capture_logs

from openab.control import intake, owner, persist
from openab.control.intake import Intake
from openab.domain.turn import TurnState
from openab.ports.signals import Signals
from openab.ports.tasks import end, spawn
from openab.storage.engine import Database
from openab.storage.trouble import Trouble
from tests.builders import a_message, some_settings
from tests.conformance.control_stage import on_stage
from tests.databases_in_trouble import Refusing

_KINDS = [Trouble.FULL, Trouble.READ_ONLY]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (persist, owner):
        monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(intake, "_RETRIES", (0.01, 0.05))


@pytest.mark.parametrize("kind", _KINDS)
async def test_nothing_is_lost_and_nothing_comes_twice(database: Database, kind: Trouble) -> None:
    refusing, failures = Refusing(database), list[Trouble]()
    database.health.on_failure = failures.append
    async with on_stage(database) as stage:
        stage.agents.may_end.clear()
        first = stage.say("[[say=one]]", thread="5000")
        await stage.until(stage._is_seen)
        getattr(refusing, kind.value)()
        stage.agents.may_end.set()
        # So long that it needs pages of its own.
        later = [
            stage.say(f"[[say={word}]] {'x' * 30_000}", thread="5000")
            for word in ("two", "three", "four")
        ]

        async def is_in_trouble() -> bool:
            return len(failures) > 5

        await stage.until(is_in_trouble)
        refusing.heal()
        settled = [await stage.settled(message) for message in (first, *later)]
        said = [text for text in stage.channel.shown("5000") if "[[" not in text]
    assert {turn.state for turn in settled} == {TurnState.DONE}
    finals = [word for text in said for word in ("one", "two", "three", "four") if word in text]
    assert finals == ["one", "two", "three", "four"]
    assert len(stage.agents.prompts) == 4


async def test_it_is_not_asked_faster_and_faster_nor_told_again_and_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the pace: as many tries as fit, were there no waits."""
    monkeypatch.setattr(persist, "RETRY_SECONDS", 0.1)
    refusing, tries = Refusing(database), list[Trouble]()
    async with on_stage(database) as stage:
        stage.agents.may_end.clear()
        first = stage.say("[[say=one]]", thread="5000")
        await stage.until(stage._is_seen)
        database.health.on_failure = tries.append
        refusing.read_only()
        stage.agents.may_end.set()
        stage.say("two", thread="5000")
        with capture_logs() as lines:
            # What must not happen is work: there is no sign to wait for.
            await asyncio.sleep(1.5)
        refusing.heal()
        await stage.settled(first)
    loud = [line["event"] for line in lines if line["log_level"] in {"warning", "error"}]
    assert tries
    assert len(loud) == len(set(loud))
    assert len(tries) < 120


class TestABound:
    async def test_leaves_out_what_comes_then_and_has_it_read_from_history(
        self, database: Database
    ) -> None:
        told: list[str] = []
        made = Intake(
            database, some_settings(), lambda _c: None, lambda _m: None, Signals(), most=5
        )
        made.on_full, made.on_room = lambda: told.append("full"), lambda: told.append("room")
        for number in range(8):
            made.put(a_message("hello", message_id=str(1000 + number), mentions=()))
        assert made._queue.qsize() == 5
        assert told == ["full"]
        running = spawn("intake", made.run())
        assert await made.drained(10)
        assert told == ["full", "room"]
        made.put(a_message("hello", message_id="2000", mentions=()))
        assert await made.drained(10)
        await end(running)
