"""An orderly stop: nothing new is begun, a call in flight ends and is recorded, every lease is given back."""

import asyncio
from datetime import timedelta

import sqlalchemy as sa

from openab.domain.delivery import DeliveryState
from openab.domain.ids import PlatformId
from openab.domain.outbound import MessageBody
from openab.domain.turn import TurnState
from openab.ports.tasks import spawn
from openab.storage import schema
from openab.storage.engine import Database
from tests.builders import ACCOUNT, HOME, some_settings
from tests.conformance.control_stage import Stage
from tests.fakes.channel import RecordingChannel

SLOW = some_settings(drain=timedelta(0), call=timedelta(seconds=30), mode=lambda *_: "final")


class HeldChannel(RecordingChannel):
    """Holds creates on their way until a test lets them arrive."""

    def __init__(self) -> None:
        super().__init__(account=ACCOUNT)
        self.begun = asyncio.Event()
        self.may_arrive = asyncio.Event()

    async def create_message(
        self, conversation_id: PlatformId, body: MessageBody, nonce: str, seconds: float
    ) -> PlatformId:
        self.begun.set()
        await self.may_arrive.wait()
        return await super().create_message(conversation_id, body, nonce, seconds)


async def leases(database: Database) -> int:
    async with database.read() as tx:
        owned = sa.select(schema.conversations.c.id).where(
            schema.conversations.c.lease_owner.is_not(None)
        )
        return len((await tx.execute(owned)).all())


async def test_a_reply_in_flight_is_sent_once_and_recorded(database: Database) -> None:
    channel = HeldChannel()
    stage = Stage(database, SLOW, channel)
    await stage.start()
    message = stage.say("[[say=the answer]]")
    await channel.begun.wait()
    assert await leases(database) == 1
    stopping = spawn("stop", stage.stop())
    await stage.until(lambda: _is_stopped_by_force(stage))
    channel.may_arrive.set()
    await stopping
    turn = await stage.turn_of(message)
    assert turn is not None
    (row,) = await stage.rows(turn.id)
    assert (row.state, row.tries, turn.state) == (DeliveryState.SENT, 1, TurnState.DONE)
    assert channel.shown(message.message_id) == ["<@31>\nthe answer"]
    assert await leases(database) == 0


async def _is_stopped_by_force(stage: Stage) -> bool:
    """The drain's time is over and its owners were cancelled."""
    return stage.stopping.is_set() and not stage.dispatcher._held


async def test_a_call_without_an_end_is_left_in_doubt_and_resolved_by_the_next(
    database: Database,
) -> None:
    channel = RecordingChannel(account=ACCOUNT)
    channel.hang("create_message", commits=True)
    settings = some_settings(drain=timedelta(0), mode=lambda *_: "final")
    stage = Stage(database, settings, channel)
    await stage.start()
    message = stage.say("[[say=the answer]]")
    await channel.until(lambda one: one.calls_of("create_message"))
    await stage.stop()
    assert await leases(database) == 0
    after = Stage(database, settings, channel)
    await after.start()
    assert (await after.settled(message)).state is TurnState.DONE
    await after.stop()
    assert channel.shown(message.message_id) == ["<@31>\nthe answer"]


async def test_what_comes_during_the_drain_waits_for_the_next_start(database: Database) -> None:
    settings = some_settings(drain=timedelta(seconds=30))
    stage = Stage(database, settings)
    stage.agents.may_end.clear()
    await stage.start()
    running = stage.say("[[say=the first]]")
    await stage.until(lambda: _runs(stage))
    stopping = spawn("stop", stage.stop())
    await stage.until(lambda: _is_stopping(stage))
    late = stage.say("[[say=the second]]")
    await stage.until(lambda: stage.turn_of(late))
    stage.agents.may_end.set()
    await stopping
    first, second = await stage.turn_of(running), await stage.turn_of(late)
    assert first
    assert second
    assert (first.state, second.state) == (TurnState.DONE, TurnState.QUEUED)
    assert await leases(database) == 0
    after = Stage(database, settings, stage.channel)
    await after.start()
    assert (await after.settled(late)).state is TurnState.DONE
    await after.stop()
    assert stage.channel.shown(HOME) == ["[[say=the first]]", "[[say=the second]]"]


async def _runs(stage: Stage) -> bool:
    return stage.dispatcher.running_turns > 0


async def _is_stopping(stage: Stage) -> bool:
    return stage.stopping.is_set()
