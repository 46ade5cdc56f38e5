"""Another bot gives ours work by hand: once, whatever dies meanwhile, and only while it is trusted."""

import json
import signal
from datetime import UTC, datetime
from uuid import UUID, uuid4

from openab.domain.handoff import draft, written
from openab.domain.ids import AccountId, ChannelName, ConversationRef, PlatformId
from openab.domain.message import Place
from openab.simulator.discord import Bot
from openab.simulator.discord.records import Message
from tests.acceptance.stage import Broker, Stage

_HARD = 'to <@77> @everyone ```\n"\\ \u200b\u202e👩‍🚀\x01 '


def _envelope(luna: Bot, sol: Broker, thread: str, text: str, event: UUID | None = None) -> str:
    ref = ConversationRef(ChannelName("discord"), AccountId(luna.id), PlatformId(thread))
    now, event = datetime.now(UTC), event or uuid4()
    target = PlatformId(sol.bot.id)
    return written(draft(ref.account, target, ref, Place.THREAD, None, event, now, text))


async def _marked(stage: Stage, message: Message, *emoji: str) -> None:
    """Wait until exactly these reactions of ours stand on it."""
    await stage.discord.wait_message(
        message.channel_id,
        lambda one: one.id == message.id and set(one.reactions) == set(emoji),
        60.0,
    )


def _texts(sol: Broker) -> list[str]:
    return [json.loads(prompt)["params"]["prompt"][-1]["text"] for prompt in sol.prompts]


async def test_a_handoff_is_done_once_and_only_while_its_bot_is_trusted(stage: Stage) -> None:
    luna = stage.discord.add_bot("luna")
    trusting = f'trusted_bot_ids = ["{luna.id}"]\n'
    sol = stage.broker(discord=trusting)
    await sol.start()
    asked = await stage.ask(sol, "[[say=hello]]")
    await stage.settled(asked)
    thread, event = asked.id, uuid4()

    # It is prompted byte for byte, answered, and marked.
    text = f"[[say=I did it]]{_HARD}"
    first = await luna.say(thread, _envelope(luna, sol, thread, text, event))
    await stage.answer(thread, sol, "I did it")
    await _marked(stage, first, "📥", "🆗")
    assert _texts(sol)[-1] == text

    # Nobody listens for a while: what lives is taken then, what was accepted before is not.
    await sol.kill()
    replay = await luna.say(thread, _envelope(luna, sol, thread, text, event))
    late = await luna.say(thread, _envelope(luna, sol, thread, "[[say=though late]]"))
    await sol.start()
    await stage.answer(thread, sol, "though late")
    await _marked(stage, late, "📥", "🆗")
    await _marked(stage, replay, "⛔")
    await stage.discord.wait_message(thread, lambda one: "(`replay`)" in one.content, 60.0)

    # Trust ends without a restart, and begins again.
    sol.config.write_text(sol.config.read_text().replace(trusting, ""))
    assert sol.process
    sol.process.send_signal(signal.SIGHUP)
    await sol.logged("trusted_bots_changed", added=[], removed=[luna.id])
    distrusted = await luna.say(thread, _envelope(luna, sol, thread, text))
    await _marked(stage, distrusted, "⛔")
    words = [row["reason"] for row in sol.rows("SELECT reason FROM handoff_refusals")]
    assert sorted(words) == ["replay", "source_not_trusted"]
    assert len(sol.rows("SELECT 1 FROM handoffs WHERE state = 'accepted'")) == 2
    assert len(sol.rows("SELECT 1 FROM turns WHERE source = 'handoff'")) == 2
    assert _texts(sol).count(text) == 1
    assert await sol.stop() == 0
