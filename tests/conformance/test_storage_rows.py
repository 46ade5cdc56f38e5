"""Rows on both dialects: single keys, guarded states, marks that never go back, text as it came."""

# ruff: noqa: PT012 - the block that must raise is a transaction

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from openab.domain.agent_events import UsageChanged
from openab.domain.binding import TargetKind
from openab.domain.delivery import (
    Begun,
    Confirmed,
    DeadReason,
    DeliveryKind,
    DeliveryState,
    GivenUp,
    Purpose,
)
from openab.domain.errors import IllegalTransition
from openab.domain.gates import Disposition
from openab.domain.ids import AccountId, AcpSessionId, Incarnation, MessageRef, PlatformId, TurnId
from openab.domain.options import Choice, Option
from openab.domain.outbound import Button, MessageBody
from openab.domain.turn import CancelledQueued, Claimed, Ended, Outcome, SettledDone, TurnState
from openab.ports.tasks import spawn
from openab.storage import (
    accounts,
    bindings,
    conversations,
    deliveries,
    handoffs,
    inbox,
    reactions,
    schema,
    sessions,
    streams,
    turns,
)
from openab.storage.bindings import NewBinding
from openab.storage.deliveries import superseding
from openab.storage.engine import Conflict, Database, Transaction
from openab.storage.inbox import Entry
from openab.storage.sessions import Chosen
from openab.storage.streams import Progress, Segment
from openab.storage.transitions import StateChanged
from openab.storage.types import JsonDocument, RawText
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    HOME,
    Offset,
    a_conversation,
    a_delivery,
    a_spawn,
    a_turn,
    an_incoming,
)

#: NUL, halves of surrogate pairs, astral, line ends, a live mention.
NASTY = "a\0b\ud800c\udc00d \U0001f600\r\n<@900>"
#: Two halves side by side, which JSON cannot tell from the whole.
HALVES = "\ud83d\ude00"


def an_entry(key: str = "1000") -> Entry:
    return Entry(ACCOUNT, "message", key, HOME, PlatformId("31"), Disposition.IGNORED, "empty")


async def known_turn(tx: Transaction, turn: TurnId) -> turns.Turn:
    found = await turns.get(tx, turn)
    assert found is not None
    return found


class TestTheInbox:
    async def test_an_event_is_claimed_by_one_of_two_connections(self, database: Database) -> None:
        async def claim() -> bool:
            async with database.transaction() as tx:
                return await inbox.add(tx, an_entry())

        assert sorted(await asyncio.gather(*(claim() for _ in range(6)))) == [False] * 5 + [True]

    async def test_the_key_is_account_kind_and_event(self, database: Database) -> None:
        async with database.transaction() as tx:
            assert await inbox.add(tx, an_entry())
            assert await inbox.add(tx, replace(an_entry(), kind="interaction"))
            assert await inbox.add(tx, replace(an_entry(), account=AccountId("901")))
            assert not await inbox.add(tx, replace(an_entry(), reason="accepted"))
            await inbox.name_turn(tx, ACCOUNT, "message", "1000", TurnId("t"))
            found = await inbox.get(tx, ACCOUNT, "message", "1000")
            assert await inbox.get(tx, ACCOUNT, "reaction", "1000") is None
            assert len(await inbox.of_event(tx, "1000")) == 3
        assert found is not None
        assert (found.reason, found.turn_id) == ("empty", "t")


class TestTheMark:
    async def test_never_goes_back_whatever_the_ids_lengths(self, database: Database) -> None:
        async with database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "one")
            await accounts.ensure(tx, CHANNEL, ACCOUNT, NASTY)
            marks = []
            for mark in ("99", "100", "98", "101", "9", "1000000000000000000", "999999"):
                await accounts.move_mark(tx, CHANNEL, ACCOUNT, PlatformId(mark))
                row = (await tx.execute(sa.select(schema.accounts))).one()
                marks.append(row.intake_mark)
        assert marks == ["99", "100", "100", "101", "101", *["1000000000000000000"] * 2]
        assert row.name == NASTY

    async def test_keeps_the_digest_of_its_commands(self, database: Database) -> None:
        async with database.transaction() as tx:
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "one")
            assert await accounts.command_digest(tx, CHANNEL, ACCOUNT) is None
            await accounts.keep_command_digest(tx, CHANNEL, ACCOUNT, "d")
            assert await accounts.command_digest(tx, CHANNEL, ACCOUNT) == "d"


class TestATurn:
    async def test_is_single_by_its_idempotency_key(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            await a_turn(tx, where, "1000")
        with pytest.raises(Conflict):
            async with database.transaction() as tx:
                await a_turn(tx, where, "1000")

    async def test_has_one_number_in_its_conversation(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where)
        with pytest.raises(Conflict):
            async with database.transaction() as tx:
                other = await a_turn(tx, where, "1001")
                await tx.execute(
                    sa.update(schema.turns)
                    .where(schema.turns.c.id == other)
                    .values(seq=(await known_turn(tx, turn)).seq)
                )

    async def test_is_moved_only_from_the_state_it_was_read_in(self, database: Database) -> None:
        async with database.transaction() as tx:
            queued = await known_turn(tx, await a_turn(tx, await a_conversation(tx)))
            await turns.record(tx, queued, Claimed())
        with pytest.raises(StateChanged):
            async with database.transaction() as tx:
                await turns.record(tx, queued, CancelledQueued())
        with pytest.raises(IllegalTransition):
            async with database.transaction() as tx:
                await turns.record(tx, queued, SettledDone())
        async with database.read() as tx:
            assert (await known_turn(tx, queued.id)).state is TurnState.RUNNING
            assert [line["event"] for line in await turns.log_of(tx, queued.id)] == ["turn_started"]

    async def test_a_cancel_is_noted_once_and_only_while_it_is_open(
        self, database: Database
    ) -> None:
        async with database.transaction() as tx:
            turn = await a_turn(tx, await a_conversation(tx))
            assert await turns.request_cancel(tx, turn, NASTY)
            assert not await turns.request_cancel(tx, turn, "another")
            found = await known_turn(tx, turn)
            assert (found.cancelled_by, found.cancel_requested_at is None) == (NASTY, False)
            await turns.record(tx, found, CancelledQueued())
            other = await a_turn(tx, await a_conversation(tx, "78"), "1001")
            await turns.record(tx, await known_turn(tx, other), CancelledQueued())
            assert not await turns.request_cancel(tx, other, "too late")

    async def test_the_transcript_has_what_was_asked_and_answered(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            for n in range(3):
                turn = await a_turn(tx, where, str(1000 + n), f"{NASTY}{n}")
                await turns.record(tx, await known_turn(tx, turn), Claimed())
                ended = Ended(Outcome.COMPLETED)
                await turns.record(
                    tx, await known_turn(tx, turn), ended, outcome="completed", raw=f"{n}{NASTY}"
                )
            await a_turn(tx, where, "2000", "not answered yet")
            told = await turns.transcript(tx, where.ref.session_key(), limit=2)
        assert [(batch[0].text, raw) for batch, raw in told] == [
            (f"{NASTY}{n}", f"{n}{NASTY}") for n in (1, 2)
        ]

    async def test_that_waits_for_a_thread_is_postponed_with_it(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where)
            until = await tx.now() + timedelta(seconds=9)
            await turns.postpone(tx, where.id, "another thread", until)
            assert (await known_turn(tx, turn)).not_before is None
            thread = await a_delivery(tx, where, "thread:1:v1", kind=DeliveryKind.THREAD)
            await tx.execute(sa.update(schema.turns).values(thread_delivery=thread))
            await turns.postpone(tx, where.id, thread, until)
            assert (await known_turn(tx, turn)).not_before == until


class TestADelivery:
    async def test_is_owed_once_per_key(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            made = await a_delivery(tx, where, "turn:1:final:1:v1")
            known = await deliveries.get(tx, made)
            assert known is not None
            again = await deliveries.owe(tx, replace(superseding(known), key=known.key))
            following = await deliveries.owe(tx, superseding(known))
            assert again is None
            assert following not in (None, made)
            rows = await deliveries.open_of(tx, where.id)
        assert [(row.key, row.version, row.seq) for row in rows] == [
            ("turn:1:final:1:v1", 1, known.seq),
            ("turn:1:final:1:v2", 2, known.seq),
        ]
        assert len({row.nonce for row in rows}) == 2
        assert all(len(row.nonce) <= 25 for row in rows)

    async def test_the_first_open_row_is_next(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            first = await a_delivery(tx, where, "a")
            second = await a_delivery(tx, where, "b")
            head = await deliveries.head(tx, where.id)
            assert head is not None
            assert head.id == first
            dead = await deliveries.record(tx, head, GivenUp(DeadReason.REFUSED))
            assert (dead.state, dead.dead_reason) == (DeliveryState.DEAD, DeadReason.REFUSED)
            head = await deliveries.head(tx, where.id)
            assert head is not None
            assert head.id == second

    async def test_is_moved_only_from_the_state_it_was_read_in(self, database: Database) -> None:
        async with database.transaction() as tx:
            made = await deliveries.get(tx, await a_delivery(tx, await a_conversation(tx)))
            assert made is not None
            await deliveries.record(tx, made, Begun(), tries=1)
        with pytest.raises(StateChanged):
            async with database.transaction() as tx:
                await deliveries.record(tx, made, Begun(), tries=2)
        with pytest.raises(IllegalTransition):
            async with database.transaction() as tx:
                await deliveries.record(tx, made, Confirmed())

    async def test_one_message_belongs_to_one_row(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            one, other = await a_delivery(tx, where, "a"), await a_delivery(tx, where, "b")
            later = await tx.now() + timedelta(days=1)
            await deliveries.postpone(tx, one, later)
            await deliveries.note_platform_id(tx, one, PlatformId("5"))
            await deliveries.note_platform_id(tx, one, PlatformId("6"))
            found = await deliveries.get(tx, one)
            assert found is not None
            assert (found.platform_id, found.not_before) == ("5", None)
            assert await deliveries.is_claimed(tx, ACCOUNT, PlatformId("5"))
            assert not await deliveries.is_claimed(tx, ACCOUNT, PlatformId("6"))
            assert await deliveries.by_nonce(tx, ACCOUNT, found.nonce) == found
            assert await deliveries.by_nonce(tx, AccountId("901"), found.nonce) is None
        with pytest.raises(Conflict):
            async with database.transaction() as tx:
                await deliveries.note_platform_id(tx, other, PlatformId("5"))


class TestAStream:
    async def test_the_same_progress_twice_is_there_once(self, database: Database) -> None:
        async with database.transaction() as tx:
            turn = await a_turn(tx, await a_conversation(tx))
            await streams.ensure(tx, turn, ACCOUNT, "queued")
            await streams.ensure(tx, turn, ACCOUNT, "starting")
        tool = {"id": "t", "title": NASTY, "kind": "read", "status": "pending"}
        step = Progress(
            turn, [Segment(1, NASTY), Segment(2, "b", is_new_message=True)], 2, [tool], "x"
        )
        longer = Progress(
            turn, [Segment(1, NASTY), Segment(2, "bc", is_new_message=True)], 3, [tool], "x"
        )
        for written in (step, step, longer):
            async with database.transaction() as tx:
                await streams.advance(tx, [written])
        async with database.transaction() as tx:
            assert await streams.segments_of(tx, turn) == longer.segments
            assert await streams.tools_of(tx, turn) == [tool]
            await streams.forget_text(tx, turn)
            assert not await streams.segments_of(tx, turn)

    async def test_reactions_wished_and_shown(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where)
            assert await reactions.next_due(tx, where.id) is None
            now = await tx.now()
            await reactions.wish(tx, turn, "👀", now)
            (known,) = await reactions.of_turn(tx, turn)
            await reactions.note(tx, known, ("?👀",), now, 3)
            assert await reactions.take_due(tx, where.id, now - timedelta(seconds=1)) is None
            due = await reactions.take_due(tx, where.id, now)
            assert due is not None
            assert (due.wished, due.shown, due.tries) == ("👀", ("?👀",), 3)
            assert due.trigger == MessageRef(HOME, PlatformId("1000"))
            await reactions.note(tx, due, ("👀",), None, 0)
            assert await reactions.next_due(tx, where.id) is None
            again = await reactions.again(tx, due)
        assert again is not None
        assert again.shown == ("👀",)

    async def test_an_end_that_comes_while_a_reaction_is_noted_is_shown_all_the_same(
        self, database: Database
    ) -> None:
        """The owner of another conversation, where the answer stands, may settle a turn."""
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where)
            await reactions.wish(tx, turn, "👀", await tx.now())
        async with database.transaction() as tx:
            known = await reactions.take_due(tx, where.id, await tx.now())
            assert known is not None
            ending = spawn("ending", _concluded(database, turn))
            await _waits_or_ends(database, ending)
            await reactions.note(tx, known, ("👀",), None, 0)
        await ending
        async with database.transaction() as tx:
            left = await reactions.take_due(tx, where.id, await tx.now())
        assert left is not None
        assert (left.wished, left.shown) == ("🆗", ("👀",))


async def _concluded(database: Database, turn: TurnId) -> None:
    async with database.transaction() as tx:
        await reactions.conclude(tx, turn, "🆗", await tx.now())


async def _waits_or_ends(database: Database, ending: "asyncio.Task[None]") -> None:
    """Until the task's transaction waits for ours, or did not have to."""
    is_waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    async def waits() -> bool:
        if database.dialect == "sqlite":
            # Its writers take turns.
            return True
        async with database.read() as tx:
            return bool((await tx.execute(sa.text(is_waiting))).scalar_one())

    while not ending.done() and not await spawn("look", waits()):
        continue


class TestASession:
    async def test_keeps_its_agent_and_grows_its_epoch(self, database: Database) -> None:
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            made = await sessions.ensure(tx, where, agent="a", working_dir=NASTY)
            same = await sessions.ensure(tx, where, agent="b", working_dir="/")
            assert await sessions.remember_agent(tx, made, AcpSessionId(NASTY))
            taken = await sessions.take(tx, made.key, Incarnation("i1"))
        assert (same.agent, same.working_dir) == ("a", NASTY)
        assert (taken.epoch, taken.incarnation) == (made.epoch + 1, "i1")
        assert taken.acp_session_id == NASTY

    async def test_keeps_what_is_chosen_known_and_used(self, database: Database) -> None:
        model = Option("m", NASTY, "model", (Choice("a", NASTY, ""), Choice(NASTY)), "a")
        async with database.transaction() as tx:
            made = await sessions.ensure(tx, await a_conversation(tx), agent="a", working_dir="/")
            await sessions.remember_options(tx, made.key, [model])
            await sessions.choose(tx, made.key, "m", Chosen(NASTY))
            await sessions.choose(tx, made.key, "other", Chosen("x", is_due=False))
            await sessions.note_usage(tx, made, UsageChanged(1, 2, 0.5, "USD"))
            kept = await sessions.get(tx, made.key)
            await sessions.choose(tx, made.key, "m", None)
            await sessions.choose(tx, made.key, "other", None)
            bare = await sessions.get(tx, made.key)
        assert kept is not None
        assert bare is not None
        assert kept.chosen == {"m": Chosen(NASTY), "other": Chosen("x", is_due=False)}
        assert (kept.options, kept.usage) == ((model,), UsageChanged(1, 2, 0.5, "USD"))
        assert bare.chosen == {}

    async def test_a_reset_forgets_and_names_every_generation_that_may_still_run(
        self, database: Database
    ) -> None:
        async with database.transaction() as tx:
            made = await sessions.ensure(tx, await a_conversation(tx), agent="a", working_dir="/")
            taken = await sessions.take(tx, made.key, Incarnation("i1"))
            await sessions.remember_agent(tx, taken, AcpSessionId("acp"))
            for _ in range(2):
                known = await sessions.get(tx, made.key)
                assert known is not None
                await sessions.reset(tx, known)
            after = await sessions.get(tx, made.key)
            (ending,) = await sessions.ending_at(tx, ACCOUNT, Incarnation("i1"))
            assert not await sessions.ending_at(tx, ACCOUNT, Incarnation("i2"))
            assert not await sessions.remember_agent(tx, taken, AcpSessionId("late"))
            await sessions.note_usage(tx, taken, UsageChanged(1, 2))
            await sessions.ended(tx, replace(ending, last=1))
            assert await sessions.ending_at(tx, ACCOUNT, Incarnation("i1")) == [ending]
            await sessions.ended(tx, ending)
            assert not await sessions.ending_at(tx, ACCOUNT, Incarnation("i1"))
            late = await sessions.get(tx, made.key)
        assert after is not None
        assert late is not None
        assert (after.generation, after.acp_session_id) == (3, None)
        assert after.reset_at is not None
        assert (ending.first, ending.last) == (1, 2)
        assert (late.acp_session_id, late.usage) == (None, None)


class TestText:
    async def test_every_column_for_it_keeps_any_text(self, database: Database) -> None:
        """One row in every table, then every raw or JSON column of it is filled and read."""
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where)
            await streams.ensure(tx, turn, ACCOUNT, "x")
            await streams.advance(tx, [Progress(turn, [Segment(1, "x")], 1, [], "x")])
            await turns.log(tx, turn, "x")
            await reactions.wish(tx, turn, "x", await tx.now())
            await a_delivery(tx, where)
            await accounts.ensure(tx, CHANNEL, ACCOUNT, "x")
            await handoffs.accept(tx, an_incoming(), turn)
            key = where.ref.session_key()
            await bindings.add(tx, NewBinding(ACCOUNT, where.id, key, TargetKind.SESSION, "1"))
            await a_spawn(tx, where)
        tried = 0
        for table in schema.metadata.sorted_tables:
            for column in table.columns:
                if isinstance(column.type, RawText | JsonDocument):
                    is_raw = isinstance(column.type, RawText)
                    value = NASTY + HALVES if is_raw else [{NASTY: NASTY}]
                    async with database.transaction() as tx:
                        written = await tx.execute(sa.update(table).values({column.name: value}))
                        read = (await tx.execute(sa.select(column))).scalar_one()
                    assert written.rowcount == 1, f"no row in {table.name}"
                    assert read == value, column
                    tried += 1
        assert tried >= 15

    async def test_a_body_comes_back_as_it_was_owed(self, database: Database) -> None:
        body = MessageBody(
            NASTY,
            mention=PlatformId("31"),
            reply_to=PlatformId("9"),
            silent=True,
            buttons=(Button("openab:stop:1", NASTY, "danger"),),
            pings_author=False,
            is_bare=True,
        )
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            made = await a_delivery(
                tx, where, body=body, purpose=Purpose.FINAL, kind=DeliveryKind.EDIT,
                target=MessageRef(HOME, PlatformId("4")),
            )  # fmt: skip
            found = await deliveries.get(tx, made)
        assert found is not None
        assert (found.body, found.target) == (body, MessageRef(HOME, PlatformId("4")))


async def test_a_closed_conversation_stays_closed(database: Database) -> None:
    async with database.transaction() as tx:
        where = await a_conversation(tx)
        await conversations.mark_involved(tx, where.id)
        await conversations.close(tx, where.id)
        found = await conversations.get(tx, where.id)
    assert (found.is_closed, found.is_involved) == (True, True)


async def test_time_is_the_databases_and_can_be_moved(database: Database) -> None:
    clock = Offset(database)
    async with database.transaction() as tx:
        before = await tx.now()
        clock.pass_by(3600)
        assert timedelta(seconds=3600) <= await tx.now() - before < timedelta(seconds=3660)
