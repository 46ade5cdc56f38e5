"""Ask A, A hands over to B, B answers: once, though A is killed between its last word and the message."""

import json

from openab.domain.handoff import event_in
from openab.simulator.discord import server_error
from openab.simulator.discord.records import Message
from tests.acceptance.stage import PATIENCE, Broker, Stage


def _handing(target: str, work: str) -> str:
    """A request whose agent hands work over, in pieces."""
    said = [["say", "[[hand"], ["say", f"off:{target}]]\n{work[:9]}"], ["say", work[9:]]]
    return f"[[script={json.dumps(said)}]]"


def _envelopes(stage: Stage, thread: str) -> list[Message]:
    return [one for one in stage.discord.messages(thread) if event_in(one.content)]


def _pair(stage: Stage) -> tuple[Broker, Broker]:
    bots = [stage.discord.add_bot(name) for name in ("sol", "luna")]
    ids = ", ".join(f'"{bot.id}"' for bot in bots)
    sol, luna = (
        stage.broker(bot.name, bot=bot, discord=f"trusted_bot_ids = [{ids}]\n") for bot in bots
    )
    return sol, luna


async def test_work_passes_from_bot_to_bot_once_though_the_sender_is_killed(stage: Stage) -> None:
    sol, luna = _pair(stage)
    await sol.start()
    await luna.start()
    work = "[[say=Luna did it]] with <@77> and\u200b\u202e `\\"

    # Nothing stands between the outcome and the message, and it is shown as what it is.
    asked = await stage.ask(sol, _handing(luna.bot.id, work))
    await stage.answer(asked.id, luna, "Luna did it")
    await stage.settled(asked)
    await stage.live(asked.id, "🤝 The message above hands work to luna")
    (message,) = _envelopes(stage, asked.id)
    assert set(message.reactions) >= {"📥"}
    (prompt,) = luna.prompts
    assert json.loads(prompt)["params"]["prompt"][-1]["text"] == work
    announced = json.loads(sol.prompts[0])["params"]["prompt"][0]["text"]
    assert f"- {luna.bot.id}: luna" in announced
    shown = "\n".join(one.content for one in stage.finals(asked.id, sol) if one is not message)
    assert "handoff:" not in shown

    # The target cannot be brought in, so the outcome is there and the message is not: A is killed.
    stage.discord.faults.add(server_error(503), route="join_thread", bot_id=sol.bot.id, times=-1)
    second = await stage.ask(sol, _handing(luna.bot.id, "[[say=Luna did it again]]"))
    await stage.answer(second.id, sol, "[[say=Luna did it again]]")
    await sol.kill()
    assert not _envelopes(stage, second.id)
    stage.discord.faults.clear()
    await sol.start()
    await stage.answer(second.id, luna, "Luna did it again")
    await stage.settled(second)
    await stage.live(second.id, "🤝", PATIENCE)
    assert len(_envelopes(stage, second.id)) == 1
    assert len(luna.prompts) == 2
    rows = sol.rows("SELECT state, direction FROM handoffs ORDER BY direction, state")
    assert [(row["direction"], row["state"]) for row in rows] == [
        ("in", "accepted"),
        ("in", "accepted"),
        ("out", "sent"),
        ("out", "sent"),
    ]
    assert await sol.stop() == 0
    assert await luna.stop() == 0
