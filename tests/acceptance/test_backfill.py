"""Everything was down while people spoke: what they said is answered when it is up again, once."""

from openab.simulator.discord import Message, hang
from tests.acceptance.stage import PATIENCE, Broker, Stage

_AT_ONCE = 'message_processing_mode = "per-thread"\nmax_buffered_messages = 100\n'


async def _a_thread(stage: Stage, sol: Broker, words: str) -> Message:
    """A thread of the bot's in which it has answered."""
    asked = await stage.ask(sol, f"[[say={words}]]")
    await stage.answer(asked.id, sol, words)
    await sol.turn_is(asked, "done")
    return asked


def _finals(stage: Stage, sol: Broker, thread: str) -> list[str]:
    return [one.content for one in stage.finals(thread, sol)]


async def test_what_was_said_meanwhile_is_answered_in_order_once(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    lively, quiet = await _a_thread(stage, sol, "one"), await _a_thread(stage, sol, "two")
    assert await sol.stop() == 0
    first = await stage.ask(sol, "[[say=first mention]]")
    await stage.ann.say(stage.channel, "just talk")
    second = await stage.ask(sol, "[[say=second mention]]")
    later = [await stage.ann.say(lively.id, f"[[say={words}]]") for words in ("3", "4", "five")]
    late = await stage.ann.say(quiet.id, "[[say=six]]")
    await stage.ann.archive(quiet.id)
    await sol.start()
    await sol.logged("backfill_finished")
    for asked, words in ((first, "first mention"), (second, "second mention")):
        await stage.answer(asked.id, sol, words)
        await sol.turn_is(asked, "done")
    await stage.answer(lively.id, sol, "five")
    await stage.answer(quiet.id, sol, "six")
    for said in (*later, late):
        await sol.turn_is(said, "done")
    # Nothing of it is answered again, and what is said now is answered as ever.
    assert await sol.stop() == 0
    await sol.start()
    now = await stage.ann.say(lively.id, "[[say=seven]]")
    await stage.answer(lively.id, sol, "seven")
    await sol.turn_is(now, "done")
    told = [_finals(stage, sol, one.id) for one in (lively, quiet, first, second)]
    assert told[0] == ["one", "3", "4", "five", "seven"], told
    assert told[1:] == [["two", "six"], ["first mention"], ["second mention"]], told
    assert len(sol.prompts) == 9
    assert await sol.stop() == 0


async def test_of_sixty_fifty_are_answered_whatever_happens_to_the_reading(stage: Stage) -> None:
    sol = stage.broker(discord=_AT_ONCE)
    await sol.start()
    thread = await _a_thread(stage, sol, "hello")
    assert await sol.stop() == 0
    said = [await stage.ann.say(thread.id, f"number {n:02}.") for n in range(60)]
    elsewhere = stage.room()
    asked = await stage.ask(sol, "[[say=and here]]", elsewhere)
    held = stage.discord.faults.add(
        hang(600.0, "never"),
        route="list_messages",
        when=lambda one: elsewhere in one.path,
        times=-1,
    )
    # Killed in the middle, and stopped in the middle: both start over.
    await sol.start()
    await held.wait_hits(1, PATIENCE)
    await sol.turn_is(said[49], "done")
    await sol.kill()
    await sol.start()
    await held.wait_hits(2, PATIENCE)
    assert await sol.stop() == 0
    held.remove()
    held.release()
    await sol.start()
    await stage.answer(asked.id, sol, "and here")
    prompts = " ".join(sol.prompts)
    times = [prompts.count(f"number {n:02}.") for n in range(60)]
    assert times == [1] * 50 + [0] * 10
    notices = [one for one in stage.discord.messages(thread.id) if "openab was away" in one.content]
    assert ["10 messages" in one.content for one in notices] == [True]
    assert await sol.stop() == 0
