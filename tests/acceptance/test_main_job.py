"""The main job: a mention becomes a thread with a visibly working agent and one complete answer."""

from tests.acceptance.stage import Stage


async def test_a_mention_becomes_a_thread_with_an_answer(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    asked = await stage.ask(sol, "[[words=60]] [[tool=execute:cargo test:1.0]] [[say=all green]]")
    answer = await stage.answer(asked.id, sol, "all green")
    await stage.settled(asked)
    assert "the quick brown fox" in answer.content
    assert stage.placeholders(asked.id) == []
    assert await sol.stop() == 0


async def test_a_restart_between_two_messages_keeps_the_session(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    asked = await stage.ask(sol, "[[say=first answer]]")
    await stage.answer(asked.id, sol, "first answer")
    await stage.settled(asked)
    assert await sol.stop() == 0
    await sol.start()
    again = await stage.ann.say(asked.id, "[[recall]]")
    answer = await stage.answer(asked.id, sol, "first answer")
    await stage.settled(again)
    assert "context" not in answer.content


async def test_a_turn_killed_in_the_middle_ends_honestly_after_the_restart(stage: Stage) -> None:
    sol = stage.broker(more='[recovery]\npolicy = "fail"\n')
    await sol.start()
    asked = await stage.ask(sol, "[[say=before the crash ]] [[delay=0.2]] [[words=400]]")
    await stage.discord.wait_message(asked.id, lambda one: "before the crash" in one.content)
    await sol.logged("turn_started")
    await sol.kill()
    await sol.start()
    answer = await stage.answer(asked.id, sol, "Interrupted by a restart")
    assert "before the crash" in answer.content
    await stage.settled(asked, "😱")
    assert stage.placeholders(asked.id) == []
    prompts = [line for line in sol.agent_lines if "session/prompt" in str(line)]
    assert prompts
