"""What the control plane does when a claim, a lease, a row or a stop goes wrong: nobody is left waiting."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from openab.control import commands, outcome, owner, persist
from openab.control.outbox import Outbox
from openab.control.owner import ConversationOwner
from openab.domain.agent_events import AgentFailure, FailureKind
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.errors import IllegalTransition
from openab.domain.gates import BotMode, GatePolicy
from openab.domain.ids import ConversationId, TurnId
from openab.domain.message import AuthorKind, InboundMessage
from openab.domain.turn import Outcome, TurnState
from openab.ports.agent import AgentRefused, StaleEpoch
from openab.ports.feed import Shown
from openab.ports.tasks import spawn
from openab.storage import accounts, conversations, schema, sessions, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.engine import (
    CommitUnknown,
    Conflict,
    Database,
    DatabaseUnavailable,
    Transaction,
    Unwritable,
)
from openab.storage.renewal import Renewal
from openab.storage.sessions import Session
from openab.storage.turns import Turn
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    HOME,
    Offset,
    a_conversation,
    a_turn,
    an_author,
    some_settings,
    the_claim,
)
from tests.conformance.control_stage import Stage, StageAgents, on_stage
from tests.conformance.lives import recovering

#: Longer than any lease of a stage by its own clock.
_LATER = 4000.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persist, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(owner, "RETRY_SECONDS", 0.01)


async def lease_of(stage: Stage, message: InboundMessage) -> tuple[ConversationId, int, str | None]:
    """Conversation, epoch and lease owner of a message's turn."""
    turn = await stage.turn_of(message)
    assert turn is not None
    async with stage.database.read() as tx:
        query = sa.select(schema.conversations).where(
            schema.conversations.c.id == turn.conversation
        )
        row = (await tx.execute(query)).one()
    return turn.conversation, row.epoch, row.lease_owner


def owner_of(stage: Stage) -> ConversationOwner:
    (held,) = stage.dispatcher._held.values()
    return held.owner


def failed_renewal() -> Renewal:
    return Renewal(time.monotonic(), failure=DatabaseUnavailable("away"))


class TestAnOrphan:
    async def test_of_a_claim_in_doubt_is_given_back_when_its_lease_is_renewed(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            claim, doubted = stage.dispatcher._claim, 0

            async def in_doubt(held: list[ConversationId]) -> list[tuple[Conversation, Ownership]]:
                nonlocal doubted
                claims = await claim(held)
                if claims and not doubted:
                    doubted += 1
                    raise CommitUnknown("the connection broke")
                return claims

            stage.dispatcher._claim = in_doubt  # type: ignore[method-assign]
            message = stage.say("hi")

            async def is_orphaned() -> bool:
                return doubted == 1 and not stage.dispatcher._is_claiming

            await stage.until(is_orphaned)
            conversation, epoch, worker = await lease_of(stage, message)
            assert worker == "worker-1"
            stage.dispatcher.renewed(Renewal(time.monotonic(), {conversation: epoch}))
            turn = await stage.settled(message)
        assert turn.state is TurnState.DONE

    async def test_is_not_what_is_being_claimed_at_that_moment(self, database: Database) -> None:
        async with on_stage(database) as stage:
            claim = stage.dispatcher._claim

            async def slow(held: list[ConversationId]) -> list[tuple[Conversation, Ownership]]:
                claims = await claim(held)
                epochs = {one.conversation: one.epoch for _, one in claims}
                stage.dispatcher.renewed(Renewal(time.monotonic(), epochs))
                return claims

            stage.dispatcher._claim = slow  # type: ignore[method-assign]
            message = stage.say("[[hang]]")
            await stage.let_it_be_seen()
            assert not stage.dispatcher._orphans
            _, epoch, worker = await lease_of(stage, message)
        assert (epoch, worker) == (1, "worker-1")

    async def test_is_not_left_by_an_owner_that_ended_while_the_epoch_was_its_own(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            stage.agents.refuse_open = StaleEpoch("an agent's epoch from nowhere")
            turn = await stage.settled(stage.say("hi"))
        # The agent never got it, so it is given the very same prompt.
        assert (turn.outcome, turn.attempt) == (Outcome.COMPLETED, 1)


class TestALeaseThatRanOutByOurOwnClock:
    async def test_is_taken_again_and_the_turn_completes(self, database: Database) -> None:
        settings = some_settings(placeholder_age=timedelta(hours=9))
        async with on_stage(database, settings) as stage:
            stage.agents.may_end.clear()
            message = stage.say("[[say=all of it]]")
            await stage.signals.wait("agent_prompted")
            (held,) = stage.dispatcher._held.values()
            stage.clock.extra += _LATER
            assert not stage.services.leases.holds(held.ownership)
            stage.dispatcher.renewed(failed_renewal())

            async def is_ours_again() -> bool:
                return stage.services.leases.holds(held.ownership)

            await stage.until(is_ours_again)
            stage.agents.may_end.set()
            turn = await stage.settled(message)
        assert turn.state is TurnState.DONE
        assert turn.raw == "all of it"

    async def test_is_lost_only_when_somebody_else_claimed(self, database: Database) -> None:
        clock = Offset(database)
        async with on_stage(database) as stage:
            message = stage.say("[[hang]]")
            await stage.let_it_be_seen()
            clock.pass_by(30)
            where, _ = await the_claim(database, "another")
            stage.clock.extra += _LATER
            stage.dispatcher.renewed(failed_renewal())
            await stage.quiet()
            turn = await stage.turn_of(message)
            _, epoch, worker = await lease_of(stage, message)
            assert not stage.agents._live
        assert turn is not None
        assert turn.state is TurnState.RUNNING
        assert (epoch, worker) == (where.epoch, "another")

    async def test_is_not_claimed_by_our_own_dispatcher(self, database: Database) -> None:
        clock = Offset(database)
        async with on_stage(database) as stage:
            stage.agents.may_end.clear()
            message = stage.say("hi")
            await stage.let_it_be_seen()
            stage.agents.may_end.clear()
            _, before, _ = await lease_of(stage, message)
            clock.pass_by(30)
            # It claims for others meanwhile, so it has looked.
            other = stage.say("[[say=other]]")
            stage.agents.may_end.set()
            assert (await stage.settled(other)).state is TurnState.DONE
            turn = await stage.settled(message)
            _, after, _ = await lease_of(stage, message)
        assert turn.state is TurnState.DONE
        assert after == before


async def test_a_wish_made_while_wishes_are_written_is_kept(database: Database) -> None:
    async with on_stage(database) as stage:
        message = stage.say("[[hang]]")
        await stage.let_it_be_seen()
        turn = await stage.turn_of(message)
        assert turn is not None
        reactions = owner_of(stage)._reactions
        write, meanwhile = reactions._write_wish, ["🔥"]

        async def slow(*told: object) -> None:
            await write(*told)  # type: ignore[arg-type]
            if meanwhile:
                reactions.wish(turn.id, meanwhile.pop())
                reactions.wish(TurnId("nobody's"), "🤔")

        reactions._write_wish = slow  # type: ignore[method-assign,assignment]
        stage.dispatcher.wish_reaction(turn.id, "🤔")

        async def is_shown() -> bool:
            return stage.channel.message(message.message_id).reactions == {"🔥"}

        await stage.until(is_shown)
    assert not meanwhile


async def test_a_cancelled_turn_whose_broker_ends_is_told_as_cancelled(database: Database) -> None:
    first = Stage(database, some_settings())
    await first.start()
    message = first.say("[[say=half]] [[hang]]")
    await first.let_it_be_seen()

    async def deaf(*_told: object) -> None:
        return

    first.agents.cancel = deaf  # type: ignore[method-assign,assignment]
    await first.press(message.message_id)
    await first.stop()
    async with on_stage(database, channel=first.channel) as stage:
        turn = await stage.settled(message)
        log = await stage.log_of(turn.id)
    assert turn.state is TurnState.CANCELLED
    (text,) = first.channel.shown(message.message_id)
    assert "Interrupted" not in text
    assert "half" in text
    assert "turn_cancelled" in log
    assert "turn_interrupted" not in log


async def test_a_thread_opened_by_a_bots_message_has_another_bot(database: Database) -> None:
    bot = an_author("444", AuthorKind.BOT)
    policy = GatePolicy(ACCOUNT, bot_mode=BotMode.MENTIONS)
    settings = some_settings(
        policy=lambda: policy, mode=lambda _ref, has_bot: "heartbeat" if has_bot else "stream"
    )
    async with on_stage(database, settings) as stage:
        message = stage.say("[[say=for a bot]]", author=bot)
        turn = await stage.settled(message)
        rows = await stage.rows(turn.id)
    assert stage.feeds.opened[0].opening.mode == "heartbeat"
    (final,) = [row for row in rows if row.purpose is Purpose.FINAL]
    assert final.kind is DeliveryKind.CREATE


class TestACancel:
    async def test_reaches_ones_own_queued_turn_while_anothers_runs(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            running = stage.say("[[hang]]")
            await stage.let_it_be_seen()
            other = an_author("32")
            queued = stage.say("mine", thread=running.message_id, author=other)
            await stage.signals.wait("intake_committed", times=2)
            await stage.press(running.message_id, author=other)
            mine, theirs = await stage.turn_of(queued), await stage.turn_of(running)
            assert mine is not None
            assert theirs is not None
            assert mine.state is TurnState.CANCELLED
            assert theirs.cancel_requested_at is None
            # Whose own turn runs has that one ended, not the queued one.
            await stage.press(running.message_id, interaction="9002")
            theirs = await stage.settled(running)
        assert theirs.state is TurnState.CANCELLED

    async def test_locks_the_conversation_before_its_turns_as_owners_do(
        self, migrated_postgres_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(commands, "_DATABASE_SECONDS", 0.0)
        database = await Database.open(migrated_postgres_address)
        watching = await Database.open(migrated_postgres_address)
        stage = Stage(database, some_settings())
        async with database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "bot")
            where = await a_conversation(tx)
            turn = await a_turn(tx, where)
        async with database.transaction() as tx:
            await conversations.hold(tx, where.id)
            pressing = spawn("press", stage.press(HOME))
            await waits_for_a_lock(watching)
            known = await turns.locked(tx, turn)
            assert known is not None
        await pressing
        async with database.read() as tx:
            known = await turns.get(tx, turn)
        assert known is not None
        assert known.state is TurnState.CANCELLED
        await watching.close()
        await database.close()

    async def test_waits_for_a_database_that_is_away_for_a_moment(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[hang]]")
            await stage.let_it_be_seen()
            failures = [DatabaseUnavailable("away"), DatabaseUnavailable("away")]

            @asynccontextmanager
            async def flaky() -> AsyncIterator[Transaction]:
                if failures:
                    raise failures.pop()
                async with database.transaction() as tx:
                    yield tx

            stage.commands._database = SimpleNamespace(transaction=flaky)  # type: ignore[assignment]
            told = await stage.press(message.message_id)
            turn = await stage.settled(message)
        assert not failures
        assert "asked the agent to stop" in told
        assert turn.state is TurnState.CANCELLED


async def waits_for_a_lock(database: Database) -> None:
    """Wait until some connection to this server waits for a lock."""
    query = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    async with asyncio.timeout(60):
        while True:
            async with database.read() as tx:
                if (await tx.execute(query)).scalar_one():
                    return
            await asyncio.sleep(0.01)


class TestARefusedRow:
    """Only the turn whose rows are refused suffers, and it ends."""

    async def both(self, stage: Stage) -> tuple[Turn, Turn]:
        """A turn that is to be refused, and one of another conversation."""
        bad, good = stage.say("[[say=bad]]"), stage.say("[[say=good]]")
        return await stage.settled(bad), await stage.settled(good)

    async def test_of_an_outcome_ends_its_turn_as_failed(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = outcome.finish

        async def finish(*told: Any) -> None:
            if told[-1].raw == "bad":
                raise Unwritable("a value does not fit")
            await real(*told)

        monkeypatch.setattr("openab.control.turn_runner.finish", finish)
        async with on_stage(database) as stage:
            bad, good = await self.both(stage)
            thread = bad.trigger.message_id
            await stage.quiet()
            texts = stage.channel.shown(thread)
        assert (bad.state, bad.outcome) == (TurnState.FAILED, Outcome.FAILED)
        assert good.state is TurnState.DONE
        assert ["could not be stored" in text for text in texts] == [True]
        assert stage.channel.message(thread).reactions == {"😱"}

    async def test_of_a_claim_ends_its_turn_and_the_next_one_runs(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = sessions.take
        refused: list[object] = []

        async def take(*told: Any) -> Session:
            if not refused:
                refused.append(told)
                raise Conflict("two of one")
            return await real(*told)

        monkeypatch.setattr(sessions, "take", take)
        async with on_stage(database) as stage:
            first = stage.say("one")
            bad = await stage.settled(first)
            second = stage.say("two", thread=first.message_id)
            good = await stage.settled(second)
        assert bad.state is TurnState.FAILED
        assert good.state is TurnState.DONE

    async def test_of_what_a_former_owner_left_does_not_end_the_broker(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = Stage(database, some_settings())
        await first.start()
        message = first.say("[[say=half]] [[hang]]")
        await first.let_it_be_seen()
        await first.stop()

        async def refuse(*_told: object) -> None:
            raise Unwritable("a value does not fit")

        monkeypatch.setattr("openab.control.recovery.finish", refuse)
        heir = recovering("fail")
        agents = StageAgents("fake-2")
        async with on_stage(database, heir, channel=first.channel, agents=agents) as stage:
            good = await stage.settled(stage.say("[[say=good]]"))
            bad = await stage.settled(message)
        assert bad.state is TurnState.FAILED
        assert good.state is TurnState.DONE

    async def test_of_a_delivery_is_tried_again_later(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, left = Outbox._record, [1, 2, 3]

        async def record(outbox: Outbox, *told: Any) -> None:
            if left:
                left.pop()
                raise IllegalTransition("no such arrow")
            await real(outbox, *told)

        monkeypatch.setattr(Outbox, "_record", record)
        async with on_stage(database) as stage:
            _, good = await self.both(stage)
        assert not left
        assert good.state is TurnState.DONE


class TestALostPlaceholder:
    async def test_is_made_anew_a_few_times(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[hang]]")
            await stage.let_it_be_seen()
            (feed,) = stage.feeds.opened
            for count in range(2, 5):
                feed.opening.on_lost()

                async def is_there(count: int = count) -> bool:
                    return len(feed.placeholders) == count

                await stage.until(is_there)
            feed.opening.on_lost()
            await stage.press(message.message_id)
            turn = await stage.settled(message)
            log = await stage.log_of(turn.id)
        assert len(feed.placeholders) == 4
        assert log.count("presentation_failed") == 3

    async def test_is_still_owed_when_the_commit_failed(self, database: Database) -> None:
        async with on_stage(database) as stage:
            stage.say("[[hang]]")
            await stage.let_it_be_seen()
            runner, real, failures = owner_of(stage)._turns._runner, turns.log, 1
            assert runner is not None

            async def log(tx: Transaction, turn: TurnId, event: str, detail: Any = None) -> None:
                nonlocal failures
                if event == "presentation_failed" and failures:
                    failures -= 1
                    raise DatabaseUnavailable("away")
                await real(tx, turn, event, detail)

            turns.log = log
            try:
                stage.feeds.opened[0].opening.on_lost()

                async def is_there() -> bool:
                    return len(stage.feeds.opened[0].placeholders) == 2

                await stage.until(is_there)
            finally:
                turns.log = real
        assert not failures


class TestAnOrderlyEnd:
    async def test_waits_for_what_the_gateway_gave(self, database: Database) -> None:
        async with on_stage(database) as stage:
            said = [stage.say(f"[[say={n}]]") for n in range(5)]
            assert await stage.intake.drained(10)
            assert all([await stage.turn_of(message) for message in said])

    async def test_does_not_wait_for_ever(self, database: Database) -> None:
        stage = Stage(database, some_settings())
        stage.say("nobody consumes")
        assert not await stage.intake.drained(0.01)

    async def test_keeps_what_the_agent_said_last(self, database: Database) -> None:
        first = Stage(database, some_settings(commit_every=timedelta(hours=1)))
        await first.start()
        message = first.say("[[say=its last words]] [[hang]]")
        await first.let_it_be_seen()

        async def is_heard() -> bool:
            return bool(first.feeds.opened[0].events)

        await first.until(is_heard)
        await first.stop()
        heir = recovering("fail")
        agents = StageAgents("fake-2")
        async with on_stage(database, heir, channel=first.channel, agents=agents) as stage:
            turn = await stage.settled(message)
        assert turn.raw == "its last words"
        # Nobody reads the events of a turn that was left.
        assert not first.agents._turns


class TestTheLog:
    async def test_of_a_turn_names_its_progress_once_a_minute(self, database: Database) -> None:
        clock = Offset(database)
        async with on_stage(database) as stage:
            stage.agents.may_end.clear()
            message = stage.say(
                "[[words=3]] [[until=later]] [[words=300]] [[until=told]] [[words=2]]"
            )
            await stage.signals.wait("streams_committed")
            clock.pass_by(61)
            stage.agents.gates["later"].set()

            async def is_told() -> bool:
                turn = await stage.turn_of(message)
                return bool(turn and "turn_progress" in await stage.log_of(turn.id))

            await stage.until(is_told)
            stage.agents.gates["told"].set()
            stage.agents.may_end.set()
            turn = await stage.settled(message)
            log = await stage.log_of(turn.id)
        assert log.count("turn_progress") == 1
        assert log.index("turn_progress") < log.index("turn_completed")

    @pytest.mark.parametrize(
        ("kind", "word"),
        [(FailureKind.HARD_TIMEOUT, "turn_timed_out"), (FailureKind.EXITED, "agent_failed")],
    )
    async def test_of_a_failed_turn_says_why(
        self, database: Database, kind: FailureKind, word: str
    ) -> None:
        async with on_stage(database) as stage:
            stage.feeds.leaves = Shown(placeholder_lost=True)
            stage.agents.refuse_open = AgentRefused(AgentFailure(kind, "it did not work"))
            with capture_logs() as told:
                turn = await stage.settled(stage.say("hi"))
            log = await stage.log_of(turn.id)
        assert {word, "presentation_failed", "turn_failed"} <= set(log)
        assert {word, "turn_failed"} <= {line["event"] for line in told}
