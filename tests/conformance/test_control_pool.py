"""More conversations than agents: idle ones make room, turns wait in line, and nothing is lost by it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from openab.control import owner
from openab.control.settings import PoolSettings, RecoverySettings, Settings
from openab.control.turn_runner import TurnRunner
from openab.domain.agent_events import FailureKind
from openab.domain.ids import TurnId, WorkerId
from openab.domain.message import InboundMessage
from openab.domain.recovery import RecoveryPolicy
from openab.domain.turn import Outcome, TurnState
from openab.ports.agent import AgentSession
from openab.storage import conversations, schema
from openab.storage.engine import Database, DatabaseUnavailable
from tests.builders import ACCOUNT, a_spec, some_settings
from tests.conformance.control_stage import Stage, StageAgents, killed, on_stage


def places(count: int, **changes: object) -> Settings:
    return some_settings(pool=PoolSettings(count), **changes)


class CountedAgents(StageAgents):
    """How many live at once; their ends can be held back."""

    def __init__(self, incarnation: str = "fake-1") -> None:
        super().__init__(incarnation)
        self.most = 0
        self.closing = asyncio.Event()
        #: The next end waits for this.
        self.may_close: asyncio.Event | None = None

    async def open(self, *args: object, **named: object) -> object:  # type: ignore[override]
        opened = await super().open(*args, **named)  # type: ignore[arg-type]
        self.most = max(self.most, len(self._live))
        return opened

    async def close(self, session: AgentSession, within: float | None = None) -> None:
        held, self.may_close = self.may_close, None
        if held:
            self.closing.set()
            await held.wait()
        await super().close(session, within)


async def prompted(stage: Stage, count: int) -> None:
    """So many turns have reached an agent."""
    await stage.signals.wait("agent_prompted", times=count)


async def busy_and_waiting(stage: Stage) -> tuple[InboundMessage, InboundMessage]:
    """One turn has the only place, and another one is told that it waits for it."""
    first = stage.say("[[hang]]")
    await prompted(stage, 1)
    second = stage.say("second")
    await stage.channel.until(
        lambda channel: any(
            "only agent is busy" in text for text in channel.shown(second.message_id)
        )
    )
    return first, second


class TestAFullPool:
    async def test_three_threads_in_turn_take_two_agents_and_the_first_is_resumed(
        self, database: Database
    ) -> None:
        agents = CountedAgents()
        async with on_stage(database, places(2), agents=agents) as stage:
            threads = []
            for n in range(3):
                threads.append(stage.say(f"I am {n}"))
                await stage.settled(threads[-1])
            again = stage.say("[[recall]]", thread=threads[0].message_id, mention=False)
            await stage.settled(again)
            log = [await stage.log_of(turn) for turn in await turns_of(stage, again)]
        assert agents.most == 2
        assert "I am 0" in stage.channel.shown(threads[0].message_id)[-1]
        assert "session_opened" in log[0]

    async def test_where_all_are_busy_people_are_told_and_the_turn_begins_by_itself(
        self, database: Database
    ) -> None:
        agents = CountedAgents()
        async with on_stage(database, places(1), agents=agents) as stage:
            first, second = await busy_and_waiting(stage)
            waiting = await stage.turn_of(second)
            assert waiting is not None
            assert waiting.state is TurnState.QUEUED
            assert stage.pool.waiting == 1
            await stage.press(first.message_id)
            await stage.settled(first)
            assert (await stage.settled(second)).outcome is Outcome.COMPLETED
            await stage.quiet()
        assert agents.most == 1
        assert not any("busy" in text for text in stage.channel.shown(second.message_id))

    async def test_serves_the_longest_waiting_first(self, database: Database) -> None:
        async with on_stage(database, places(1)) as stage:
            first, second = await busy_and_waiting(stage)
            third = stage.say("third")
            await stage.signals.wait("turn_in_line", times=2)
            await stage.press(first.message_id)
            await stage.settled(third)
            await stage.settled(second)
        said = [prompt.content[-1].text for prompt in stage.agents.prompts]
        assert said == ["[[hang]]", "second", "third"]

    async def test_a_turn_behind_another_one_says_so_when_only_the_place_is_missing(
        self, database: Database
    ) -> None:
        async with on_stage(database, places(1)) as stage:
            first, second = await busy_and_waiting(stage)
            later = stage.say("later", thread=second.message_id, mention=False)
            await stage.channel.until(
                lambda c: any("Queued behind 1" in text for text in c.shown(second.message_id))
            )
            waiting = await stage.turn_of(second)
            assert waiting is not None
            await stage.press(second.message_id, waiting.id, interaction="1")
            # The one that stood behind it is next now, and still has no agent.
            await stage.channel.until(
                lambda c: (
                    not any("Queued behind" in text for text in c.shown(second.message_id))
                    and any("busy" in text for text in c.shown(second.message_id))
                )
            )
            await stage.press(first.message_id, interaction="2")
            assert (await stage.settled(later)).outcome is Outcome.COMPLETED

    async def test_who_waits_can_be_cancelled(self, database: Database) -> None:
        async with on_stage(database, places(1)) as stage:
            first, second = await busy_and_waiting(stage)
            await stage.press(second.message_id, interaction="1")
            assert (await stage.settled(second)).state is TurnState.CANCELLED
            await stage.until(_nobody_waits(stage))
            await stage.press(first.message_id, interaction="2")
        assert len(stage.agents.prompts) == 1

    async def test_starts_nothing_before_the_evicted_agent_has_ended(
        self, database: Database
    ) -> None:
        agents = CountedAgents()
        async with on_stage(database, places(1), agents=agents) as stage:
            first = stage.say("first")
            await stage.settled(first)
            agents.may_close = may_close = asyncio.Event()
            second = stage.say("second")
            await agents.closing.wait()
            await stage.signals.wait("turn_claimed", times=2)
            assert len(agents._live) == 1
            may_close.set()
            await stage.settled(second)
        assert agents.most == 1

    async def test_in_final_mode_it_waits_in_silence(self, database: Database) -> None:
        settings = places(1, mode=lambda _ref, _other: "final")
        async with on_stage(database, settings) as stage:
            first = stage.say("[[hang]]")
            await prompted(stage, 1)
            second = stage.say("second")
            await stage.signals.wait("turn_in_line")
            await stage.press(first.message_id)
            await stage.settled(second)
        texts = [c.body.content for c in stage.channel.calls_of("create_message") if c.body]
        assert not any("busy" in text for text in texts)


class TestTime:
    async def test_an_idle_agent_is_ended_and_its_session_resumed(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = stage.say("the word is swordfish")
            await stage.settled(first)
            stage.clock.extra += 4 * 3600 + 1
            stage.pool.sweep()
            await stage.pool.ended()
            assert not stage.agents._live
            second = stage.say("[[recall]]", thread=first.message_id, mention=False)
            await stage.settled(second)
        assert "swordfish" in stage.channel.shown(first.message_id)[-1]

    async def test_a_hung_agent_is_ended_and_its_session_works_again(
        self, database: Database
    ) -> None:
        hung = replace(a_spec(), hard_timeout_seconds=0.05)
        settings = some_settings(
            agent=lambda: hung, pool=PoolSettings(hung_grace=timedelta(seconds=0.05))
        )
        async with on_stage(database, settings) as stage:
            first = stage.say("[[say=so far]] [[hang]]")
            turn = await stage.settled(first)
            async with database.read() as tx:
                known = sa.select(schema.turns.c.error).where(schema.turns.c.id == turn.id)
                error = (await tx.execute(known)).scalar_one()
            second = stage.say("[[recall]]", thread=first.message_id, mention=False)
            after = await stage.settled(second)
        assert (turn.outcome, after.outcome) == (Outcome.FAILED, Outcome.COMPLETED)
        assert error["kind"] == FailureKind.HARD_TIMEOUT
        assert "so far" in stage.channel.shown(first.message_id)[0]


class TestAKill:
    @pytest.mark.parametrize("point", ["in_line", "evicting"])
    async def test_loses_no_turn_and_runs_none_twice(
        self, migrated_address: str, point: str
    ) -> None:
        first_life, second_life = [await Database.open(migrated_address) for _ in range(2)]
        agents = CountedAgents()
        stage = Stage(first_life, places(1), agents=agents)
        await stage.start()
        if point == "in_line":
            first, second = await busy_and_waiting(stage)
        else:
            first = stage.say("first")
            await stage.settled(first)
            agents.may_close = asyncio.Event()
            second = stage.say("second")
            # Its turn is claimed and its placeholder shown, but no agent was started for it.
            await stage.signals.wait("turn_claimed", times=2)
        await killed(stage)
        heir = Stage(
            second_life,
            places(1, worker=WorkerId("worker-2"), recovery=RecoverySettings(RecoveryPolicy.FAIL)),
            channel=stage.channel,
            agents=CountedAgents("fake-2"),
        )
        async with second_life.transaction() as tx:
            await conversations.free_dead(tx, ACCOUNT, WorkerId("worker-1"), "proof-1")
        await heir.start()
        turn = await heir.settled(second)
        await heir.quiet()
        shown = heir.channel.shown(second.message_id)
        await heir.stop()
        await first_life.close()
        await second_life.close()
        prompts = [*stage.agents.prompts, *heir.agents.prompts]
        given = sum(prompt.turn == turn.id for prompt in prompts)
        # A claimed turn may have been prompted: with this policy it is told, never repeated.
        expected = (Outcome.COMPLETED, 1) if point == "in_line" else (Outcome.INTERRUPTED, 0)
        assert (turn.outcome, given) == expected
        assert not any("busy" in text or "starting" in text for text in shown)


def _nobody_waits(stage: Stage) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        return stage.pool.waiting == 0

    return probe


async def turns_of(stage: Stage, *messages: InboundMessage) -> list[TurnId]:
    found = [await stage.turn_of(message) for message in messages]
    return [turn.id for turn in found if turn]


async def test_a_turn_whose_claim_failed_is_started_again_in_its_place(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place must not be left by the former run when the next one of the same turn has it."""
    original, failures = TurnRunner.run, 3

    async def run(runner: TurnRunner) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise DatabaseUnavailable("away")
        await original(runner)

    monkeypatch.setattr(TurnRunner, "run", run)
    monkeypatch.setattr(owner, "RETRY_SECONDS", 0.01)
    async with on_stage(database, places(1)) as stage:
        assert (await stage.settled(stage.say("hi"))).outcome is Outcome.COMPLETED


async def test_a_place_is_kept_while_the_claim_is_being_committed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row still says `queued` then: whoever looks must not take the turn for a second one."""
    original, may_claim = TurnRunner._claim, asyncio.Event()

    async def claim(runner: TurnRunner) -> object:
        await may_claim.wait()
        return await original(runner)

    monkeypatch.setattr(TurnRunner, "_claim", claim)
    agents = CountedAgents()
    async with on_stage(database, places(1), agents=agents) as stage:
        first = stage.say("[[hang]]")
        await stage.until(lambda: running(stage))
        second = stage.say("second")
        await stage.signals.wait("turn_in_line")
        (held,) = [one for one in stage.dispatcher._held.values() if one.owner.is_running_turn]
        for _ in range(3):
            held.owner.wake()
            await stage.until(lambda: looked(held.owner))
        may_claim.set()
        await prompted(stage, 1)
        for _ in range(3):
            held.owner.wake()
            await stage.until(lambda: looked(held.owner))
        assert stage.pool.waiting == 1
        await stage.press(first.message_id)
        await stage.settled(second)
    assert agents.most == 1


async def running(stage: Stage) -> bool:
    return stage.dispatcher.running_turns == 1


async def looked(one: owner.ConversationOwner) -> bool:
    return not one._woken.is_set()
