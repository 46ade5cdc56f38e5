"""Discord's side of bindings: which threads can be had, and what people are told when one begins and ends."""

from dataclasses import replace
from datetime import timedelta

import pytest

from openab.channels.discord.bindings import DiscordBindings, intro_key
from openab.control.reception import Reception, accept
from openab.domain.binding import (
    BindingCode,
    BindingRefused,
    EndReason,
    Limits,
    Placement,
    SessionBinding,
    TargetKind,
)
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.gates import Disposition, Verdict
from openab.domain.ids import ConversationRef, PlatformId, TurnId
from openab.domain.message import Place
from openab.domain.outbound import is_presentation
from openab.routing.bindings import Bindings
from openab.storage import conversations, deliveries
from openab.storage.bindings import farewell_key
from openab.storage.deliveries import Delivery
from openab.storage.engine import Database, Transaction
from tests.builders import (
    CHANNEL,
    HOME,
    a_conversation,
    a_message,
    a_ref,
    a_session,
    some_settings,
)

ANCHOR = PlatformId("1000")
ADAPTER = DiscordBindings()
SERVICE = Bindings({CHANNEL: ADAPTER})


async def rows(tx: Transaction, ref: ConversationRef) -> list[Delivery]:
    where = await conversations.find(tx, ref)
    return await deliveries.open_of(tx, where.id) if where else []


async def bound(tx: Transaction, **changes: object) -> SessionBinding:
    thread = await a_conversation(tx, "500", HOME)
    session = await a_session(tx, thread, "fable")
    named = {"metadata": {"by": "Ann"}, "bound_by": "31", **changes}
    return await SERVICE.bind(tx, session, TargetKind.SUBAGENT, thread.ref, **named)  # type: ignore[arg-type]


class TestAChild:
    async def test_is_the_thread_of_its_anchor_and_owed_once(self, database: Database) -> None:
        async with database.transaction() as tx:
            await a_conversation(tx)
            first = await ADAPTER.child_of(tx, a_ref(), "Look into it", ANCHOR)
            again = await ADAPTER.child_of(tx, a_ref(), "Another title", ANCHOR)
            (row,) = await rows(tx, first)
        assert first == again == a_ref(ANCHOR, HOME)
        assert (row.kind, row.purpose, row.body.content) == (
            DeliveryKind.THREAD,
            Purpose.THREAD,
            "Look into it",
        )
        assert row.target is not None
        assert (row.target.conversation_id, row.target.message_id) == (HOME, ANCHOR)
        assert not row.is_owed

    async def test_has_the_key_that_intake_gives_the_same_thread(self, database: Database) -> None:
        """Whoever wants it first, one thread is opened: a second row would be a second request."""
        message = a_message(message_id=ANCHOR)
        async with database.transaction() as tx:
            here = await a_conversation(tx)
            verdict = Verdict(Disposition.TURN, "accepted", opens_thread=True)
            reception = Reception(message, "build it", here, verdict)
            await accept(tx, some_settings(), reception, TurnId("t1"))
            child = await ADAPTER.child_of(tx, a_ref(), "Look into it", ANCHOR)
            threads = [row for row in await rows(tx, child) if row.kind is DeliveryKind.THREAD]
        assert len(threads) == 1

    @pytest.mark.parametrize("case", ["unknown", "thread", "dm", "closed", "no anchor", "gone"])
    async def test_cannot_be_had_everywhere(self, database: Database, case: str) -> None:
        parent = {"thread": a_ref("500", HOME), "dm": a_ref("60"), "unknown": a_ref("61")}
        ref = parent.get(case, a_ref())
        async with database.transaction() as tx:
            home = await a_conversation(tx)
            await a_conversation(tx, "500", HOME)
            await conversations.ensure(tx, a_ref("60"), Place.DM)
            if case == "closed":
                await conversations.close(tx, home.id)
            if case == "gone":
                child = await a_conversation(tx, ANCHOR, HOME)
                await conversations.close(tx, child.id)
            with pytest.raises(BindingRefused) as refused:
                await ADAPTER.child_of(tx, ref, "t", "" if case == "no anchor" else ANCHOR)
            assert not await rows(tx, a_ref(ANCHOR, HOME))
        assert refused.value.code is BindingCode.CREATE_FAILED

    async def test_is_bound_by_the_service(self, database: Database) -> None:
        async with database.transaction() as tx:
            home = await a_conversation(tx)
            session = await a_session(tx, home, "fable")
            binding = await SERVICE.bind(
                tx,
                session,
                TargetKind.SUBAGENT,
                a_ref(),
                Placement.CHILD,
                metadata={"anchor": ANCHOR, "title": "Look into it"},
            )
            owed = await rows(tx, binding.conversation)
        assert binding.conversation == a_ref(ANCHOR, HOME)
        assert [row.purpose for row in owed] == [Purpose.THREAD, Purpose.NOTICE]


class TestWords:
    async def test_the_intro_is_owed_once_and_pings_nobody(self, database: Database) -> None:
        async with database.transaction() as tx:
            binding = await bound(tx, limits=Limits(idle=timedelta(hours=24)))
            await ADAPTER.begun(tx, binding)
            (row,) = await rows(tx, binding.conversation)
        assert row.key == intro_key(binding.binding_id)
        assert is_presentation(row.body.content, silent=row.body.silent)
        assert (row.body.mention, row.body.reply_to, row.turn) == (None, None, None)
        assert "fable" in row.body.content
        assert "1d" in row.body.content

    @pytest.mark.parametrize("reason", list(EndReason))
    async def test_a_farewell_is_owed_where_somebody_can_read_it(
        self, database: Database, reason: EndReason
    ) -> None:
        async with database.transaction() as tx:
            binding = await bound(tx)
            ended = replace(binding, end_reason=reason)
            for _ in range(2):
                await ADAPTER.ended(tx, ended)
            told = [row.key for row in await rows(tx, binding.conversation)][1:]
        is_silent = reason in {EndReason.ARCHIVED, EndReason.CONVERSATION_GONE}
        assert told == ([] if is_silent else [farewell_key(binding.binding_id)])

    async def test_the_one_that_loses_is_told_before_the_one_that_wins(
        self, database: Database
    ) -> None:
        async with database.transaction() as tx:
            first = await bound(tx)
            thread = await conversations.find(tx, first.conversation)
            assert thread is not None
            other = await a_session(tx, thread, "luna")
            second = await SERVICE.bind(tx, other, TargetKind.SUBAGENT, thread.ref)
            keys = [row.key for row in await rows(tx, thread.ref)]
        assert keys == [
            intro_key(first.binding_id),
            farewell_key(first.binding_id),
            intro_key(second.binding_id),
        ]
