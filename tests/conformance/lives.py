"""Several lives of one broker on the same database and network, whose agents remember their sessions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from openab.control.settings import RecoverySettings, Settings
from openab.domain.ids import WorkerId
from openab.domain.message import InboundMessage
from openab.domain.recovery import RecoveryPolicy
from openab.ports.agent import Prompt
from openab.storage import conversations, turns
from openab.storage.engine import Database, Transaction
from openab.storage.schema import stream_segments, streams
from openab.storage.turns import Turn
from tests.builders import ACCOUNT, some_settings
from tests.conformance.control_stage import Stage, StageAgents, killed
from tests.fakes.agent import Memory
from tests.fakes.channel import RecordingChannel


class ContinuingAgents(StageAgents):
    """Agents that play something else than the request's steps when they are told to go on."""

    further = "[[say=the rest]]"

    def script(self, prompt: Prompt) -> str:
        return self.further if prompt.attempt > 1 else super().script(prompt)


def recovering(policy: str, max_attempts: int = 2, **changes: object) -> Settings:
    """Settings with this policy."""
    recovery = RecoverySettings(RecoveryPolicy(policy), max_attempts)
    return some_settings(recovery=recovery, **changes)


@dataclass
class Lives:
    """The present life is `now`; the one before it is dead or has stopped in order."""

    address: str
    settings: Settings
    channel: RecordingChannel
    memory: Memory = field(default_factory=dict)
    all: list[Stage] = field(default_factory=list)

    @property
    def now(self) -> Stage:
        """The life that works."""
        return self.all[-1]

    async def begin(
        self,
        settings: Settings | None = None,
        *,
        further: str = "",
        agents: ContinuingAgents | None = None,
    ) -> Stage:
        """Another life, on the same rows and the same network, begins to work."""
        made = await self.prepare(settings, further=further, agents=agents)
        await made.start()
        return made

    async def prepare(
        self,
        settings: Settings | None = None,
        *,
        further: str = "",
        agents: ContinuingAgents | None = None,
    ) -> Stage:
        """Another life that has not begun to work yet."""
        number = len(self.all) + 1
        playing = agents or ContinuingAgents(f"life-{number}", memory=self.memory)
        playing.further = further or playing.further
        made = Stage(
            await Database.open(self.address),
            settings_of(settings or self.settings, number),
            channel=self.channel,
            agents=playing,
        )
        self.all.append(made)
        return made

    async def kill(self) -> None:
        """The present life is dead, and everybody knows."""
        dead = self.now
        await killed(dead)
        async with self.elsewhere() as tx:
            worker = dead.settings.worker
            await conversations.free_dead(tx, ACCOUNT, worker, dead.settings.proof)

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[Transaction]:
        """A transaction of another process."""
        spare = await Database.open(self.address)
        try:
            async with spare.transaction() as tx:
                yield tx
        finally:
            await spare.close()

    async def again(self, *, further: str = "") -> Stage:
        """Kill the present life and begin the next."""
        await self.kill()
        return await self.begin(further=further)

    async def hanging(self, said: str, call: str = "") -> InboundMessage:
        """A request whose agent says this, and begins this call, and then nothing more; all is stored."""
        tool = f"[[tool={call}:600]]" if call else ""
        message = self.now.say(f"[[say={said}]] {tool} [[hang]]")
        await self.is_stored(said, with_call=bool(call))
        await self.now.let_it_be_seen()
        return message

    async def is_stored(self, said: str, *, with_call: bool = False) -> None:
        """Wait until some turn's stored text ends so, with a tool call if that is wanted."""
        rows = sa.select(stream_segments.c.text, streams.c.tools).join(
            streams, streams.c.turn_id == stream_segments.c.turn_id
        )

        async def is_so() -> bool:
            await self.now.stream_log.flush()
            async with self.now.database.read() as tx:
                found = (await tx.execute(rows)).all()
            return any(row.text.endswith(said) and (row.tools or not with_call) for row in found)

        await self.now.until(is_so)

    async def turn(self, message: InboundMessage) -> Turn:
        """The turn of this message."""
        found = await self.now.turn_of(message)
        assert found is not None
        return found

    async def recoveries(self, message: InboundMessage) -> list[dict[str, object]]:
        """The verdicts that the message's turn has had."""
        turn = await self.turn(message)
        async with self.now.database.read() as tx:
            lines = await turns.log_of(tx, turn.id)
        return [line["detail"] for line in lines if line["event"] == "turn_recovered"]


def settings_of(settings: Settings, number: int) -> Settings:
    """The same for a worker of this number."""
    return replace(settings, worker=WorkerId(f"worker-{number}"))


@asynccontextmanager
async def lives(
    address: str, settings: Settings, channel: RecordingChannel | None = None
) -> AsyncIterator[Lives]:
    """The first life has begun; all are ended, and their databases closed, at the end."""
    made = Lives(address, settings, channel or RecordingChannel(account=ACCOUNT))
    try:
        await made.begin()
        yield made
    finally:
        for stage in reversed(made.all):
            await stage.stop()
        for stage in made.all:
            await stage.database.close()
