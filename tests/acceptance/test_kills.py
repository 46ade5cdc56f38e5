"""Killed at every point of a turn, and started again: recovered, nothing twice, nothing left over."""

import asyncio
import re
from dataclasses import dataclass

import psutil
import pytest

from openab.simulator.discord import Message, Request, hang
from openab.simulator.discord.faults import FaultHandle, RestFault
from tests.acceptance import audit
from tests.acceptance.stage import Broker, Stage

_DONE, _CUT = "done", "interrupted"
#: Hangs for longer than any test: the kill ends it.
_COMMITTED, _NEVER = hang(90.0, "before"), hang(90.0, "never")
_LONG = "[[say=so far so good ]][[delay=0.2]] [[words=3000]]"
_TWO_PARTS = "[[file=chars:2500]] "
#: What goes on after a kill is another test's matter (`test_recovery.py`).
_FAIL = '[recovery]\npolicy = "fail"\n'
#: Agents that outlive a broker which is killed, as real ones do.
_STUBBORN = ("--mode", "stay-on-eof", "--mode", "ignore-sigterm")


def _is_placeholder(request: Request) -> bool:
    return str(request.fields.get("content", "")).startswith("-# ")


def _is_final(request: Request) -> bool:
    return not _is_placeholder(request)


@dataclass(frozen=True)
class _Point:
    """Where a turn is when the process is killed, and how it ends."""

    name: str
    steps: str
    route: str
    is_placeholder: bool
    fault: RestFault
    end: str

    def hold(self, stage: Stage, trigger: Message) -> FaultHandle:
        """Keep the turn at this point."""
        fits = _is_placeholder if self.is_placeholder else _is_final
        return stage.discord.faults.add(
            self.fault, route=self.route, when=lambda one: trigger.id in one.path and fits(one)
        )


_POINTS = [
    _Point(f"{name}, {fault.name}", steps, route, is_placeholder, fault, end)
    for fault in (_COMMITTED, _NEVER)
    for name, steps, route, is_placeholder, end in (
        ("thread", _TWO_PARTS, "start_thread", False, _DONE),
        ("placeholder", _LONG, "create_message", True, _CUT),
        ("live edit", _LONG, "edit_message", True, _CUT),
        ("first part", _TWO_PARTS, "edit_message", False, _DONE),
        ("second part", _TWO_PARTS, "create_message", False, _DONE),
    )
]


@pytest.mark.timeout(180)
async def test_a_kill_at_any_point_loses_nothing_and_doubles_nothing(stage: Stage) -> None:
    stage.discord.limits.enabled = False
    sol = stage.broker(
        more="[cluster]\nlease_seconds = 90\ncall_seconds = 60\n" + _FAIL, agent_args=_STUBBORN
    )
    await sol.start()
    held = await asyncio.gather(*(_reach(stage, sol, point) for point in _POINTS))
    waiting = await _queue(stage, sol, held[1])
    before = _agents(sol)
    assert before
    await sol.kill()
    await sol.start()
    async with asyncio.TaskGroup() as group:
        for point, trigger in zip(_POINTS, held, strict=True):
            group.create_task(_must_recover(stage, sol, point, trigger), name=point.name)
    await stage.answer(held[1].id, sol, "I waited")
    await sol.turn_is(waiting, "done")
    assert _living(before) == []
    assert await sol.stop() == 0


async def _reach(stage: Stage, sol: Broker, point: _Point) -> Message:
    gate = stage.gate()
    asked = await stage.ask(sol, point.steps + gate.step, stage.room())
    held = point.hold(stage, asked)
    if point.steps == _TWO_PARTS and point.route != "start_thread":
        await stage.live(asked.id, "")
    gate.open()
    await held.wait_hits()
    return asked


async def _queue(stage: Stage, sol: Broker, running: Message) -> Message:
    """A second request behind a running one, once the broker has taken it in."""
    said = await stage.ann.say(running.id, "[[say=I waited]]")
    await sol.taken_in(said)
    return said


async def _must_recover(stage: Stage, sol: Broker, point: _Point, trigger: Message) -> None:
    try:
        await sol.turn_is(trigger, point.end)
        await stage.settled(trigger, "🆗" if point.end == _DONE else "😱")
        if point.end == _DONE:
            _check_whole(stage, sol, trigger)
        else:
            await _must_be_honest(stage, sol, trigger)
    except (AssertionError, TimeoutError) as error:
        error.add_note(f"{point.name}: {stage.discord.picture(trigger.id)}")
        raise


def _check_whole(stage: Stage, sol: Broker, trigger: Message) -> None:
    finals = stage.finals(trigger.id, sol)
    text = "".join(one.content for one in finals)
    assert len(finals) == 2
    assert text.count("line 0: print") == 1
    assert text.count("line 100: print") == 1
    assert all(audit.fences_are_balanced(one.content) for one in finals)
    assert stage.placeholders(trigger.id) == []


async def _must_be_honest(stage: Stage, sol: Broker, trigger: Message) -> None:
    await stage.bare(trigger.id)
    cut = [one for one in stage.finals(trigger.id, sol) if "Interrupted" in one.content]
    assert len(cut) == 1


async def test_what_an_agent_started_does_not_outlive_a_kill_and_the_next_start(
    stage: Stage,
) -> None:
    sol = stage.broker(more=_FAIL, agent_args=_STUBBORN)
    await sol.start()
    asked = await stage.ask(sol, "[[child]] [[say=is mine]] [[hang]]")
    shown = await stage.live(asked.id, "is mine")
    found = re.search(r"child (\d+)", shown.content)
    assert found
    started = [psutil.Process(int(found[1])), *_agents(sol)]
    await sol.kill()
    assert _living(started) == started, "the control: without us they live on"
    await sol.start()
    await stage.answer(asked.id, sol, "Interrupted by a restart")
    assert _living(started) == []
    assert await sol.stop() == 0


def _agents(sol: Broker) -> list[psutil.Process]:
    return psutil.Process(sol.pid).children(recursive=True)


def _living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
