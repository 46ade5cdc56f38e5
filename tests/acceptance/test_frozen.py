"""Stopped for three lease times in mid-stream and then continued: nothing twice, nothing lost."""

import asyncio
import sys

from openab.simulator.discord import Message
from tests.acceptance.stage import START_SECONDS, Broker, Stage

_LEASE = 3
_SHORT = f"[cluster]\nlease_seconds = {_LEASE}\ncall_seconds = 2\n"


async def test_alone_it_takes_its_lease_again_and_goes_on(stage: Stage) -> None:
    sol = stage.broker(more=_SHORT)
    await sol.start()
    gate = stage.gate()
    asked = await stage.ask(sol, f"[[say=before ]]{gate.step}[[say=and after]]")
    await stage.live(asked.id, "before")
    sol.freeze()
    gate.open()
    # The time itself is what is proved here: three leases pass.
    await asyncio.sleep(3 * _LEASE)
    sol.thaw()
    await _must_be_answered_once(stage, sol, asked, "before and after")
    assert len(sol.prompts) == 1
    await _must_go_on(stage, sol, asked)
    assert await sol.stop() == 0


async def test_who_was_succeeded_meanwhile_writes_nothing_more(
    migrated_postgres_address: str, stage: Stage
) -> None:
    first, second = _replicas(stage, migrated_postgres_address)
    await first.start()
    gate = stage.gate()
    asked = await stage.ask(first, f"[[say=before ]]{gate.step}[[say=and after]]")
    await stage.live(asked.id, "before")
    await _join(stage, second)
    first.freeze()
    gate.open()
    # It lives, so its death cannot be proved: the other one waits for the end of its lease.
    await stage.answer(asked.id, second, "before and after")
    first.thaw()
    await first.logged("lease_lost")
    await _must_be_answered_once(stage, second, asked, "before and after")
    assert (len(first.prompts), len(second.prompts)) == (1, 1)
    assert not [line for line in second.log if line["event"] == "dead_owner_succeeded"]
    await _must_go_on(stage, second, asked)
    assert await first.stop() == 0
    assert await second.stop() == 0


def _replicas(stage: Stage, address: str) -> tuple[Broker, Broker]:
    """Two brokers of one bot on one database, as on two machines: each has a folder of its own."""
    url = address.replace("postgresql+asyncpg://", "postgresql://")
    made: list[Broker] = []
    for name in ("one", "two"):
        home = stage.folder / f"machine-{name}"
        home.mkdir()
        environ = {"OPENAB_DATABASE_URL": url, "HOME": str(home)}
        bot = made[0].bot if made else None
        made.append(stage.broker(name, more=_SHORT, environ=environ, home=home / "openab", bot=bot))
    return made[0], made[1]


async def _join(stage: Stage, broker: Broker) -> None:
    """Start it beside the one that is connected with the same bot."""
    with broker.log_file.open("ab") as log:
        broker.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "openab", "run", "-c", str(broker.config),
            env=dict(broker.environ), stderr=log,
        )  # fmt: skip
    sessions = stage.discord.gateway
    await stage.discord.wait_until(lambda: len(sessions.of_bot(broker.bot.id)) == 2, START_SECONDS)


async def _must_be_answered_once(stage: Stage, broker: Broker, asked: Message, text: str) -> None:
    await stage.answer(asked.id, broker, text)
    await stage.settled(asked)
    await stage.bare(asked.id)
    finals = stage.finals(asked.id, broker)
    assert len(finals) == 1, stage.discord.picture(asked.id)
    assert finals[0].content.count(text) == 1


async def _must_go_on(stage: Stage, broker: Broker, asked: Message) -> None:
    """What is said next is answered, once, and the first answer still stands alone before it."""
    await stage.ann.say(asked.id, "[[say=the next one]]")
    await stage.answer(asked.id, broker, "the next one")
    await stage.bare(asked.id)
    assert len(stage.finals(asked.id, broker)) == 2, stage.discord.picture(asked.id)
