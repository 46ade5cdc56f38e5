"""The hardest faults on the wire, one in each conversation, and a kill while they are under way."""

import asyncio
from collections.abc import Callable

import pytest

from openab.simulator.discord import Message, Request, commit_then, hang, rate_limited
from openab.simulator.discord.fault_kinds import commit_then_drop, drop_before_commit
from openab.simulator.discord.faults import FaultHandle, RestFault
from tests.acceptance.stage import Broker, Stage

_FRESH = "[presentation]\nfinal = 'fresh'\n"


def _is_final(request: Request) -> bool:
    return "the answer" in str(request.fields.get("content", ""))


def _is_placeholder(request: Request) -> bool:
    return str(request.fields.get("content", "")).startswith("-# ⏳")


def _any(_request: Request) -> bool:
    return True


_HARD = [
    (fault, route, which)
    for route, which, faults in (
        ("start_thread", _any, (commit_then_drop(), rate_limited("sub_limit", 3.0))),
        ("create_message", _is_placeholder, (commit_then_drop(), hang(90, "before"))),
        ("create_message", _is_final, (commit_then(502), commit_then_drop(), hang(90, "before"))),
        ("delete_message", _any, (commit_then_drop(), drop_before_commit())),
    )
    for fault in faults
]


@pytest.mark.timeout(300)
async def test_every_conversation_has_its_one_answer_and_nothing_is_left(stage: Stage) -> None:
    sol = stage.broker(more=_FRESH)
    await sol.start()
    asked = await asyncio.gather(*(_ask(stage, sol, *hard) for hard in _HARD))
    await sol.kill()
    await sol.start()
    for trigger in asked:
        await stage.answer(trigger.id, sol, "the answer")
        await stage.settled(trigger)
        await stage.bare(trigger.id)
    for trigger, (fault, route, _) in zip(asked, _HARD, strict=True):
        finals = stage.finals(trigger.id, sol)
        assert len(finals) == 1, f"{route} {fault.name}: {stage.discord.picture(trigger.id)}"
        assert sol.turn(trigger)["state"] == "done"
    assert await sol.stop() == 0


async def _ask(
    stage: Stage, sol: Broker, fault: RestFault, route: str, which: Callable[[Request], bool]
) -> Message:
    """A request whose call goes wrong; returns when it has."""
    # The thread is opened in the room, the rest happens in the thread.
    places = [stage.room()]

    def fits(request: Request) -> bool:
        return any(place in request.path for place in places) and which(request)

    held: FaultHandle = stage.discord.faults.add(fault, route=route, when=fits)
    asked = await stage.ask(sol, "[[say=the answer]]", places[0])
    places.append(asked.id)
    await held.wait_hits(1, 120)
    return asked
