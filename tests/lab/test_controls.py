"""The laboratory goes red where a promise is broken, and stays green in the very same scene where it is kept."""

import signal

import pytest

from openab.simulator.discord import commit_then, hang
from openab.simulator.discord.journal import Request
from tests.lab.brood import Life, Order
from tests.lab.delegation import each_task_is_given_once
from tests.lab.invariants import (
    no_mistake_in_the_log,
    one_final_answer,
    one_turn_for_each_message,
    raw_is_what_agents_said,
)
from tests.lab.laboratory import Laboratory, Setting, open_laboratory
from tests.lab.observation import Observation

pytestmark = pytest.mark.timeout(240)
_SECONDS = 60.0
_KEPT_OR_BROKEN = pytest.mark.parametrize("is_broken", [False, True], ids=["kept", "broken"])


async def _begun(lab: Laboratory, order: Order | None = None) -> Life:
    life = await lab.begin(order)
    assert await lab.connected(life)
    return life


@_KEPT_OR_BROKEN
async def test_a_nonce(is_broken: bool) -> None:
    """A part was posted, and the answer says that something went wrong.

    Not by a death: whoever starts reads what was said meanwhile, and may meet the part there.
    """
    async with open_laboratory(Setting(broken="nonce" if is_broken else "")) as lab:
        await _begun(lab)
        lab.discord.faults.add(
            commit_then(502),
            route="create_message",
            when=lambda one: not str(one.fields.get("content", "")).startswith("-# "),
        )
        assert await lab.ended(await lab.mention(330))
        told = list(one_final_answer(await lab.rested()))
        assert bool(told) is is_broken, told


@_KEPT_OR_BROKEN
async def test_an_inbox_key(is_broken: bool) -> None:
    """The network tells of a message twice while another one is answered."""
    async with open_laboratory(Setting(broken="inbox" if is_broken else "")) as lab:
        await _begun(lab)
        gate = lab.gate("open")
        first = await lab.mention(10, before=f"[[until={gate}]]")
        assert await lab.shows(first.id, "-# ", first)
        lab.discord.faults.deliver("twice", bot_id=lab.bot.id, event="MESSAGE_CREATE")
        second = await lab.say(first.id, 10)
        await lab.shows(first.id, "Queued behind", first)
        gate.touch()
        await lab.ended(second)
        seen = await lab.rested()
        told = [*one_turn_for_each_message(seen), *no_mistake_in_the_log(seen)]
        assert bool(told) is is_broken, told


@_KEPT_OR_BROKEN
async def test_an_epoch(is_broken: bool) -> None:
    """An owner is stopped for longer than its lease; another goes on with its turn; then it wakes.

    That two agents work meanwhile cannot be helped, since nobody can reach the first one: what counts
    is that only the second one's answer is kept.
    """
    broken = "epoch" if is_broken else ""
    setting = Setting(broken=broken, policy="resume", lease_seconds=2, call_seconds=1)
    async with open_laboratory(setting) as lab:
        told = list(raw_is_what_agents_said(await _overtaken(lab)))
        assert bool(told) is is_broken, told


@_KEPT_OR_BROKEN
async def test_a_child_that_is_opened_with_its_starter(is_broken: bool) -> None:
    """The broker dies right after the commit that confirms the message on which the thread hangs."""
    broken = "opening" if is_broken else ""
    async with open_laboratory(Setting(broken=broken, lease_seconds=20, call_seconds=10)) as lab:
        first = await _begun(lab)
        starter = lab.discord.faults.add(hang(_SECONDS), route="create_message", when=_is_starter)
        asked = await lab.delegate(10)
        # From then on nothing else is under way.
        assert await lab.ended(asked)
        await starter.wait_hits()
        first.order(Order("commit:control.outbox.Outbox._record:after"))
        starter.release()
        assert await first.until(lambda: bool(first.struck), _SECONDS)
        await lab.gone(first)
        second = await lab.begin()
        assert await lab.connected(second)
        told = list(each_task_is_given_once(await lab.rested()))
        assert bool(told) is is_broken, told


def _is_starter(request: Request) -> bool:
    return str(request.fields.get("content", "")).startswith("-# 🧵")


async def _overtaken(lab: Laboratory) -> Observation:
    lab.thaws = False
    first = await lab.begin(Order("agent:ack:stream_log:after", kind="stop"), home="first")
    assert await lab.connected(first)
    gate = lab.gate("open")
    # The two agents' words differ in what they remember.
    asked = await lab.mention(10, before=f"[[say=begun ]][[until={gate}]][[recall]]")
    assert await first.until(lambda: bool(first.struck), _SECONDS)
    second = await lab.begin(Order("agent:prompt:agent_run:after", kind="stop"), home="second")
    assert await second.until(lambda: bool(second.struck), _SECONDS)
    first.send(signal.SIGCONT)
    gate.touch()
    assert await first.until(lambda: _has_ended(first), _SECONDS)
    second.send(signal.SIGCONT)
    assert await lab.ended(asked)
    return await lab.rested()


def _has_ended(life: Life) -> bool:
    """Whether it has written the turn's end, or has given the turn up and ended its agent."""
    ends = (
        "commit:control.turn_runner.TurnRunner._commit_end:after",
        "agent:close:agent_run:after",
    )
    return any(point in ends for point in life.passed)
