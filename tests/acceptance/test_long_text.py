"""Long answers: nothing lost, nothing twice, no part more than needed."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from openab.simulator.discord import Message
from tests.acceptance import audit
from tests.acceptance.stage import Broker, Stage, shared_broker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("long text")]

Scene = tuple[Stage, Broker]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with shared_broker(tmp_path_factory.mktemp("long")) as opened:
        yield opened


#: They stream for seconds, so all of them are asked at the same time.
_STEPS = {
    "file": "[[delay=0.16]] [[file=chars:6000]]",
    "astral": "[[delay=0.1]] [[astral=2000]]",
    "live": "[[delay=0.08]] [[file=chars:5000]]",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asked(scene: Scene) -> dict[str, Message]:
    stage, sol = scene
    return {name: await stage.ask(sol, steps, stage.room()) for name, steps in _STEPS.items()}


async def _parts(scene: Scene, asked: Message) -> tuple[Message, list[Message]]:
    stage, sol = scene
    await stage.settled(asked)
    await sol.turn_is(asked, "done")
    assert stage.placeholders(asked.id) == []
    return asked, stage.finals(asked.id, sol)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _joined(stage: Stage, parts: list[Message]) -> str:
    """The answer as it was said: no mention of the asker, no fences that the cuts added."""
    texts = [part.content for part in parts]
    texts[0] = texts[0].removeprefix(f"{stage.ann.mention} ")
    joined = texts[0]
    for text in texts[1:]:
        if joined.endswith("\n```") and (opener := re.match(r"```\w*\n", text)):
            joined, text = joined.removesuffix("```").removesuffix("\n"), text[opener.end() :]
            joined += "" if joined.endswith("\n") else "\n"
        joined += text
    return joined


async def test_six_thousand_characters_over_ten_seconds_come_whole_and_once(
    scene: Scene, asked: dict[str, Message]
) -> None:
    stage, sol = scene
    trigger, parts = await _parts(scene, asked["file"])
    raw = bytes(sol.turn(trigger)["raw"]).decode()
    assert len(raw) >= 6000
    assert 1 < len(parts) <= 4
    assert all(audit.fences_are_balanced(part.content) for part in parts)
    assert all(_units(part.content) <= 2000 for part in parts)
    lines = [line for line in raw.split("\n") if line.strip() and not line.startswith("```")]
    shown = [
        line for part in parts for line in part.content.split("\n") if not line.startswith("```")
    ]
    told = [line.removeprefix(f"{stage.ann.mention} ") for line in shown if line.strip()]
    assert "".join(told) == "".join(lines)


async def test_two_thousand_astral_characters_come_whole_and_once(
    scene: Scene, asked: dict[str, Message]
) -> None:
    stage, sol = scene
    trigger, parts = await _parts(scene, asked["astral"])
    raw = bytes(sol.turn(trigger)["raw"]).decode()
    assert _units(raw) >= 4000
    assert 1 < len(parts) <= 4
    assert all(_units(part.content) <= 2000 for part in parts)
    assert "".join(_joined(stage, parts).split()) == "".join(raw.split())


async def test_while_it_streams_only_the_placeholder_changes(
    scene: Scene, asked: dict[str, Message]
) -> None:
    stage, sol = scene
    trigger, parts = await _parts(scene, asked["live"])
    creates = stage.discord.journal.select("create_message", channel_id=trigger.id)
    assert len({one.message_id for one in creates}) == len(creates)
    assert len(creates) <= len(parts) + 1
    assert stage.discord.journal.busiest(trigger.id, 5.0, sol.bot.id) <= 5
