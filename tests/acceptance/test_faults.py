"""Discord misbehaves at each of the calls that matter: one message each, or an honest notice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from openab.simulator.discord import (
    Message,
    Request,
    commit_then,
    commit_then_drop,
    drop_before_commit,
    hang,
    rate_limited,
    refuse,
    server_error,
)
from openab.simulator.discord.faults import FaultHandle, RestFault
from tests.acceptance import audit
from tests.acceptance.stage import Broker, Stage, broken, open_stage, shared_broker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("faults")]

Scene = tuple[Stage, Broker]

_FAULTS = {
    "commit then 502": commit_then(502),
    "commit then drop": commit_then_drop(),
    "drop": drop_before_commit(),
    "hang, committed": hang(20.0, "before"),
    "hang, not committed": hang(20.0, "never"),
    "503": server_error(503),
    "429 bucket": rate_limited("bucket"),
    "429 sub-limit": rate_limited("sub_limit"),
    "429 global": rate_limited("global"),
    "429 no Via": rate_limited("no_via"),
    "429 long": rate_limited("long", 4.0),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    more = "[cluster]\ncall_seconds = 2\n"
    async with shared_broker(tmp_path_factory.mktemp("faults"), more=more) as opened:
        opened[0].discord.limits.enabled = False
        yield opened


def _is_placeholder(request: Request) -> bool:
    return str(request.fields.get("content", "")).startswith("-# ")


_CALLS: dict[str, tuple[str, Callable[[Request], bool]]] = {
    "thread": ("start_thread", lambda _: True),
    "placeholder": ("create_message", _is_placeholder),
    "part": ("create_message", lambda one: not _is_placeholder(one)),
}


def _break(stage: Stage, trigger: Message, call: str, fault: RestFault) -> FaultHandle:
    """Hit the first such call for the thread of this trigger."""
    route, fits = _CALLS[call]
    return stage.discord.faults.add(
        fault, route=route, when=lambda one: trigger.id in one.path and fits(one)
    )


@pytest.mark.parametrize("call", _CALLS)
async def test_one_message_each_whatever_happens_to_a_call(scene: Scene, call: str) -> None:
    async with asyncio.TaskGroup() as group:
        for name in _FAULTS:
            group.create_task(_suffer(scene, call, name), name=name)


async def _suffer(scene: Scene, call: str, name: str) -> None:
    stage, sol = scene
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[file=chars:2500]] {gate.step}", stage.room())
    rule = _break(stage, asked, call, _FAULTS[name])
    try:
        # The agent goes on once its placeholder was tried, or stands where another call is hit.
        await (rule.wait_hits() if call == "placeholder" else stage.live(asked.id, ""))
        gate.open()
        await rule.wait_hits()
        await sol.turn_is(asked, "done")
        await stage.settled(asked)
        rule.release()
        await stage.discord.wait_until(lambda: rule.requests[0].answered_at is not None)
        _check_single(stage, sol, asked)
    except (AssertionError, TimeoutError) as error:
        error.add_note(f"{name} at {call}: {stage.discord.picture(asked.id)}")
        raise


def _check_single(stage: Stage, sol: Broker, asked: Message) -> None:
    finals = stage.finals(asked.id, sol)
    text = "".join(one.content for one in finals)
    assert len(finals) == 2
    assert text.count("line 0: print") == 1
    assert text.count("line 100: print") == 1
    assert all(audit.fences_are_balanced(one.content) for one in finals)
    assert stage.placeholders(asked.id) == []
    assert len(stage.discord.threads(asked.channel_id)) == 1


async def test_without_its_nonce_a_repeated_call_would_double_the_message(tmp_path: Path) -> None:
    """The control of the above: the fault does double what nothing protects."""
    async with open_stage(tmp_path) as stage:
        sol = stage.broker(argv=broken("nonce"))
        await sol.start()
        gate = stage.gate()
        asked = await stage.ask(sol, f"[[file=chars:2500]] {gate.step}")
        _break(stage, asked, "part", commit_then(502))
        await stage.live(asked.id, "")
        gate.open()
        await sol.turn_is(asked, "done")
        text = "".join(one.content for one in stage.finals(asked.id, sol))
        assert text.count("line 100: print") == 2
        assert await sol.stop() == 0


async def test_a_thread_that_another_bot_opened_first_is_adopted(scene: Scene) -> None:
    stage, sol = scene
    stranger = stage.discord.add_bot("stranger")
    room = stage.room()
    asked = await stage.ask(sol, "[[say=in the thread that was there]]", room)
    await stranger.open_thread(asked, "mine")
    await stage.answer(asked.id, sol, "in the thread that was there")
    await stage.settled(asked)
    codes = {one.code for one in stage.discord.journal.select("start_thread", channel_id=room)}
    assert codes == {160004}
    assert [thread.name for thread in stage.discord.threads(room)] == ["mine"]


async def test_an_archived_thread_is_opened_again(scene: Scene) -> None:
    stage, sol = scene
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=before]] {gate.step} [[say=after]]", stage.room())
    await stage.live(asked.id, "before")
    await stage.ann.archive(asked.id)
    gate.open()
    answer = await stage.answer(asked.id, sol, "after")
    await stage.settled(asked)
    await sol.turn_is(asked, "done")
    assert "before" in answer.content


async def test_a_locked_thread_is_told_in_the_parent(scene: Scene) -> None:
    stage, sol = scene
    room = stage.room()
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=before]] {gate.step} [[say=after]]", room)
    await stage.live(asked.id, "before")
    await stage.ann.archive(asked.id, locked=True)
    stage.discord.deny(sol.bot.id, room, "manage_threads")
    gate.open()
    told = await stage.discord.wait_message(
        room, lambda one: "could not be delivered" in one.content
    )
    assert told.author.id == sol.bot.id
    await sol.turn_is(asked, "failed")


async def test_a_channel_where_no_thread_may_be_opened_is_told_there(scene: Scene) -> None:
    stage, sol = scene
    room = stage.room()
    stage.discord.deny(sol.bot.id, room, "create_public_threads")
    before = len(sol.prompts)
    asked = await stage.ask(sol, "[[say=never]]", room)
    told = await stage.discord.wait_message(
        room, lambda one: "No thread could be opened" in one.content
    )
    await stage.settled(asked, "😱")
    assert told.pings == {stage.ann.id}
    assert len(sol.prompts) == before
    await sol.turn_is(asked, "failed")


async def test_a_thread_that_has_to_wait_long_says_until_when(scene: Scene) -> None:
    stage, sol = scene
    room = stage.room()
    stage.discord.faults.add(
        rate_limited("long", 10.5), route="start_thread", when=lambda one: room in one.path
    )
    asked = await stage.ask(sol, "[[say=at last]]", room)
    told = await stage.discord.wait_message(room, lambda one: "asks us to wait" in one.content)
    assert told.author.id == sol.bot.id
    await stage.answer(asked.id, sol, "at last")
    await stage.settled(asked)


async def test_a_part_that_is_refused_leaves_a_line_that_names_the_gap(scene: Scene) -> None:
    stage, sol = scene
    asked = await stage.ask(sol, "[[file=chars:4500]]", stage.room())
    stage.discord.faults.add(
        refuse(50035),
        route="create_message",
        when=lambda one: one.channel_id == asked.id and not _is_placeholder(one),
    )
    told = await stage.discord.wait_message(
        asked.id, lambda one: "could not be delivered" in one.content
    )
    assert "of 3" in told.content
    await sol.turn_is(asked, "failed")
    assert len(stage.finals(asked.id, sol)) == 2
