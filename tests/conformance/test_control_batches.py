"""Messages that wait become one turn: in order, each with its author, under caps; none lost, none twice."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from openab.control.settings import RecoverySettings, Settings
from openab.control.turn_runner import TurnRunner
from openab.domain.batching import Batching, DispatchMode, OnBusy
from openab.domain.ids import WorkerId
from openab.domain.message import InboundMessage
from openab.domain.recovery import RecoveryPolicy
from openab.domain.turn import Claimed, Outcome, TurnState
from openab.ports.agent import Prompt
from openab.ports.tasks import spawn
from openab.storage import batches, conversations, inbox, turns
from openab.storage.engine import CommitUnknown, Database, Transaction
from openab.storage.turns import NewTurn
from tests.builders import ACCOUNT, a_claim, a_conversation, a_turn, an_author, some_settings
from tests.builders import a_new_turn as another
from tests.conformance.control_stage import Stage, StageAgents, gone, killed, on_stage

ANN, BOB = an_author("31"), an_author("32")
THREAD = Batching(DispatchMode.PER_THREAD)
LANE = Batching(DispatchMode.PER_LANE)


def gathering(rule: Batching = THREAD, **changes: object) -> Settings:
    return some_settings(batching=rule, **changes)


def told(prompt: Prompt) -> list[str]:
    """What an agent was given, without what varies in a sender record."""
    return [_told(block.text) for block in prompt.content]


def _told(text: str) -> str:
    is_record = text.startswith("<sender_context>")
    return "from " + text.partition('"sender_id":"')[2].partition('"')[0] if is_record else text


async def busy(stage: Stage) -> InboundMessage:
    """Somebody's turn runs, so that whatever comes waits."""
    first = stage.say("[[hang]]", author=ANN)
    await stage.signals.wait("agent_prompted")
    return first


async def follow(
    stage: Stage, first: InboundMessage, *said: tuple[object, str]
) -> list[InboundMessage]:
    """One message after the other in the first one's thread, committed one by one."""
    messages = []
    for author, text in said:
        commits = stage.signals._passed["intake_committed"]
        messages.append(
            stage.say(text, thread=first.message_id, author=author, mention=False)  # type: ignore[arg-type]
        )
        await stage.signals.wait("intake_committed", times=commits + 1)
    return messages


THREE = ((ANN, "one"), (BOB, "two"), (ANN, "three"))


class TestWhatWaits:
    async def test_per_message_is_one_turn_each(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = await busy(stage)
            waiting = await follow(stage, first, *THREE)
            await stage.press(first.message_id)
            for message in waiting:
                await stage.settled(message)
        assert [told(p) for p in stage.agents.prompts[1:]] == [
            ["from 31", "one"], ["from 32", "two"], ["from 31", "three"],
        ]  # fmt: skip

    async def test_per_thread_is_one_prompt_with_three_sender_blocks(
        self, database: Database
    ) -> None:
        async with on_stage(database, gathering()) as stage:
            first = await busy(stage)
            waiting = await follow(stage, first, *THREE)
            await stage.press(first.message_id)
            turn = await stage.settled(waiting[-1])
            await stage.quiet()
            async with database.read() as tx:
                seen = [await inbox.get(tx, ACCOUNT, "message", m.message_id) for m in waiting]
        (prompt,) = stage.agents.prompts[1:]
        assert told(prompt) == ["from 31", "one", "from 32", "two", "from 31", "three"]
        # `openab why` finds the turn by each of its messages.
        assert [entry.turn_id for entry in seen if entry] == [turn.id] * 3
        # It is answered to whoever spoke last; the others' emoji are gone.
        assert (turn.requester_id, turn.trigger.message_id) == ("31", waiting[-1].message_id)
        marks = [stage.channel.message(m.message_id).reactions for m in waiting]
        assert marks == [set(), set(), {"🆗"}]

    async def test_per_lane_is_a_prompt_for_each_author(self, database: Database) -> None:
        async with on_stage(database, gathering(LANE)) as stage:
            first = await busy(stage)
            waiting = await follow(stage, first, *THREE)
            await stage.press(first.message_id)
            for message in waiting[1:]:
                await stage.settled(message)
        assert [told(p) for p in stage.agents.prompts[1:]] == [
            ["from 31", "one", "from 31", "three"], ["from 32", "two"],
        ]  # fmt: skip

    async def test_shows_the_queued_emoji_on_every_message(self, database: Database) -> None:
        async with on_stage(database, gathering()) as stage:
            first = await busy(stage)
            waiting = await follow(stage, first, *THREE)
            seen = [stage.channel.message(m.message_id) for m in waiting]
            await stage.channel.until(lambda _: [m.reactions for m in seen] == [{"👀"}] * 3)
            turn = await stage.turn_of(waiting[-1])
            assert turn is not None
            await stage.press(first.message_id, argument=turn.id, author=BOB)
            await stage.channel.until(
                lambda _: [m.reactions for m in seen] == [set(), set(), {"🛑"}]
            )
            await stage.press(first.message_id, interaction="9002")
            await stage.settled(first)
        assert len(stage.agents.prompts) == 1

    @pytest.mark.parametrize(
        ("rule", "sizes"),
        [
            (Batching(DispatchMode.PER_THREAD, max_messages=2), [2, 1]),
            (Batching(DispatchMode.PER_THREAD, max_tokens=3), [2, 1]),
            (Batching(DispatchMode.PER_THREAD, max_tokens=1), [1, 1, 1]),
        ],
    )
    async def test_over_a_cap_opens_the_next_batch(
        self, database: Database, rule: Batching, sizes: list[int]
    ) -> None:
        async with on_stage(database, gathering(rule)) as stage:
            first = await busy(stage)
            waiting = await follow(stage, first, *THREE)
            await stage.press(first.message_id)
            for message in (*waiting[sizes[0] - 1 : sizes[0]], waiting[-1]):
                await stage.settled(message)
        assert [len(told(p)) // 2 for p in stage.agents.prompts[1:]] == sizes

    async def test_in_another_conversation_is_never_joined(self, database: Database) -> None:
        async with on_stage(database, gathering()) as stage:
            here, there = stage.say("here"), stage.say("there")
            ends = [await stage.settled(here), await stage.settled(there)]
        assert [turn.state for turn in ends] == [TurnState.DONE, TurnState.DONE]

    @pytest.mark.parametrize("rule", [THREAD, LANE])
    async def test_nor_in_another_that_is_bound_to_the_same_session(
        self, database: Database, rule: Batching
    ) -> None:
        async with database.transaction() as tx:
            where, other = await a_conversation(tx), await a_conversation(tx, "78")
            await a_turn(tx, where, "1000")
            new = replace(another(other, "1001"), session_key=where.ref.session_key())
            assert await batches.join(tx, new, rule) is None

    async def test_may_be_cancelled_by_each_of_its_authors_and_nobody_else(
        self, database: Database
    ) -> None:
        async with on_stage(database, gathering()) as stage:
            first = await busy(stage)
            (_, last) = await follow(stage, first, (BOB, "two"), (ANN, "three"))
            turn = await stage.turn_of(last)
            assert turn is not None
            stranger = await stage.press(
                first.message_id, turn.id, author=an_author("66"), interaction="1"
            )
            bob = await stage.press(first.message_id, turn.id, author=BOB, interaction="2")
            await stage.press(first.message_id, interaction="3")
            taken_back = await stage.settled(last)
        assert "before it started" not in stranger
        assert "before it started" in bob
        assert taken_back.state is TurnState.CANCELLED


class TestTheClaim:
    async def test_closes_the_batch_and_reads_it_afterwards(self, database: Database) -> None:
        """A message that comes while the claim is being committed is a turn of its own."""
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where, "1000")
        ((_, ownership),) = await a_claim(database)
        new = another(where, "1001")
        async with database.transaction() as tx:
            await conversations.lock(tx, ownership)
            known = await turns.locked(tx, turn)
            assert known is not None
            late = spawn("late", self.join(database, new))
            await turns.record(tx, known, Claimed(), attempt=1)
            read = await turns.get(tx, turn)
        assert await late is None
        assert read is not None
        async with database.read() as tx:
            after = await turns.get(tx, turn)
        assert after is not None
        assert (after.batch, len(read.batch)) == (read.batch, 1)

    async def join(self, database: Database, new: NewTurn) -> object:
        async with database.transaction() as tx:
            return await batches.join(tx, new, THREAD)

    async def test_of_two_that_join_at_once_both_are_kept(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where, "1000")
        ids = ("1001", "1002", "1003")
        joined = await asyncio.gather(*(self.join(database, another(where, n)) for n in ids))
        async with database.read() as tx:
            known = await turns.get(tx, turn)
        assert known is not None
        assert len(known.batch) == 1 + sum(one is not None for one in joined)
        assert joined.count(turn) >= 1

    async def test_one_found_late_stands_where_it_was_said(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where, "1000")
            for message in ("1005", "1003"):
                assert await batches.join(tx, another(where, message), THREAD) == turn
            known = await turns.get(tx, turn)
        assert known is not None
        assert [one.text for one in known.batch][-2:] == ["text 1003", "text 1005"]
        assert known.trigger.message_id == "1005"

    async def test_nothing_joins_what_another_kind_of_turn_waits_behind(
        self, database: Database
    ) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            await a_turn(tx, where, "1000")
            await turns.enqueue(tx, another(where, "1001", source="handoff"))
            assert await batches.join(tx, another(where, "1002"), THREAD) is None


class TestInterrupting:
    async def test_a_message_ends_the_turn_and_is_answered_next(self, database: Database) -> None:
        settings = gathering(on_busy=OnBusy.INTERRUPT)
        async with on_stage(database, settings) as stage:
            first = stage.say("[[say=half]] [[hang]]", author=ANN)
            await stage.let_it_be_seen()
            (second,) = await follow(stage, first, (ANN, "rather this"))
            ended = await stage.settled(first)
            answered = await stage.settled(second)
        assert (ended.outcome, answered.outcome) == (Outcome.CANCELLED, Outcome.COMPLETED)
        assert answered.started_at is not None
        shown = stage.channel.shown(first.message_id)
        assert any("half" in text and "newer message of Name 31" in text for text in shown)
        assert told(stage.agents.prompts[-1]) == ["from 31", "rather this"]

    async def test_somebody_elses_message_waits(self, database: Database) -> None:
        async with on_stage(database, gathering(on_busy=OnBusy.INTERRUPT)) as stage:
            first = await busy(stage)
            (second,) = await follow(stage, first, (BOB, "me too"))
            running = await stage.turn_of(first)
            assert running is not None
            assert (running.state, running.cancel_requested_at) == (TurnState.RUNNING, None)
            await stage.press(first.message_id)
            assert (await stage.settled(second)).outcome is Outcome.COMPLETED

    async def test_an_operators_message_ends_anybodys_turn(self, database: Database) -> None:
        async with on_stage(database, gathering(on_busy=OnBusy.INTERRUPT)) as stage:
            first = await busy(stage)
            (second,) = await follow(stage, first, (an_author("1"), "stop that"))
            assert (await stage.settled(first)).outcome is Outcome.CANCELLED
            assert (await stage.settled(second)).outcome is Outcome.COMPLETED

    async def test_queueing_is_what_happens_otherwise(self, database: Database) -> None:
        async with on_stage(database, gathering()) as stage:
            first = await busy(stage)
            await follow(stage, first, (ANN, "later"))
            running = await stage.turn_of(first)
            assert running is not None
            assert running.cancel_requested_at is None
            await stage.press(first.message_id)


class Death:
    """Kills a process at the commit of a transaction in which `step` was done, with or without it."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch, *, is_done: bool) -> None:
        self._stage, self._patch, self._is_done = stage, monkeypatch, is_done
        self._doomed: Transaction | None = None
        self._commit = Transaction.commit
        self.came = asyncio.Event()
        death = self

        async def commit(tx: Transaction) -> None:
            await death._end(tx)

        monkeypatch.setattr(Transaction, "commit", commit)

    def at(self, owner: object, step: str, place: int) -> None:
        """Argument `place` of this function is the transaction."""
        original = getattr(owner, step)

        async def doomed(*args: Any, **named: Any) -> Any:
            if args[place].owner is self._stage.database:
                self._doomed = args[place]
            return await original(*args, **named)

        self._patch.setattr(owner, step, doomed)

    async def _end(self, tx: Transaction) -> None:
        if tx is not self._doomed:
            await self._commit(tx)
            return
        if self._is_done:
            await self._commit(tx)
        self._stage.database.transaction = gone  # type: ignore[method-assign]
        self._stage.database.read = gone  # type: ignore[method-assign]
        self.came.set()
        raise CommitUnknown("the process is dead")


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("point", ["join", "claim"])
async def test_a_kill_loses_nothing_and_runs_nothing_twice(
    migrated_address: str, monkeypatch: pytest.MonkeyPatch, point: str, is_done: bool
) -> None:
    first_life, second_life = [await Database.open(migrated_address) for _ in range(2)]
    # Whatever ran is not run again: only what waited is looked at.
    settled = RecoverySettings(RecoveryPolicy.FAIL)
    stage = Stage(first_life, gathering(recovery=settled))
    await stage.start()
    first = await busy(stage)
    said = await follow(stage, first, (ANN, "one"))
    death = Death(stage, monkeypatch, is_done=is_done)
    if point == "join":
        death.at(batches, "join", 0)
        said.append(stage.say("two", thread=first.message_id, author=BOB, mention=False))
    else:
        said += await follow(stage, first, (BOB, "two"))
        death.at(TurnRunner, "_record_claim", 1)
        await stage.press(first.message_id)
    await death.came.wait()
    await killed(stage)
    monkeypatch.undo()

    heir = Stage(
        second_life,
        gathering(worker=WorkerId("worker-2"), recovery=settled),
        channel=stage.channel,
        agents=StageAgents("fake-2"),
    )
    async with second_life.transaction() as tx:
        await conversations.free_dead(tx, ACCOUNT, WorkerId("worker-1"), "proof-1")
    await heir.start()
    for message in said:
        # The network tells a new connection again what the former one may have missed.
        heir.intake.put(message)
    ended = [await came_through(heir, message) for message in said]
    await heir.quiet()
    await heir.stop()
    await first_life.close()
    await second_life.close()

    prompts = [*stage.agents.prompts, *heir.agents.prompts]
    given = [sum(text in told(prompt) for prompt in prompts) for text in ("one", "two")]
    # What was claimed may have reached an agent that is gone: it is never repeated by itself.
    is_cut_off = point == "claim" and is_done
    assert given == ([0, 0] if is_cut_off else [1, 1])
    expected = Outcome.INTERRUPTED if is_cut_off else Outcome.COMPLETED
    assert {turn.outcome for turn in ended} == {expected}
    marks = [stage.channel.message(message.message_id).reactions for message in said]
    assert all("👀" not in shown for shown in marks)


async def came_through(stage: Stage, message: InboundMessage) -> turns.Turn:
    """Wait until the turn that a message is in has ended."""

    async def find() -> turns.Turn | None:
        async with stage.database.read() as tx:
            entry = await inbox.get(tx, ACCOUNT, "message", message.message_id)
            return await turns.get(tx, entry.turn_id) if entry and entry.turn_id else None

    async def is_over() -> bool:
        turn = await find()
        return turn is not None and turn.state in {TurnState.DONE, TurnState.INTERRUPTED}

    await stage.until(is_over, within=20)
    turn = await find()
    assert turn is not None
    return turn
