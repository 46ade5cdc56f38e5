"""What becomes of an owed row: one try per `sending`, three outcomes, evidence before a repetition."""

from contextlib import suppress
from datetime import timedelta

import pytest
import sqlalchemy as sa

from openab.control.outbox import Outbox
from openab.control.retire import placeholders_of
from openab.control.writer import ConversationWriter
from openab.domain.delivery import DeadReason, DeliveryKind, DeliveryState, Purpose
from openab.domain.errors import LeaseLost
from openab.domain.ids import DeliveryId, MessageRef, PlatformId, TurnId
from openab.domain.outbound import MessageBody
from openab.domain.turn import Claimed, Ended, Outcome, TurnState
from openab.ports.channel import (
    ChannelBusy,
    ChannelRejected,
    ChannelUnreachable,
    DeliveryUnknown,
    Refusal,
)
from openab.ports.signals import Signals
from openab.storage import conversations, deliveries, schema, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery
from openab.storage.engine import CommitUnknown, Database, DatabaseUnavailable, Transaction
from tests.builders import (
    ACCOUNT,
    HOME,
    Offset,
    a_claim,
    a_conversation,
    a_delivery,
    a_ref,
    a_turn,
    some_settings,
)
from tests.conformance.control_stage import outside
from tests.fakes.channel import RecordingChannel

THREAD = PlatformId("500")
SEND = "create_message"


def refused(refusal: Refusal) -> ChannelRejected:
    return ChannelRejected(refusal, refusal.value)


class Box:
    """The outbox of one thread, driven step by step."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = Offset(database)
        self.channel = RecordingChannel(account=ACCOUNT)
        self.settings = some_settings()
        self.sent: list[Delivery] = []
        self.where: Conversation
        self.outbox: Outbox

    async def take(self) -> None:
        """Become the conversation's owner (again)."""
        async with self.database.transaction() as tx:
            self.where = await a_conversation(tx, THREAD, HOME)
            # Something to do, so that it can be claimed; it is dropped at once.
            made = await a_delivery(tx, self.where, f"bait:{self.where.epoch}")
        self.clock.pass_by(30)
        claims = await a_claim(self.database)
        (ownership,) = (own for where, own in claims if where.id == self.where.id)
        async with self.database.transaction() as tx:
            await tx.execute(sa.delete(schema.deliveries).where(schema.deliveries.c.id == made))
        writer = ConversationWriter(outside(self.channel), 0.2, lambda: 0.0)
        self.outbox = Outbox(
            self.database, outside(self.channel), self.settings, self.where, ownership, writer,
            Signals(), self.sent.append,
        )  # fmt: skip
        self.ownership = ownership

    async def owe(self, key: str = "k:v1", text: str = "hello", **changes: object) -> DeliveryId:
        async with self.database.transaction() as tx:
            return await a_delivery(tx, self.where, key, text, **changes)

    async def row(self, key: str = "k:v1") -> Delivery:
        async with self.database.read() as tx:
            found = await tx.execute(
                sa.select(schema.deliveries.c.id).where(schema.deliveries.c.key == key)
            )
            row = await deliveries.get(tx, found.scalar_one())
        assert row is not None
        return row

    async def state(self, key: str = "k:v1") -> str:
        return (await self.row(key)).state.value

    async def run(self, most: int = 30) -> None:
        """Step until nothing is due now."""
        for _ in range(most):
            if not (await self.outbox.step()).did:
                return
        raise AssertionError("the outbox does not come to rest")

    async def run_later(self, seconds: float) -> None:
        self.clock.pass_by(seconds)
        await self.run()

    async def ended_turn(self, outcome: Outcome = Outcome.COMPLETED) -> TurnId:
        """A turn whose run is over and whose rows decide its state."""
        turn = await self.running_turn()
        async with self.database.transaction() as tx:
            known = await turns.get(tx, turn)
            assert known is not None
            await turns.record(tx, known, Ended(outcome), outcome=outcome.value)
        return turn

    async def running_turn(self) -> TurnId:
        async with self.database.transaction() as tx:
            turn = await a_turn(tx, self.where)
            known = await turns.get(tx, turn)
            assert known is not None
            await turns.record(tx, known, Claimed())
        return turn

    async def turn_state(self, turn: TurnId) -> TurnState:
        async with self.database.read() as tx:
            known = await turns.get(tx, turn)
        assert known is not None
        return known.state

    async def told_in_parent(self) -> list[str]:
        """What is owed to the parent."""
        async with self.database.read() as tx:
            parent = await the_parent(tx)
            rows = await deliveries.open_of(tx, parent.id) if parent else []
        return [row.body.content for row in rows]

    def shown(self) -> list[str]:
        return self.channel.shown(THREAD)


async def the_parent(tx: Transaction) -> Conversation | None:
    return await conversations.find(tx, a_ref())


@pytest.fixture
async def box(database: Database) -> Box:
    made = Box(database)
    await made.take()
    return made


class TestACreate:
    async def test_is_sent_once_with_its_nonce_and_notes_its_id(self, box: Box) -> None:
        await box.owe()
        await box.run()
        row = await box.row()
        (call,) = box.channel.calls_of(SEND)
        assert (row.state, row.tries, call.nonce) == (DeliveryState.SENT, 1, row.nonce)
        assert row.platform_id == box.channel.posted(THREAD)[0].message_id
        assert row.anchor == THREAD
        assert [one.id for one in box.sent] == [row.id]
        async with box.database.read() as tx:
            known = await conversations.get(tx, box.where.id)
        assert known.last_message_id == row.platform_id

    async def test_waits_as_long_as_it_was_told(self, box: Box) -> None:
        box.channel.fail(SEND, ChannelBusy("429", 40.0))
        await box.owe()
        await box.run()
        row = await box.row()
        assert (row.state, row.first_try_at, row.had_doubt) == (DeliveryState.PENDING, None, False)
        await box.run_later(39)
        assert len(box.channel.calls_of(SEND)) == 1
        await box.run_later(2)
        assert await box.state() == "sent"

    async def test_that_never_left_is_tried_again(self, box: Box) -> None:
        box.channel.fail(SEND, ChannelUnreachable("refused"), times=3)
        await box.owe()
        for _ in range(4):
            await box.run_later(30)
        assert (await box.state(), box.shown()) == ("sent", ["hello"])

    @pytest.mark.parametrize("commits", [True, False])
    async def test_in_doubt_is_repeated_with_the_same_nonce(self, box: Box, commits: bool) -> None:
        box.channel.fail(SEND, DeliveryUnknown("502"), commits=commits)
        await box.owe()
        await box.run()
        assert await box.state() == "unknown"
        await box.run_later(5)
        assert (await box.state(), box.shown()) == ("sent", ["hello"])
        assert len({call.nonce for call in box.channel.calls_of(SEND)}) == 1

    async def test_after_the_nonces_window_is_only_looked_for(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("502"), commits=True)
        await box.owe()
        await box.run()
        await box.run_later(121)
        assert (await box.state(), box.shown()) == ("sent", ["hello"])
        assert len(box.channel.calls_of(SEND)) == 1
        assert box.channel.calls_of("history")

    async def test_is_looked_for_no_sooner_than_it_can_be_seen(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("502"), times=9)
        await box.owe()
        await box.run()
        await box.run_later(119)
        await box.run_later(30)
        assert not box.channel.calls_of("history")
        assert await box.state() == "unknown"
        await box.run_later(31)
        assert box.channel.calls_of("history")

    async def test_that_is_absent_is_sent_again_with_its_nonce(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("hang"))
        await box.owe()
        await box.run()
        await box.run_later(130)
        calls = box.channel.calls_of(SEND)
        assert (await box.state(), box.shown()) == ("sent", ["hello"])
        assert (len(calls), len({call.nonce for call in calls})) == (2, 1)

    async def test_without_its_anchor_nothing_is_proved(self, box: Box) -> None:
        turn = await box.ended_turn()
        anchor = box.channel.say(THREAD, "the last word")
        async with box.database.transaction() as tx:
            where = await conversations.get(tx, box.where.id)
            await conversations.note_message(tx, where, anchor.message_id, other_bot=False)
        box.channel.fail(SEND, DeliveryUnknown("hang"))
        await box.owe("turn:1:final:1:v1", turn=turn, purpose=Purpose.FINAL, part=1)
        await box.run()
        box.channel.message(anchor.message_id).deleted = True
        await box.run_later(130)
        row = await box.row("turn:1:final:1:v1")
        assert (row.anchor, row.dead_reason) == (anchor.message_id, DeadReason.UNCLEAR)
        assert "not sent twice" in box.shown()[0]
        (button,) = box.channel.posted(THREAD)[0].body.buttons
        assert button.custom_id == f"openab:resend:{row.id}"
        assert await box.turn_state(turn) is TurnState.FAILED

    async def test_that_may_not_be_looked_for_is_unclear(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("hang"))
        box.channel.fail("history", refused(Refusal.FORBIDDEN), times=9)
        await box.owe()
        await box.run()
        await box.run_later(130)
        assert (await box.row()).dead_reason is DeadReason.UNCLEAR

    async def test_at_the_beginning_of_a_thread_reading_must_be_allowed_too(self, box: Box) -> None:
        """Discord answers an empty list to whoever may not read: that is no sign of absence."""
        box.channel.fail(SEND, DeliveryUnknown("502"), commits=True)
        box.channel.fail("fetch_message", refused(Refusal.FORBIDDEN), times=9)
        await box.owe()
        await box.run()
        row = await box.row()
        assert row.anchor == THREAD
        await box.run_later(130)
        assert (await box.row()).dead_reason is DeadReason.UNCLEAR
        assert box.shown() == ["hello"]

    async def test_a_look_that_fails_is_repeated(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("hang"), commits=True)
        box.channel.fail("history", ChannelBusy("429", 1.0))
        await box.owe()
        await box.run()
        await box.run_later(130)
        assert await box.state() == "unknown"
        await box.run_later(61)
        assert (await box.state(), box.shown()) == ("sent", ["hello"])

    async def test_anothers_or_an_older_equal_message_is_not_ours(self, box: Box) -> None:
        await box.owe("older:v1", "hello")
        await box.run()
        box.channel.say(THREAD, "hello")
        box.channel.fail(SEND, DeliveryUnknown("hang"))
        await box.owe()
        await box.run()
        await box.run_later(130)
        assert box.shown() == ["hello", "hello", "hello"]
        assert await box.state() == "sent"

    async def test_an_echo_settles_it_at_once(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("502"), commits=True)
        made = await box.owe()
        await box.run()
        async with box.database.transaction() as tx:
            echoed = box.channel.posted(THREAD)[0].message_id
            await deliveries.note_platform_id(tx, made, echoed)
        await box.run()
        assert await box.state() == "sent"
        assert (len(box.channel.calls), [one.id for one in box.sent]) == (1, [made])

    @pytest.mark.parametrize(
        "end",
        [
            DeliveryUnknown("no answer in time"),
            ChannelBusy("429", 500.0),
            ChannelRejected(Refusal.FORBIDDEN, "not any more"),
        ],
    )
    async def test_an_echo_that_comes_during_the_call_settles_it_whatever_the_call_says(
        self, box: Box, end: Exception
    ) -> None:
        made = await box.owe()
        create = box.channel.create_message

        async def echoed(*args: object, **named: object) -> PlatformId:
            message = await create(*args, **named)  # type: ignore[arg-type]
            async with box.database.transaction() as tx:
                await deliveries.note_platform_id(tx, made, message)
            raise end

        box.channel.create_message = echoed  # type: ignore[method-assign]
        await box.run()
        assert (await box.state(), box.shown()) == ("sent", ["hello"])
        assert [one.id for one in box.sent] == [made]

    async def test_an_echo_of_what_was_deleted_since_shows_nothing(self, box: Box) -> None:
        """10008 on a create: its nonce is known, and its message is not there any more."""
        made = await box.owe()

        async def gone(*_args: object, **_named: object) -> PlatformId:
            async with box.database.transaction() as tx:
                await deliveries.note_platform_id(tx, made, PlatformId("4999"))
            raise refused(Refusal.MESSAGE_GONE)

        box.channel.create_message = gone  # type: ignore[method-assign]
        await box.run()
        row = await box.row()
        assert (row.state, row.is_gone) == (DeliveryState.SENT, True)

    async def test_what_was_seen_meanwhile_is_not_put_off(self, box: Box) -> None:
        made = await box.owe()
        async with box.database.transaction() as tx:
            await deliveries.note_platform_id(tx, made, PlatformId("4999"))
            await deliveries.postpone(tx, made, await tx.now() + timedelta(seconds=60))
        await box.run()
        assert await box.state() == "sent"

    async def test_a_late_echo_settles_it_though_it_was_not_found(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("hang"))
        box.channel.fail(SEND, ChannelBusy("429", 500.0))
        made = await box.owe()
        await box.run()
        await box.run_later(130)
        assert await box.state() == "pending"
        async with box.database.transaction() as tx:
            await deliveries.note_platform_id(tx, made, PlatformId("4999"))
        await box.run()
        assert (await box.state(), len(box.channel.calls_of(SEND))) == ("sent", 2)

    async def test_a_refusal_after_doubt_is_not_definite(self, box: Box) -> None:
        """A create that was carried out and answered 502, then 403, is there all the same."""
        box.channel.fail(SEND, DeliveryUnknown("502"), commits=True)
        box.channel.fail(SEND, refused(Refusal.FORBIDDEN), times=9)
        await box.owe()
        await box.run()
        await box.run_later(5)
        row = await box.row()
        assert (row.state, row.is_look_only) == (DeliveryState.UNKNOWN, True)
        await box.run_later(61)
        assert await box.state() == "sent"
        assert len(box.channel.calls_of(SEND)) == 2

    async def test_a_refusal_without_doubt_is(self, box: Box) -> None:
        box.channel.fail(SEND, refused(Refusal.FORBIDDEN), times=9)
        await box.owe()
        await box.run()
        assert (await box.row()).dead_reason is DeadReason.FORBIDDEN

    async def test_a_wait_after_doubt_leaves_the_doubt(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("502"), commits=True)
        box.channel.fail(SEND, ChannelBusy("429", 200.0))
        await box.owe()
        await box.run()
        await box.run_later(1)
        assert await box.state() == "unknown"
        await box.run_later(201)
        assert (await box.state(), box.shown()) == ("sent", ["hello"])
        assert len(box.channel.calls_of(SEND)) == 2

    async def test_whose_message_was_deleted_counts_as_sent(self, box: Box) -> None:
        box.channel.fail(SEND, DeliveryUnknown("502"), commits=True)
        turn = await box.ended_turn()
        await box.owe(turn=turn)
        await box.run()
        box.channel.posted(THREAD)[0].deleted = True
        await box.run_later(5)
        row = await box.row()
        assert (row.state, row.is_gone) == (DeliveryState.SENT, True)
        assert await box.turn_state(turn) is TurnState.DONE

    async def test_a_deleted_placeholder_of_a_running_turn_is_made_anew(self, box: Box) -> None:
        turn = await box.running_turn()
        box.channel.fail(SEND, DeliveryUnknown("502"), commits=True)
        await box.owe(
            "turn:1:placeholder:v1", turn=turn, purpose=Purpose.PLACEHOLDER, is_owed=False
        )
        await box.run()
        box.channel.posted(THREAD)[0].deleted = True
        await box.run_later(5)
        assert await box.state("turn:1:placeholder:v2") == "sent"
        assert box.shown() == ["hello"]

    async def test_an_absent_placeholder_of_an_ended_turn_is_dropped(self, box: Box) -> None:
        turn = await box.ended_turn()
        box.channel.fail(SEND, DeliveryUnknown("hang"))
        await box.owe("p:v1", turn=turn, purpose=Purpose.PLACEHOLDER, is_owed=False)
        await box.run()
        await box.run_later(130)
        assert (await box.row("p:v1")).dead_reason is DeadReason.SUPERSEDED
        assert not box.shown()

    async def test_whose_reference_is_invalid_is_the_same_without_it(self, box: Box) -> None:
        box.channel.fail(SEND, refused(Refusal.REFERENCE_INVALID))
        turn = await box.ended_turn()
        body = MessageBody("hello", mention=PlatformId("31"), reply_to=PlatformId("9"))
        await box.owe(body=body, turn=turn, purpose=Purpose.FINAL, part=1)
        await box.owe("after:v1", "part 2", turn=turn, purpose=Purpose.FINAL, part=2)
        await box.run()
        first, second = await box.row(), await box.row("k:v2")
        assert (first.dead_reason, second.state) == (DeadReason.SUPERSEDED, DeliveryState.SENT)
        assert second.body == MessageBody("hello", mention=PlatformId("31"))
        assert second.nonce != first.nonce
        assert box.shown() == ["hello", "part 2"]
        assert await box.turn_state(turn) is TurnState.DONE

    @pytest.mark.parametrize(
        ("refusal", "reason"),
        [
            (Refusal.INVALID_BODY, DeadReason.REFUSED),
            (Refusal.BLOCKED, DeadReason.REFUSED),
            (Refusal.OTHER, DeadReason.REFUSED),
            (Refusal.FORBIDDEN, DeadReason.FORBIDDEN),
            (Refusal.LOCKED, DeadReason.LOCKED),
            (Refusal.CONVERSATION_GONE, DeadReason.CONVERSATION_GONE),
        ],
    )
    async def test_any_other_refusal_is_the_end_and_is_told_where_it_can_be(
        self, box: Box, refusal: Refusal, reason: DeadReason
    ) -> None:
        box.channel.fail(SEND, refused(refusal), times=2)
        turn = await box.ended_turn()
        for part in (1, 2):
            key = f"turn:1:final:{part}:v1"
            await box.owe(key, f"part {part}", turn=turn, purpose=Purpose.FINAL, part=part)
        await box.run()
        assert (await box.row("turn:1:final:1:v1")).dead_reason is reason
        assert await box.turn_state(turn) is TurnState.FAILED
        in_parent = await box.told_in_parent()
        if reason is DeadReason.REFUSED:
            assert [text[:16] for text in box.shown()] == [
                "-# ⚠️ Part 1 of 2"[:16],
                "-# ⚠️ Part 2 of 2"[:16],
            ]
            assert not in_parent
        else:
            # Both parts failed alike; it is told once.
            assert len(in_parent) == 1
            assert "could not be delivered" in in_parent[0]
        async with box.database.read() as tx:
            closed = (await conversations.get(tx, box.where.id)).is_closed
        assert closed is (refusal is Refusal.CONVERSATION_GONE)

    async def test_a_dead_part_does_not_stop_the_later_ones(self, box: Box) -> None:
        box.channel.fail(
            SEND, refused(Refusal.BLOCKED), when=lambda c: bool(c.body and "two" in c.body.content)
        )
        turn = await box.ended_turn()
        for part, text in enumerate(("one", "two", "three"), 1):
            key = f"turn:1:final:{part}:v1"
            await box.owe(key, text, turn=turn, purpose=Purpose.FINAL, part=part)
        await box.run()
        assert box.shown()[:2] == ["one", "three"]
        assert "Part 2 of 3" in box.shown()[2]
        assert await box.turn_state(turn) is TurnState.FAILED


class TestAnEdit:
    async def final_edit(self, box: Box) -> TurnId:
        turn = await box.running_turn()
        made = await box.owe("p:v1", "⏳", turn=turn, purpose=Purpose.PLACEHOLDER, is_owed=False)
        await box.run()
        async with box.database.transaction() as tx:
            known = await turns.get(tx, turn)
            assert known is not None
            await turns.record(tx, known, Ended(Outcome.COMPLETED), outcome="completed")
        await box.owe(
            "f:v1", "answer", turn=turn, purpose=Purpose.FINAL, kind=DeliveryKind.EDIT, part=1,
            target_delivery=made,
        )  # fmt: skip
        return turn

    async def test_makes_the_placeholder_the_answer(self, box: Box) -> None:
        turn = await self.final_edit(box)
        await box.run()
        assert (box.shown(), await box.turn_state(turn)) == (["answer"], TurnState.DONE)

    async def test_in_doubt_is_simply_done_again(self, box: Box) -> None:
        box.channel.fail("edit_message", DeliveryUnknown("502"))
        turn = await self.final_edit(box)
        await box.run()
        await box.run_later(1000)
        assert (box.shown(), await box.turn_state(turn)) == (["answer"], TurnState.DONE)

    async def test_that_stays_in_doubt_becomes_a_message_and_holds_nothing_up(
        self, box: Box
    ) -> None:
        box.channel.fail("edit_message", DeliveryUnknown("502"), times=99)
        turn = await self.final_edit(box)
        await box.owe("later:v1", "what stands behind it")
        for _ in range(6):
            await box.run_later(60)
        assert box.shown() == ["answer", "what stands behind it"]
        assert await box.turn_state(turn) is TurnState.DONE

    async def test_a_deletion_that_stays_in_doubt_lets_others_go_first(self, box: Box) -> None:
        box.channel.fail("delete_message", DeliveryUnknown("502"), times=5)
        await box.owe("p:v1", "⏳", purpose=Purpose.PLACEHOLDER)
        made = (await box.row("p:v1")).id
        await box.owe(
            "p:v1:retire", "", kind=DeliveryKind.DELETE, purpose=Purpose.RETIRE,
            target_delivery=made,
        )  # fmt: skip
        await box.owe("later:v1", "what stands behind it")
        for _ in range(3):
            await box.run_later(60)
        assert box.shown() == ["⏳", "what stands behind it"]
        for _ in range(6):
            await box.run_later(60)
        assert box.shown() == ["what stands behind it"]

    async def test_of_a_message_that_is_gone_becomes_a_message(self, box: Box) -> None:
        turn = await self.final_edit(box)
        box.channel.posted(THREAD)[0].deleted = True
        await box.run()
        assert (box.shown(), await box.turn_state(turn)) == (["answer"], TurnState.DONE)
        assert (await box.row("f:v2")).kind is DeliveryKind.CREATE

    async def test_of_a_message_too_old_becomes_one_and_the_old_one_goes(self, box: Box) -> None:
        box.channel.fail("edit_message", refused(Refusal.EDIT_TOO_OLD))
        turn = await self.final_edit(box)
        await box.run()
        assert (box.shown(), await box.turn_state(turn)) == (["answer"], TurnState.DONE)

    async def test_in_an_archived_thread_takes_it_out_and_retries_once(self, box: Box) -> None:
        turn = await self.final_edit(box)
        box.channel.archive(THREAD)
        await box.run_later(0)
        await box.run_later(5)
        assert (box.shown(), await box.turn_state(turn)) == (["answer"], TurnState.DONE)
        assert len(box.channel.calls_of("unarchive")) == 1

    async def test_in_a_thread_that_archives_itself_again_is_given_up(self, box: Box) -> None:
        box.channel.fail("edit_message", refused(Refusal.ARCHIVED), times=9)
        turn = await self.final_edit(box)
        await box.run()
        await box.run_later(5)
        assert len(box.channel.calls_of("unarchive")) == 1
        assert await box.turn_state(turn) is TurnState.FAILED

    async def test_in_a_locked_thread_is_told_in_the_parent(self, box: Box) -> None:
        turn = await self.final_edit(box)
        box.channel.archive(THREAD, locked=True)
        await box.run()
        assert (await box.row("f:v1")).dead_reason is DeadReason.LOCKED
        assert len(await box.told_in_parent()) == 1
        assert await box.turn_state(turn) is TurnState.FAILED

    async def test_a_delete_of_what_is_gone_or_never_was_is_done(self, box: Box) -> None:
        turn = await box.ended_turn()
        never = await box.owe("p:v1", " ", purpose=Purpose.PLACEHOLDER, turn=turn, is_owed=False)
        for key, target in (("d:v1", {"target_delivery": never}),
                            ("e:v1", {"target": MessageRef(THREAD, PlatformId("4"))})):  # fmt: skip
            await box.owe(key, "", kind=DeliveryKind.DELETE, purpose=Purpose.RETIRE, turn=turn,
                          **target)  # fmt: skip
        await box.run()
        assert [await box.state(key) for key in ("p:v1", "d:v1", "e:v1")] == [
            "dead",
            "sent",
            "sent",
        ]
        assert await box.turn_state(turn) is TurnState.DONE


async def test_a_refused_token_loses_nothing_that_is_owed(box: Box) -> None:
    box.channel.fail(SEND, refused(Refusal.UNAUTHORIZED))
    await box.owe()
    await box.run()
    assert await box.state() == "pending"
    await box.run_later(61)
    assert (await box.state(), box.shown()) == ("sent", ["hello"])


async def test_the_next_version_of_a_last_word_takes_nobody_elses_key(box: Box) -> None:
    await box.owe("turn:x:placeholder:v1:retire", kind=DeliveryKind.EDIT, purpose=Purpose.RETIRE)
    row = await box.row("turn:x:placeholder:v1:retire")
    assert deliveries.superseding(row).key == "turn:x:placeholder:v1:retire:v2"


class TestAThread:
    async def opening(self, box: Box) -> MessageRef:
        trigger = box.channel.say(HOME, "build it", "31")
        await box.owe(
            "thread:v1", "a title", kind=DeliveryKind.THREAD, purpose=Purpose.THREAD,
            target=trigger, is_owed=False,
        )  # fmt: skip
        async with box.database.transaction() as tx:
            turn = await a_turn(tx, box.where)
            thread = (await box_row(tx, "thread:v1")).id
            await tx.execute(
                sa.update(schema.turns)
                .where(schema.turns.c.id == turn)
                .values(thread_delivery=thread)
            )
        self.turn = turn
        return trigger

    async def test_is_opened(self, box: Box) -> None:
        trigger = await self.opening(box)
        await box.run()
        row = await box.row("thread:v1")
        assert (row.state, row.platform_id) == (DeliveryState.SENT, None)
        assert box.channel.titles[trigger.message_id] == "a title"

    @pytest.mark.parametrize("commits", [True, False])
    async def test_that_exists_is_adopted(self, box: Box, commits: bool) -> None:
        box.channel.fail("open_thread", DeliveryUnknown("502"), commits=commits)
        await self.opening(box)
        await box.run()
        assert await box.state("thread:v1") == "unknown"
        await box.run_later(5)
        assert await box.state("thread:v1") == "sent"

    async def test_that_must_wait_is_told_in_the_parent_and_its_turn_waits(self, box: Box) -> None:
        box.channel.fail("open_thread", ChannelBusy("429", 250.0), times=2)
        await self.opening(box)
        await box.run()
        (text,) = await box.told_in_parent()
        assert "wait until <t:" in text
        async with box.database.read() as tx:
            turn = await turns.get(tx, self.turn)
            assert turn is not None
            assert turn.not_before == (await box_row(tx, "thread:v1")).not_before
            assert await conversations.is_idle(tx, box.where)
        await box.run_later(251)
        assert len(await box.told_in_parent()) == 1
        await box.run_later(251)
        assert await box.state("thread:v1") == "sent"

    @pytest.mark.parametrize("refusal", [Refusal.THREAD_LIMIT, Refusal.FORBIDDEN])
    async def test_that_is_refused_ends_its_turn_unprompted_and_told(
        self, box: Box, refusal: Refusal
    ) -> None:
        box.channel.fail("open_thread", refused(refusal))
        trigger = await self.opening(box)
        await box.run()
        assert await box.turn_state(self.turn) is TurnState.ANSWERED
        (text,) = await box.told_in_parent()
        assert "No thread could be opened" in text
        async with box.database.read() as tx:
            parent = await the_parent(tx)
            assert parent is not None
            (row,) = await deliveries.open_of(tx, parent.id)
        # The turn's trigger here is message 1000; what matters is that it is a reply that pings.
        assert (row.body.reply_to, row.body.mention, row.turn) == ("1000", "31", self.turn)
        assert trigger.message_id not in box.channel.titles

    async def test_a_refusal_after_doubt_is_looked_after(self, box: Box) -> None:
        box.channel.fail("open_thread", DeliveryUnknown("502"), commits=True)
        box.channel.fail("open_thread", refused(Refusal.FORBIDDEN), times=5)
        await self.opening(box)
        await box.run()
        await box.run_later(5)
        assert await box.state("thread:v1") == "unknown"
        await box.run_later(61)
        assert await box.state("thread:v1") == "sent"

    async def test_a_thread_that_nobody_can_look_for_ends_its_turn_told(self, box: Box) -> None:
        box.channel.fail("open_thread", DeliveryUnknown("502"))
        box.channel.fail("open_thread", refused(Refusal.FORBIDDEN))
        box.channel.fail("history", refused(Refusal.FORBIDDEN))
        await self.opening(box)
        await box.run()
        await box.run_later(5)
        await box.run_later(61)
        assert (await box.row("thread:v1")).dead_reason is DeadReason.UNCLEAR
        assert await box.turn_state(self.turn) is TurnState.ANSWERED
        (text,) = await box.told_in_parent()
        assert "unclear" in text

    async def test_a_refusal_after_doubt_of_a_thread_that_is_not_there(self, box: Box) -> None:
        box.channel.fail("open_thread", DeliveryUnknown("502"))
        box.channel.fail("open_thread", refused(Refusal.FORBIDDEN), times=5)
        box.channel.close_conversation(THREAD)
        await self.opening(box)
        await box.run()
        await box.run_later(5)
        await box.run_later(61)
        assert (await box.row("thread:v1")).dead_reason is DeadReason.FORBIDDEN
        assert await box.turn_state(self.turn) is TurnState.ANSWERED


async def box_row(tx: Transaction, key: str) -> Delivery:
    found = await tx.execute(
        sa.select(schema.deliveries.c.id).where(schema.deliveries.c.key == key)
    )
    row = await deliveries.get(tx, found.scalar_one())
    assert row is not None
    return row


class TestAFailingDatabase:
    """Each commit around a call fails, in doubt or for sure; the message is there once all the same."""

    @pytest.mark.parametrize("nth", [1, 2])
    @pytest.mark.parametrize(
        ("is_done", "error"),
        [(True, CommitUnknown), (False, CommitUnknown), (False, DatabaseUnavailable)],
    )
    async def test_costs_no_message_and_doubles_none(
        self, box: Box, monkeypatch: pytest.MonkeyPatch, nth: int, is_done: bool, error: type
    ) -> None:
        turn = await box.ended_turn()
        await box.owe(turn=turn)
        breaking_commit(monkeypatch, box.database, nth, is_done, error)
        for _ in range(8):
            with suppress(CommitUnknown, DatabaseUnavailable):
                await box.run_later(2)
        assert (await box.state(), box.shown()) == ("sent", ["hello"])
        assert await box.turn_state(turn) is TurnState.DONE
        assert len(box.channel.calls_of(SEND)) == 1

    async def test_a_stop_between_commit_and_call_leaves_doubt(self, box: Box) -> None:
        await box.owe()
        row = await box.row()
        assert await box.outbox._begin(row)
        assert await box.state() == "sending"
        await box.take()
        await box.outbox.recover()
        assert (await box.row()).had_doubt
        await box.run()
        assert (await box.state(), box.shown()) == ("sent", ["hello"])

    async def test_a_former_owner_writes_nothing(self, box: Box) -> None:
        await box.owe()
        former = box.outbox
        await box.take()
        with pytest.raises(LeaseLost):
            await former.step()
        assert not box.channel.calls
        assert await box.state() == "pending"


def breaking_commit(
    monkeypatch: pytest.MonkeyPatch, database: Database, nth: int, is_done: bool, error: type
) -> None:
    """Let the nth commit from now on fail: after it was done, or instead of it."""
    count, original = 0, Transaction.commit

    async def commit(tx: Transaction) -> None:
        nonlocal count
        count += 1
        if count != nth:
            await original(tx)
            return
        if is_done:
            await original(tx)
        raise error("the connection broke")

    monkeypatch.setattr(Transaction, "commit", commit)


class TestOrder:
    async def test_a_row_that_waits_holds_those_behind_it(self, box: Box) -> None:
        box.channel.fail(SEND, ChannelBusy("429", 30.0))
        await box.owe("a:v1", "first")
        await box.owe("b:v1", "second")
        await box.run()
        assert not box.shown()
        await box.run_later(31)
        assert box.shown() == ["first", "second"]

    async def test_a_later_placeholder_retires_the_earlier(self, box: Box) -> None:
        turn = await box.running_turn()
        for version in (1, 2):
            await box.owe(f"turn:1:placeholder:v{version}", f"p{version}", turn=turn,
                          purpose=Purpose.PLACEHOLDER, is_owed=False, version=version)  # fmt: skip
            async with box.database.read() as tx:
                known = await turns.get(tx, turn)
                assert known is not None
                assert len(await placeholders_of(tx, known)) == version
            await box.run()
        assert box.shown() == ["p2"]
