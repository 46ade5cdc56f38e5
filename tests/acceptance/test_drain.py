"""An orderly stop: short turns end, long ones are cut at the drain time, no agent is left behind."""

import asyncio
import re

import psutil

from tests.acceptance.stage import Broker, Stage

_STUBBORN = ("--mode", "stay-on-eof", "--mode", "ignore-sigterm")


async def test_a_stop_lets_a_short_turn_end(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=almost ]]{gate.step}[[say=there]]")
    await stage.live(asked.id, "almost")
    sol.terminate()
    await sol.logged("stopping")
    gate.open()
    assert await sol.exit_code() == 0
    assert [one.content for one in stage.finals(asked.id, sol)] == ["almost there"]
    assert stage.placeholders(asked.id) == []
    assert sol.turn(asked)["state"] == "done"


async def test_a_stop_cuts_a_long_turn_and_the_next_start_says_so(stage: Stage) -> None:
    more = '[cluster]\ndrain_seconds = 1\n[recovery]\npolicy = "fail"\n'
    sol = stage.broker(more=more, agent_args=_STUBBORN)
    await sol.start()
    asked = await stage.ask(sol, "[[child]] [[say=is working]] [[hang]]")
    shown = await stage.live(asked.id, "is working")
    waiting = await stage.ann.say(asked.id, "[[say=after the restart]]")
    await stage.live(asked.id, "ueued behind 1")
    found = re.search(r"child (\d+)", shown.content)
    assert found
    started = [
        psutil.Process(int(found[1])),
        *psutil.Process(sol.pid).children(recursive=True),
    ]
    begun = asyncio.get_running_loop().time()
    assert await sol.stop() == 0
    assert asyncio.get_running_loop().time() - begun < 60
    left = [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert left == []
    assert sol.turn(asked)["state"] == "running"
    await sol.start()
    await stage.answer(asked.id, sol, "Interrupted by a restart")
    await stage.answer(asked.id, sol, "after the restart")
    await sol.turn_is(asked, "interrupted")
    await sol.turn_is(waiting, "done")
    assert stage.placeholders(asked.id) == []
    assert await sol.stop() == 0


async def test_a_second_signal_ends_at_once(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    asked = await stage.ask(sol, "[[say=is working]] [[hang]]")
    await stage.live(asked.id, "is working")
    sol.terminate()
    await sol.logged("stopping")
    assert await sol.stop() == 128 + 15
    assert await sol.logged("second_signal")


#: What an agent has just been told when the stop comes, and how it has to be to stay there.
_MOMENTS = {
    "greeted": ("initialize", ()),
    "opening": ("session/new", ("--mode", "silent-new")),
    "leaving": ("session/close", ()),
}


async def test_a_stop_at_any_moment_leaves_no_agent_behind(stage: Stage) -> None:
    async with asyncio.TaskGroup() as group:
        for name, (told, modes) in _MOMENTS.items():
            sol = stage.broker(
                name, more="[cluster]\ndrain_seconds = 1\n", agent_args=_STUBBORN + modes
            )
            group.create_task(_must_leave_nothing(stage, sol, told), name=name)


async def _must_leave_nothing(stage: Stage, sol: Broker, told: str) -> None:
    await sol.start()
    if told != "initialize":
        asked = await stage.ask(sol, "[[say=here]]", stage.room())
    if told == "session/close":
        await stage.settled(asked)
        await stage.ann.say(asked.id, "!reset")
    await sol.agent_got(told)
    # The stop itself looks for what was left.
    assert await sol.stop() == 0
