"""Several bots in one thread: what one shows sets off no other, and nobody touches another's turns."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from openab.simulator.discord import Message
from tests.acceptance.stage import Broker, Stage, open_stage, shared_pids

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("bots")]

Scene = tuple[Stage, Broker, Broker]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Two processes, two tokens, one machine, one home, one database; each trusts the other."""
    async with open_stage(tmp_path_factory.mktemp("bots")) as stage:
        bots = [stage.discord.add_bot(name) for name in ("sol", "luna")]
        ids = ", ".join(f'"{bot.id}"' for bot in bots)
        trusting = f'allow_bot_messages = "mentions"\ntrusted_bot_ids = [{ids}]\n'
        sol, luna = (stage.broker(bot.name, bot=bot, discord=trusting, more=_FAST) for bot in bots)
        await asyncio.gather(sol.start(), luna.start())
        shared_pids.update({sol.pid, luna.pid})
        yield stage, sol, luna
        assert set(await asyncio.gather(sol.stop(), luna.stop())) == {0}


_FAST = "[presentation]\nedit_interval_ms = 300\n"


async def _thread_of_sol(scene: Scene) -> Message:
    """A thread in which Sol alone takes part."""
    stage, sol, _ = scene
    asked = await stage.ask(sol, "[[say=hello]]", stage.room())
    await stage.answer(asked.id, sol, "hello")
    await stage.settled(asked)
    return asked


async def _thread_of_both(scene: Scene) -> Message:
    """A thread in which both bots take part: Sol opened it, Luna was asked there."""
    stage, _, luna = scene
    asked = await _thread_of_sol(scene)
    second = await stage.ann.say(asked.id, f"{luna.bot.mention} [[say=hello from luna]]")
    await stage.answer(asked.id, luna, "hello from luna")
    await stage.settled(second)
    return asked


async def test_two_processes_share_a_thread_and_have_sessions_of_their_own(scene: Scene) -> None:
    stage, sol, luna = scene
    asked = await _thread_of_both(scene)
    both = f"{sol.bot.mention} {luna.bot.mention} [[say=I am not the other]] [[recall]]"
    again = await stage.ann.say(asked.id, both)
    # Sol takes part in the thread, so it has heard what Luna was asked, too.
    for broker, heard in ((sol, 2), (luna, 1)):
        answer = await stage.answer(asked.id, broker, f"I remember {heard} prompts")
        assert "say=hello from luna]]" in answer.content
        await broker.turn_is(again, "done")
    sessions = {broker.turn(again)["session_key"] for broker in (sol, luna)}
    assert len(sessions) == 2
    assert {key.split(":")[1] for key in sessions} == {sol.bot.id, luna.bot.id}
    assert stage.placeholders(asked.id) == []


async def test_ports_do_not_clash(scene: Scene) -> None:
    _, sol, luna = scene
    assert sol.http_address != luna.http_address
    for broker in (sol, luna):
        await broker.logged("agent_ready")
        status, page = await broker.page("/readyz")
        assert status == 200, page


async def test_each_process_cancels_only_its_own_turn(scene: Scene) -> None:
    stage, sol, luna = scene
    asked = await _thread_of_both(scene)
    gate = stage.gate()
    long = f"[[say=at work ]]{gate.step}[[say=and through]]"
    again = await stage.ann.say(asked.id, f"{sol.bot.mention} {luna.bot.mention} {long}")
    await stage.discord.wait_messages(
        asked.id, lambda shown: sum("at work" in one.content for one in shown) >= 2
    )
    pending = await stage.ann.slash(asked.id, "cancel", luna.bot)
    assert "asked the agent to stop" in await pending.text()
    await luna.turn_is(again, "cancelled")
    gate.open()
    await stage.answer(asked.id, sol, "and through")
    await sol.turn_is(again, "done")


async def test_what_a_bot_shows_while_it_works_sets_off_no_other(scene: Scene) -> None:
    stage, sol, luna = scene
    asked = await _thread_of_sol(scene)
    calling = f"{luna.bot.mention} [[say=you woke me]]"
    gates = {sign: stage.gate() for sign in ("in words", "running", "by letters")}
    until = [["until", gate.path] for gate in gates.values()]
    steps = [["say", f"{calling} in words "], until[0], ["toolopen", f"execute:{calling}"]]
    steps += [until[1], ["say", " "], ["chars", f"{calling} by letters"], until[2]]
    steps += [["say", " the end"]]
    # Ann herself mentions nobody: the agent's text does.
    script = json.dumps(steps).replace("@", "\\u0040")
    mine = await stage.ann.say(asked.id, f"[[script={script}]]")
    for sign, gate in gates.items():
        await stage.live(asked.id, sign)
        gate.open()
    await stage.answer(asked.id, sol, "the end")
    await sol.turn_is(mine, "done")
    await _has_seen_everything(scene, asked.id)
    assert [prompt for prompt in luna.prompts if "you woke me" in prompt] == []


async def test_no_edit_presentation_or_stranger_sets_a_bot_off(scene: Scene) -> None:
    stage, sol, luna = scene
    stranger = stage.discord.add_bot("stranger")
    asked = await _thread_of_sol(scene)
    calling = f"{luna.bot.mention} [[say=you woke me]]"
    for who in (sol.bot, stranger, stage.ann):
        await who.edit(await who.say(asked.id, "nothing"), calling)
    for bot in (sol.bot, stranger):
        await bot.say(asked.id, f"-# ⏳ 3s · {calling}", flags=1 << 12)
    await stranger.say(asked.id, calling)
    await _has_seen_everything(scene, asked.id)
    assert [prompt for prompt in luna.prompts if "you woke me" in prompt] == []


async def test_a_trusted_bot_that_mentions_another_in_a_new_message_is_heard(scene: Scene) -> None:
    """The control of the two above: the same words do set Luna off when they are a message."""
    stage, sol, luna = scene
    asked = await _thread_of_both(scene)
    await sol.bot.say(asked.id, f"{luna.bot.mention} [[say=good morning]]")
    answer = await stage.answer(asked.id, luna, "good morning")
    assert answer.author.id == luna.bot.id


async def _has_seen_everything(scene: Scene, thread: str) -> None:
    """Luna answers a question of Ann, so that whatever came before was judged, too."""
    stage, _, luna = scene
    last = await stage.ann.say(thread, f"{luna.bot.mention} [[say=I see all]]")
    await stage.answer(thread, luna, "I see all")
    await luna.turn_is(last, "done")


async def test_a_second_process_for_the_same_account_is_refused(scene: Scene) -> None:
    stage, sol, _ = scene
    second = stage.broker("second", bot=sol.bot)
    with second.log_file.open("ab") as log:
        second.process = await asyncio.create_subprocess_exec(
            *second.argv, "run", "-c", str(second.config), env=dict(second.environ), stderr=log
        )
    assert await second.exit_code() == 2
    assert str(sol.pid) in (await second.logged("cannot_start"))["reason"]
    status, _ = await sol.page("/readyz")
    assert status == 200
