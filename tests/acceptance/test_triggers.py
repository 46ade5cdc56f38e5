"""Who and what sets a bot off: everything that the gates decide, through the whole process."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.acceptance.stage import PATIENCE, Broker, Stage, open_stage, shared_pids

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("triggers")]

_MULTIBOT = 'allow_user_messages = "multibot-mentions"\nallow_dm = true\nmax_bot_turns = 5\n'
_MAPPING = '[reactions.mapping]\n":thumbsup:" = "[[say=reacted]]"\n'

_OWED = "SELECT 1 FROM deliveries WHERE account = ? AND state IN ('pending', 'sending')"

Scene = tuple[Stage, list[Broker]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Three processes; two share a home and a database, the third has its own."""
    folder = tmp_path_factory.mktemp("triggers")
    async with open_stage(folder) as stage:
        brokers = [
            stage.broker(name, discord=_MULTIBOT, more=_MAPPING, home=home)
            for name, home in (("sol", None), ("luna", None), ("terra", folder / "elsewhere"))
        ]
        await asyncio.gather(*(one.start() for one in brokers))
        shared_pids.update(one.pid for one in brokers)
        yield stage, brokers
        assert set(await asyncio.gather(*(one.stop() for one in brokers))) == {0}


async def test_three_bots_called_by_one_message_share_a_thread_and_warn_once(scene: Scene) -> None:
    stage, brokers = scene
    room = stage.room()
    everybody = " ".join(one.bot.mention for one in brokers)
    asked = await stage.ann.say(room, f"{everybody} [[say=here I am]]")
    for one in brokers:
        await stage.answer(asked.id, one, "here I am")
        await one.turn_is(asked, "done")
    assert len([one for one in stage.discord.world.channels.values() if one.parent_id == room]) == 1
    # Their answers were three turns of bots; two more reach the cap of all three.
    strangers = [stage.discord.add_bot(name) for name in ("x", "y", "z")]
    for stranger in strangers:
        last = await stranger.say(asked.id, "carry on")
    await stage.live(asked.id, "Bot turn limit reached (5/5)")
    for one in brokers:
        await one.taken_in(last)
        await _nothing_owed(one)
    warnings = [one for one in stage.placeholders(asked.id) if "Bot turn limit" in one.content]
    assert len(warnings) == 1
    # A warning makes nobody a participant, and a plain word among bots calls none of them.
    plain = await stage.ann.say(asked.id, "[[say=who feels called]]")
    for one in brokers:
        await one.taken_in(plain)
        assert _reason(one, plain.id) == "mention_needed_among_bots"


async def _nothing_owed(broker: Broker) -> None:
    """Wait until it has sent, or kept back, all that it owes."""
    async with asyncio.timeout(PATIENCE):
        while broker.rows(_OWED, broker.bot.id):  # noqa: ASYNC110 - a row of another process
            await asyncio.sleep(0.05)


def _reason(broker: Broker, key: str) -> str:
    found = broker.rows(
        "SELECT reason FROM inbox WHERE event_key = ? AND account = ?", key, broker.bot.id
    )
    return str(found[0]["reason"])


async def test_the_bots_own_role_calls_it(scene: Scene) -> None:
    stage, (sol, *_) = scene
    role = stage.discord.role_mention(sol.bot)
    asked = await stage.ann.say(stage.room(), f"{role} [[say=called by my role]]")
    await stage.answer(asked.id, sol, "called by my role")
    assert role not in sol.prompts[-1]


async def test_a_direct_message_is_answered_in_place(scene: Scene) -> None:
    stage, (sol, *_) = scene
    direct = stage.discord.open_dm(stage.ann, sol.bot)
    await stage.ann.say(direct.id, "[[say=just between us]]")
    answer = await stage.answer(direct.id, sol, "just between us")
    assert answer.channel_id == direct.id


async def test_a_reaction_says_what_the_mapping_says_and_says_it_once(scene: Scene) -> None:
    stage, (sol, *_) = scene
    bob = stage.person()
    asked = await stage.ask(sol, "[[say=shall I?]]", stage.room())
    answer = await stage.answer(asked.id, sol, "shall I?")
    await sol.turn_is(asked, "done")
    stage.discord.faults.deliver("twice", event="MESSAGE_REACTION_ADD", times=-1)
    await stage.ann.react(answer, "👍")
    await stage.answer(asked.id, sol, "reacted")
    await bob.react(answer, "👍")
    await bob.react(answer, "🎉")
    last = await stage.ann.say(asked.id, "[[say=that was all]] [[recall]]")
    told = await stage.answer(asked.id, sol, "that was all")
    # The question, two people's reactions, and this.
    assert "I remember 3 prompts" in told.content
    await sol.turn_is(last, "done")
    stage.discord.faults.clear()


async def test_a_thread_of_somebody_else_is_joined(scene: Scene) -> None:
    stage, brokers = scene
    opened = await stage.ann.open_thread(await stage.ann.say(stage.room(), "topic"), "Topic")
    state, wanted = opened.thread, {one.bot.id for one in brokers}
    assert state is not None
    await stage.discord.wait_until(lambda: wanted <= set(state.members))
    assert state.owner_id == stage.ann.id


async def test_a_run_of_one_bot_is_one_input_in_mode_all(scene: Scene) -> None:
    stage, _ = scene
    nova = stage.broker("nova", discord='allow_bot_messages = "all"\n')
    await nova.start()
    other = stage.discord.add_bot("talkative")
    asked = await stage.ask(nova, "[[say=hello]]", stage.room())
    await stage.answer(asked.id, nova, "hello")
    await nova.turn_is(asked, "done")
    for part in ("one", "two", "three"):
        last = await other.say(asked.id, f"part {part}")
    await nova.taken_in(last)
    await stage.ann.say(asked.id, "[[say=my turn]]")
    await stage.answer(asked.id, nova, "my turn")
    run = [prompt for prompt in nova.prompts if "part one" in prompt]
    assert len(run) == 1
    assert "part three" in run[0]
    assert await nova.stop() == 0
