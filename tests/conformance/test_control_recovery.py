"""Nothing is lost or doubled when a process, a lease or the database goes away in mid-turn."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import sqlalchemy as sa

from openab.control import finals, owner, persist
from openab.control.settings import RecoverySettings, Settings
from openab.domain.ids import WorkerId
from openab.domain.message import InboundMessage
from openab.domain.recovery import RecoveryPolicy
from openab.domain.turn import Outcome, TurnState
from openab.storage import conversations, schema
from openab.storage.engine import CommitUnknown, Database, Transaction
from tests.builders import ACCOUNT, Offset, some_settings, the_claim
from tests.conformance.control_stage import Stage, StageAgents, killed, on_stage


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persist, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(owner, "RETRY_SECONDS", 0.01)


def successor() -> Settings:
    """What goes on by itself, and after which question, is tested elsewhere."""
    recovery = RecoverySettings(RecoveryPolicy.FAIL)
    return some_settings(worker=WorkerId("worker-2"), recovery=recovery)


@asynccontextmanager
async def two_lives(address: str) -> AsyncIterator[tuple[Stage, Callable[[], Stage]]]:
    """A first process, and a way to make its successor on the same database and network."""
    first, second = await Database.open(address), await Database.open(address)
    stage = Stage(first, some_settings())
    heirs: list[Stage] = []

    def heir() -> Stage:
        agents = StageAgents("fake-2")
        heirs.append(Stage(second, successor(), channel=stage.channel, agents=agents))
        return heirs[-1]

    await stage.start()
    try:
        yield stage, heir
    finally:
        for one in heirs:
            await one.stop()
        await stage.stop()
        await first.close()
        await second.close()


class TestAKilledProcess:
    async def test_leaves_a_turn_that_ends_interrupted_with_what_it_said(
        self, migrated_address: str
    ) -> None:
        async with two_lives(migrated_address) as (stage, heir):
            message = stage.say("[[say=half of it]] [[hang]]")
            await stage.let_it_be_seen()
            await stage.signals.wait("streams_committed")
            await killed(stage)
            next_one = heir()
            async with next_one.database.transaction() as tx:
                freed = await conversations.free_dead(tx, ACCOUNT, WorkerId("worker-1"), "proof-1")
            await next_one.start()
            turn = await next_one.settled(message)
            await next_one.quiet()
            log = await next_one.log_of(turn.id)
        assert freed == 1
        assert (turn.state, turn.outcome) == (TurnState.INTERRUPTED, Outcome.INTERRUPTED)
        (text,) = stage.channel.shown(message.message_id)
        assert "Interrupted by a restart" in text
        assert "half of it" in text
        assert stage.channel.message(message.message_id).reactions == {"😱"}
        assert "turn_interrupted" in log
        assert not next_one.agents.prompts

    async def test_leaves_a_text_that_is_cut_before_the_transaction_that_ends_its_turn(
        self, migrated_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def too_late(*_: object) -> tuple[str, ...]:
            """A long text would hold up every other writer."""
            raise AssertionError("cut in the transaction")

        async with two_lives(migrated_address) as (stage, heir):
            message = stage.say("[[say=half of it]] [[hang]]")
            await stage.let_it_be_seen()
            await stage.signals.wait("streams_committed")
            await killed(stage)
            monkeypatch.setattr(finals, "pieces", too_late)
            next_one = heir()
            async with next_one.database.transaction() as tx:
                await conversations.free_dead(tx, ACCOUNT, WorkerId("worker-1"), "proof-1")
            await next_one.start()
            turn = await next_one.settled(message)
        assert turn.outcome is Outcome.INTERRUPTED
        assert len(stage.channel.shown(message.message_id)) == 1

    async def test_leaves_a_queued_turn_that_is_run_once(self, migrated_address: str) -> None:
        async with two_lives(migrated_address) as (stage, heir):
            first = stage.say("[[hang]]")
            await stage.signals.wait("agent_prompted")
            second = stage.say("second", thread=first.message_id, mention=False)
            await stage.signals.wait("intake_committed", times=2)
            await killed(stage)
            next_one = heir()
            async with next_one.database.transaction() as tx:
                await conversations.free_dead(tx, ACCOUNT, WorkerId("worker-1"), "proof-1")
            await next_one.start()
            turn = await next_one.settled(second)
        assert turn.state is TurnState.DONE
        assert [p.turn for p in next_one.agents.prompts] == [turn.id]


class TestAnOrderlyStop:
    async def test_gives_the_conversation_back_and_the_turn_to_its_successor(
        self, migrated_address: str
    ) -> None:
        async with two_lives(migrated_address) as (stage, heir):
            message = stage.say("[[say=half]] [[hang]]")
            await stage.signals.wait("streams_committed")
            await stage.stop()
            turn = await stage.turn_of(message)
            assert turn is not None
            async with stage.database.read() as tx:
                row = (await tx.execute(sa.select(schema.conversations).where(
                    schema.conversations.c.id == turn.conversation))).one()  # fmt: skip
            next_one = heir()
            await next_one.start()
            ended = await next_one.settled(message)
        assert (turn.state, row.lease_owner) == (TurnState.RUNNING, None)
        assert ended.state is TurnState.INTERRUPTED

    async def test_lets_a_short_turn_end(self, database: Database) -> None:
        settings = some_settings(drain=timedelta(seconds=20))
        async with on_stage(database, settings) as stage:
            stage.agents.may_end.clear()
            message = stage.say("hi")
            await stage.signals.wait("agent_prompted")
            stage.stopping.set()
            stage.agents.may_end.set()
            await stage.signals.wait("turn_answered")
        turn = await stage.turn_of(message)
        assert turn is not None
        assert turn.state is TurnState.DONE


class TestALostLease:
    async def test_ends_the_run_and_nothing_more_is_written(self, database: Database) -> None:
        clock = Offset(database)
        async with on_stage(database) as stage:
            message = stage.say(
                "[[say=a]] [[wait=0.3]] [[words=500]] [[delay=0.01]] [[words=9999]]"
            )
            await stage.let_it_be_seen()
            clock.pass_by(30)
            where, _ = await the_claim(database, "another")
            await stage.quiet()
            calls = len(stage.channel.calls)
            turn = await stage.turn_of(message)
            rows = await stage.rows(turn.id) if turn else []
            assert not stage.agents._live
        assert turn is not None
        assert turn.state is TurnState.RUNNING
        assert where.id == turn.conversation
        assert len(stage.channel.calls) == calls
        assert {row.purpose.value for row in rows} == {"placeholder"}


def said_by_us(stage: Stage, thread: str) -> list[str]:
    posted = stage.channel.posted(thread)
    return [one.body.content for one in posted if one.author_id == stage.channel.account]


class TestADatabaseThatFailsOnce:
    @pytest.mark.parametrize("is_done", [True, False])
    async def test_at_any_commit_costs_no_answer_and_doubles_none(
        self, database: Database, monkeypatch: pytest.MonkeyPatch, is_done: bool
    ) -> None:
        breaks_at, count, original = 0, 0, Transaction.commit

        async def commit(tx: Transaction) -> None:
            nonlocal count
            count += 1
            if count != breaks_at:
                await original(tx)
                return
            if is_done:
                await original(tx)
            raise CommitUnknown("the connection broke")

        monkeypatch.setattr(Transaction, "commit", commit)
        clock = Offset(database)
        async with on_stage(database) as stage:
            # The first is the thread's; then one turn after the other with one broken commit each.
            thread = stage.say("begin")
            await stage.settled(thread)
            for nth in range(1, 13):
                await stage.quiet()
                count, breaks_at = 0, nth
                text = f"[[say=answer {nth}.]]"
                message = stage.say(text, thread=thread.message_id, mention=False)
                await self.claimed(stage, message, clock)
                turn = await stage.settled(message, within=20)
                shown = said_by_us(stage, thread.message_id)
                assert turn.state is TurnState.DONE, nth
                assert sum(f"answer {nth}." in text for text in shown) == 1, nth
                assert len([p for p in stage.agents.prompts if p.turn == turn.id]) == 1, nth
            await stage.quiet()
            assert count >= 10
        leftovers = [text for text in shown if "starting" in text or "Queued" in text]
        assert not leftovers

    async def claimed(self, stage: Stage, message: InboundMessage, clock: Offset) -> None:
        """A claim whose commit was in doubt is found again when its lease has run out."""

        orphaned = 0

        async def is_seen_to() -> bool:
            nonlocal orphaned
            turn = await stage.turn_of(message)
            if turn is None:
                return False
            async with stage.database.read() as tx:
                where = await conversations.get(tx, turn.conversation)
            is_ours = bool(stage.dispatcher._held) or turn.state is not TurnState.QUEUED
            orphaned = 0 if is_ours or where.lease_owner is None else orphaned + 1
            return is_ours or orphaned > 9

        await stage.until(is_seen_to, within=20)
        if orphaned:
            clock.pass_by(30)
