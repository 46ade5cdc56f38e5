"""Nothing an agent writes pings or wakes anybody, in whatever pieces it comes."""

import asyncio

import pytest

from openab.simulator.discord import LoopbackDiscord, Person
from tests.acceptance import audit
from tests.acceptance.stage import Broker, Stage, broken

#: Steps, and what people see before the agent goes on with the next.
Scenes = list[tuple[str, str]]


def _hostile(bot: str, role: str) -> list[Scenes]:
    """Texts that would ping; `chars` is a chunk per character, `say` cuts by hand."""
    forms = f"@everyone @here <@{bot}> <@!{bot}> <@&{role}>"
    cuts = [f"[[say=<@]][[say={bot[:4]}]][[say={bot[4:]}]][[say=>]]", "[[say=@every]][[say=one]]"]
    script = [
        (f"[[chars={forms} so far]]", "so far"),
        (f"{' '.join(cuts)} [[toolopen=execute:{forms}]]", "running"),
        (f"[[tool=execute:{forms}:0]]", ""),
    ]
    long = (
        f"[[delay=0.01]] [[file=chars:1930]] [[say={forms}]] [[file=chars:1900]] [[chars= {forms}]]"
    )
    failing = f"[[say={forms}]][[stderr={forms}]][[fail=-32603:{forms}]]"
    thought = [
        (f"[[think={forms}]][[plan={forms}|next]]", "plan 0/2"),
        (f"[[say=fine {forms}]]", ""),
    ]
    return [script, [(long, "")], [(failing, "")], thought]


async def _play(stage: Stage, sol: Broker, victim: str) -> None:
    role = stage.discord.add_role(stage.discord.guild, "team", stage.ann.id)
    bob = stage.person("bob @everyone")
    hostile = _hostile(victim, role.id)
    await asyncio.gather(*(_exchange(stage, sol, bob, scenes) for scenes in hostile))


async def _exchange(stage: Stage, sol: Broker, bob: Person, scenes: Scenes) -> None:
    """A hostile answer to Ann, then one to Bob in the same thread."""
    gates = [stage.gate() for _ in scenes]
    played = zip(scenes, gates, strict=True)
    steps = "".join(step + (gate.step if sign else "") for (step, sign), gate in played)
    asked = await stage.ask(sol, steps, stage.room())
    for (_, sign), gate in zip(scenes, gates, strict=True):
        await stage.live(asked.id, sign) if sign else None
        gate.open()
    await stage.settled(asked, "😱" if "[[fail" in steps else "🆗")
    again = await bob.say(asked.id, f"[[say=for bob {bob.mention}]]")
    await stage.answer(asked.id, sol, "for bob")
    await stage.settled(again)


def _pinged(discord: LoopbackDiscord, sol: Broker) -> set[str]:
    """Whom the bot's messages have notified."""
    channels = discord.world.channels.values()
    messages = [message for channel in channels for message in channel.messages.values()]
    return {who for one in messages if one.author.id == sol.bot.id for who in one.pings}


@pytest.mark.timeout(180)
async def test_an_agent_that_writes_mentions_in_every_way_reaches_nobody(stage: Stage) -> None:
    victim = stage.discord.add_bot("victim")
    stage.discord.limits.enabled = False
    sol = stage.broker(more="[presentation]\nedit_interval_ms = 200\n")
    await sol.start()
    await _play(stage, sol, victim.id)
    audit.check_bodies(stage.discord, stage.people)
    assert _pinged(stage.discord, sol) <= stage.people
    assert await sol.stop() == 0


async def test_the_audit_sees_a_broker_that_does_not_neutralise(stage: Stage) -> None:
    sol = stage.broker(argv=broken("neutralising"))
    await sol.start()
    asked = await stage.ask(sol, "[[say=@everyone look]]")
    answer = await stage.answer(asked.id, sol, "@everyone look")
    with pytest.raises(AssertionError, match="live mentions"):
        audit.check_bodies(stage.discord, stage.people)
    assert answer.pings <= stage.people, "the second fence, allowed_mentions, did not hold"
    stage.discord.journal.requests.clear()
    assert await sol.stop() == 0
