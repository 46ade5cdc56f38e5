"""Bindings on every chat network and both dialects: bound, used, expired, ended, put away and taken up again."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from openab.domain.binding import (
    BindingCode,
    BindingRefused,
    BindingStatus,
    EndReason,
    Limits,
    Placement,
    TargetKind,
)
from openab.domain.delivery import Begun, DeadReason, GivenUp
from openab.domain.ids import (
    AccountId,
    BindingId,
    ChannelName,
    ConversationRef,
    SessionKey,
    TurnId,
)
from openab.domain.turn import CancelledQueued, Claimed, Ended, Outcome, TurnEvent
from openab.routing.bindings import Bindings
from openab.storage import bindings as binding_rows
from openab.storage import conversations, deliveries, turns
from openab.storage.bindings import farewell_key
from openab.storage.engine import Database
from openab.storage.transaction import Transaction
from tests.builders import ACCOUNT, a_turn
from tests.conformance.binding_stage import HOUR, WITH_CHILDREN, Network

INSTANT = timedelta(microseconds=1)


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """The database's clock stands still; a test moves it from the first moment that was read."""
    moved, begun = [timedelta(0)], list[Any]()
    read = Transaction.now

    async def now(tx: Transaction) -> Any:
        begun[:] = begun or [await read(tx)]
        return begun[0] + moved[0]

    monkeypatch.setattr(Transaction, "now", now)
    return moved


class TestBinding:
    async def test_binds_a_conversation_to_a_session_of_another(self, net: Network) -> None:
        session = await net.session("40")
        made = await net.bind(session, idle=HOUR)
        assert made.target_session_key == session
        assert made.conversation == net.ref("50")
        assert (made.status, made.bound_by) == (BindingStatus.ACTIVE, "31")
        assert made.limits == Limits(idle=HOUR)
        assert await net.resolve() == made
        assert await net.of_session(session) == [made.binding_id]
        assert await net.resolve("40") is None

    async def test_is_as_lasting_as_the_transaction_around_it(self, net: Network) -> None:
        session = await net.session("40")

        async def bind_and_fail() -> None:
            async with net.database.transaction() as tx:
                await net.bindings.bind(tx, session, TargetKind.SESSION, net.ref("50"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await bind_and_fail()
        assert await net.rows() == []
        assert await net.resolve() is None
        assert await net.owed("") == []

    async def test_anew_ends_what_was_bound_there_and_tells_people(self, net: Network) -> None:
        one, other = await net.session("40"), await net.session("41")
        first, second = await net.bind(one), await net.bind(other)
        assert await net.resolve() == second
        assert await net.of_session(one) == []
        assert await net.active() == [second.binding_id]
        assert (await net.read(first.binding_id)).end_reason is EndReason.REPLACED
        assert await net.owed() == ([] if net.is_silent else [farewell_key(first.binding_id)])

    async def test_of_the_same_session_again_renews_its_limits_and_nothing_else(
        self, net: Network
    ) -> None:
        session = await net.session("40")
        first = await net.bind(session, idle=HOUR)
        await net.everything_is_sent()
        net.clock.pass_by(1800)
        again = await net.bind(session, idle=2 * HOUR, ttl=HOUR, by="32")
        assert again.binding_id == first.binding_id
        assert (again.bound_at, again.bound_by) == (first.bound_at, "31")
        assert again.limits == Limits(idle=2 * HOUR)
        assert again.last_activity_at > first.last_activity_at
        assert again.expires_at is not None
        assert again.expires_at > first.bound_at + HOUR
        assert await net.owed("") == []

    async def test_with_a_shorter_limit_than_it_was_silent_begins_anew(
        self, net: Network, frozen: list[timedelta]
    ) -> None:
        session = await net.session("40")
        first = await net.bind(session)
        frozen[0] = 5 * HOUR
        again = await net.bind(session, idle=HOUR)
        assert again.binding_id == first.binding_id
        frozen[0] = 6 * HOUR - INSTANT
        assert await net.resolve() == again

    async def test_of_the_same_session_after_its_time_is_a_new_one(self, net: Network) -> None:
        session = await net.session("40")
        first = await net.bind(session, idle=HOUR)
        net.clock.pass_by(3601)
        second = await net.bind(session, idle=HOUR)
        assert second.binding_id != first.binding_id
        # It was over before anybody bound the conversation again.
        assert (await net.read(first.binding_id)).end_reason is EndReason.IDLE
        assert await net.active() == [second.binding_id]

    async def test_of_one_session_in_several_places_lists_the_oldest_first(
        self, net: Network
    ) -> None:
        session = await net.session("40")
        made = [(await net.bind(session, place)).binding_id for place in ("52", "51", "50")]
        assert await net.of_session(session) == made

    @pytest.mark.parametrize("net", ["rooms-sqlite", "rooms-postgres"], indirect=True)
    async def test_goes_on_in_another_process(
        self, net: Network, request: pytest.FixtureRequest
    ) -> None:
        """Nothing of it is in memory: the last use before a crash counts after it."""
        made = await net.bind(await net.session("40"), idle=HOUR)
        net.clock.pass_by(3000)
        await net.touch(made.binding_id)
        dialect = request.node.callspec.params["net"].partition("-")[2]
        other = await Database.open(request.getfixturevalue(f"migrated_{dialect}_address"))
        next_life = Network(other, net.name)
        next_life.clock.pass_by(6000)
        found = await next_life.resolve()
        await other.close()
        assert found is not None
        assert found.binding_id == made.binding_id


class TestWhatCannotBeBound:
    async def code(self, net: Network, *what: Any, **more: Any) -> BindingCode:
        async with net.database.transaction() as tx:
            with pytest.raises(BindingRefused) as refused:
                await net.bindings.bind(tx, *what, **more)
        assert await net.rows() == []
        return refused.value.code

    async def test_the_reserved_kind(self, net: Network) -> None:
        session = await net.session("40")
        code = await self.code(net, session, TargetKind.ACP, net.ref("50"))
        assert code == "BINDING_CAPABILITY_UNSUPPORTED"

    async def test_the_reserved_kind_even_where_nothing_is_served(self, net: Network) -> None:
        session = await net.session("40")
        nowhere = ConversationRef(ChannelName("smoke"), ACCOUNT, net.ref("50").conversation_id)
        code = await self.code(net, session, TargetKind.ACP, nowhere)
        assert code == "BINDING_CAPABILITY_UNSUPPORTED"

    async def test_a_channel_that_nothing_serves(self, net: Network) -> None:
        session = await net.session("40")
        nowhere = ConversationRef(ChannelName("smoke"), ACCOUNT, net.ref("50").conversation_id)
        code = await self.code(net, session, TargetKind.SESSION, nowhere)
        assert code == "BINDING_ADAPTER_UNAVAILABLE"

    async def test_a_placement_that_the_channel_has_not(self, net: Network) -> None:
        if net.has_children:
            net = Network(net.database, "pagers")
        session = await net.session("40")
        above = net.ref("40"), Placement.CHILD
        code = await self.code(net, session, TargetKind.SUBAGENT, *above, metadata={"anchor": "9"})
        assert code == "BINDING_CAPABILITY_UNSUPPORTED"
        async with net.database.transaction() as tx:
            with pytest.raises(BindingRefused) as refused:
                await net.bindings.child_of(tx, net.ref("40"), "title", "9")
        assert refused.value.code == "BINDING_CAPABILITY_UNSUPPORTED"

    async def test_a_session_that_is_not_there(self, net: Network) -> None:
        code = await self.code(net, SessionKey("net:1:2"), TargetKind.SESSION, net.ref("50"))
        assert code == "BINDING_CREATE_FAILED"

    async def test_a_child_where_there_can_be_none(self, net: Network) -> None:
        if not net.has_children:
            net = Network(net.database, "rooms")
        session = await net.session("40")
        async with net.database.transaction() as tx:
            await net.place(tx, "60", parent="40")
        inside = net.ref("60", parent="40"), Placement.CHILD
        code = await self.code(net, session, TargetKind.SUBAGENT, *inside, metadata={"anchor": "9"})
        assert code == "BINDING_CREATE_FAILED"
        assert await net.owed("") == []


@pytest.mark.parametrize("net", WITH_CHILDREN, indirect=True)
class TestAChild:
    async def bound(self, net: Network, session: SessionKey, anchor: str) -> Any:
        async with net.database.transaction() as tx:
            return await net.bindings.bind(
                tx,
                session,
                TargetKind.SUBAGENT,
                net.ref("40"),
                Placement.CHILD,
                metadata={"anchor": anchor, "title": "a task"},
            )

    async def test_is_made_below_its_parent_and_bound(self, net: Network) -> None:
        session = await net.session("40")
        made = await self.bound(net, session, "9")
        assert made.conversation.parent_conversation_id == "40"
        assert made.conversation.channel == net.channel
        assert made.metadata == {"anchor": "9", "title": "a task"}
        assert await net.resolve("40") is None
        assert await net.resolve(made.conversation.conversation_id) == made

    async def test_of_the_same_anchor_is_the_same(self, net: Network) -> None:
        session = await net.session("40")
        one, again, other = [await self.bound(net, session, anchor) for anchor in ("9", "9", "8")]
        assert one.binding_id == again.binding_id
        assert other.conversation != one.conversation
        assert len(await net.active()) == 2


class TestTime:
    async def test_is_over_to_the_instant(self, net: Network, frozen: list[timedelta]) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        frozen[0] = HOUR - INSTANT
        assert await net.resolve() == made
        assert await net.of_session(made.target_session_key) == [made.binding_id]
        frozen[0] = HOUR
        # Before anybody noted it.
        assert await net.of_session(made.target_session_key) == []
        assert await net.active() == [made.binding_id]
        assert await net.resolve() is None
        assert (await net.read(made.binding_id)).end_reason is EndReason.IDLE
        assert await net.owed() == ([] if net.is_silent else [farewell_key(made.binding_id)])

    @pytest.mark.parametrize(
        ("limits", "reason"),
        [
            ({"max_age": HOUR}, EndReason.MAX_AGE),
            ({"ttl": HOUR}, EndReason.EXPIRED),
            ({"ttl": HOUR, "max_age": 2 * HOUR, "idle": 3 * HOUR}, EndReason.EXPIRED),
        ],
    )
    async def test_use_makes_nothing_younger(
        self, net: Network, frozen: list[timedelta], limits: dict[str, Any], reason: EndReason
    ) -> None:
        made = await net.bind(await net.session("40"), **limits)
        frozen[0] = HOUR - INSTANT
        await net.touch(made.binding_id)
        assert await net.resolve() is not None
        frozen[0] = HOUR
        assert await net.sweep() == 1
        assert (await net.read(made.binding_id)).end_reason is reason

    async def test_one_whose_session_works_is_not_idle(
        self, net: Network, frozen: list[timedelta]
    ) -> None:
        session = await net.session("40")
        made = await net.bind(session, idle=HOUR)
        async with net.database.transaction() as tx:
            home = await conversations.get(tx, await net.place(tx, "40"))
            turn = await a_turn(tx, home)
        frozen[0] = 5 * HOUR
        assert (await net.read(made.binding_id)).is_busy
        assert await net.sweep() == 0
        assert await net.resolve() is not None
        await self.goes_on(net, turn, CancelledQueued())
        # The end of its work is its last use.
        frozen[0] = 6 * HOUR - INSTANT
        assert await net.sweep() == 0
        assert await net.resolve() is not None
        frozen[0] = 6 * HOUR
        assert await net.resolve() is None

    async def test_work_that_begins_too_late_brings_none_back(
        self, net: Network, frozen: list[timedelta]
    ) -> None:
        session = await net.session("40")
        made, lasting = await net.bind(session, idle=HOUR), await net.bind(session, "51")
        frozen[0] = HOUR
        async with net.database.transaction() as tx:
            home = await conversations.get(tx, await net.place(tx, "40"))
            turn = await a_turn(tx, home)
        assert not (await net.read(made.binding_id)).is_busy
        assert await net.of_session(session) == [lasting.binding_id]
        await self.goes_on(net, turn, CancelledQueued())
        assert await net.of_session(session) == [lasting.binding_id]
        assert (await net.read(lasting.binding_id)).last_activity_at > made.last_activity_at
        assert await net.resolve() is None

    async def test_one_whose_session_worked_for_long_can_be_read_afterwards(
        self, net: Network, frozen: list[timedelta]
    ) -> None:
        session = await net.session("40")
        made, other = await net.bind(session, idle=HOUR), await net.bind(session, "51", ttl=HOUR)
        async with net.database.transaction() as tx:
            home = await conversations.get(tx, await net.place(tx, "40"))
            turn = await a_turn(tx, home)
        await self.goes_on(net, turn, Claimed())
        frozen[0] = 5 * HOUR
        await self.goes_on(net, turn, Ended(Outcome.COMPLETED), outcome="completed")
        assert not (await net.read(made.binding_id)).is_busy
        assert await net.of_session(session) == [made.binding_id]
        assert await net.sweep() == 1
        assert (await net.read(other.binding_id)).end_reason is EndReason.EXPIRED
        assert await net.active() == [made.binding_id]

    async def goes_on(self, net: Network, turn: TurnId, event: TurnEvent, **values: Any) -> None:
        async with net.database.transaction() as tx:
            known = await turns.get(tx, turn)
            assert known
            await turns.record(tx, known, event, **values)

    async def test_what_is_used_lives_on(self, net: Network, frozen: list[timedelta]) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        for step in range(1, 5):
            frozen[0] = step * HOUR - step * INSTANT
            await net.touch(made.binding_id)
        frozen[0] += HOUR - INSTANT
        assert await net.resolve() is not None
        frozen[0] += INSTANT
        assert await net.resolve() is None

    async def test_use_never_shortens_and_never_fails(
        self, net: Network, frozen: list[timedelta]
    ) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        frozen[0] = HOUR / 2
        await net.touch(made.binding_id)
        used = (await net.read(made.binding_id)).last_activity_at
        for when in (made.bound_at, made.bound_at - timedelta(days=400)):
            await net.touch(made.binding_id, at=when)
        await net.touch(BindingId("nobody's"))
        assert (await net.read(made.binding_id)).last_activity_at == used
        # What is said to be used in a hundred years is used now.
        await net.touch(made.binding_id, at=used + timedelta(days=36_500))
        assert (await net.read(made.binding_id)).last_activity_at == used

    async def test_use_brings_nothing_back(self, net: Network, frozen: list[timedelta]) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        frozen[0] = HOUR
        await net.touch(made.binding_id)
        async with net.database.transaction() as tx:
            await binding_rows.touch_in(tx, await net.place(tx, "50"))
        assert (await net.read(made.binding_id)).last_activity_at == made.bound_at
        assert await net.resolve() is None
        await net.touch(made.binding_id)
        assert (await net.read(made.binding_id)).last_activity_at == made.bound_at

    async def test_what_is_said_in_a_conversation_uses_what_is_bound_there(
        self, net: Network, frozen: list[timedelta]
    ) -> None:
        session = await net.session("40")
        here, there = await net.bind(session, "50", idle=HOUR), await net.bind(session, "51")
        frozen[0] = HOUR / 2
        async with net.database.transaction() as tx:
            await binding_rows.touch_in(tx, await net.place(tx, "50"))
            await binding_rows.touch_in(tx, await net.place(tx, "99"))
        assert (await net.read(here.binding_id)).last_activity_at == here.bound_at + HOUR / 2
        assert (await net.read(there.binding_id)).last_activity_at == there.bound_at

    async def test_limits_can_be_changed_while_it_lasts(
        self, net: Network, frozen: list[timedelta]
    ) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        async with net.database.transaction() as tx:
            # Rounded up: what lasts a moment is not over at once.
            await binding_rows.limit(tx, made.binding_id, Limits(max_age=2 * HOUR - INSTANT))
        frozen[0] = 2 * HOUR - INSTANT
        found = await net.resolve()
        assert found is not None
        assert found.limits == Limits(max_age=2 * HOUR)
        frozen[0] = 2 * HOUR
        assert await net.resolve() is None


class TestUnbinding:
    async def test_one_ends_that_one(self, net: Network) -> None:
        session = await net.session("40")
        one, other = await net.bind(session, "50"), await net.bind(session, "51")
        assert await net.unbind(one.binding_id) == [one.binding_id]
        assert await net.of_session(session) == [other.binding_id]
        assert await net.resolve("50") is None

    async def test_a_session_ends_all_that_it_has_and_no_others(self, net: Network) -> None:
        session, other = await net.session("40"), await net.session("41")
        mine = {(await net.bind(session, place)).binding_id for place in ("50", "51")}
        kept = await net.bind(other, "52")
        assert set(await net.unbind(session)) == mine
        assert await net.active() == [kept.binding_id]

    async def test_twice_or_of_nothing_ends_nothing(self, net: Network) -> None:
        session = await net.session("40")
        made = await net.bind(session)
        assert await net.unbind(session) == [made.binding_id]
        for target in (session, made.binding_id, BindingId("nobody's"), SessionKey("net:1:2")):
            assert await net.unbind(target, EndReason.CONVERSATION_GONE) == []
        assert (await net.read(made.binding_id)).end_reason is EndReason.UNFOCUSED

    async def test_leaves_a_tombstone_that_says_why_and_when(self, net: Network) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        net.clock.pass_by(60)
        await net.unbind(made.binding_id)
        await net.everything_is_sent()
        await net.sweep()
        stone = await net.read(made.binding_id)
        assert (stone.status, stone.end_reason) == (BindingStatus.ENDED, EndReason.UNFOCUSED)
        assert (stone.bound_at, stone.limits) == (made.bound_at, made.limits)

    @pytest.mark.parametrize("reason", [EndReason.ARCHIVED, EndReason.CONVERSATION_GONE])
    async def test_where_nobody_is_to_be_told_is_over_at_once(
        self, net: Network, reason: EndReason
    ) -> None:
        """A word would take an archived conversation out again, and reach nobody in one that is gone."""
        made = await net.bind(await net.session("40"))
        async with net.database.transaction() as tx:
            (ended,) = await net.bindings.unbind(tx, made.binding_id, reason)
        assert (ended.status, ended.end_reason) == (BindingStatus.ENDED, reason)
        assert (await net.read(made.binding_id)).status is BindingStatus.ENDED
        assert await net.owed() == []

    async def test_on_a_channel_that_is_not_served_any_more_is_over_at_once(
        self, net: Network
    ) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        net.bindings = Bindings({})
        net.clock.pass_by(3601)
        assert await net.sweep() == 1
        assert (await net.read(made.binding_id)).status is BindingStatus.ENDED


class TestTheEnd:
    async def test_comes_only_when_the_farewell_is_settled(self, net: Network) -> None:
        made = await net.bind(await net.session("40"))
        await net.unbind(made.binding_id)
        status = (await net.read(made.binding_id)).status
        assert status is (BindingStatus.ENDED if net.is_silent else BindingStatus.ENDING)
        assert await net.sweep() == 0
        assert (await net.read(made.binding_id)).status is status
        await net.everything_is_sent()
        assert await net.sweep() == (0 if net.is_silent else 1)
        assert (await net.read(made.binding_id)).status is BindingStatus.ENDED
        assert await net.sweep() == 0

    async def test_comes_as_well_when_nobody_can_be_told(self, net: Network) -> None:
        made = await net.bind(await net.session("40"))
        await net.everything_is_sent()
        await net.unbind(made.binding_id)
        async with net.database.transaction() as tx:
            for row in await deliveries.open_of(tx, await net.place(tx, "50")):
                begun = await deliveries.record(tx, row, Begun())
                await deliveries.record(tx, begun, GivenUp(DeadReason.FORBIDDEN))
        await net.sweep()
        assert (await net.read(made.binding_id)).status is BindingStatus.ENDED

    async def test_is_told_once_however_often_it_is_swept(self, net: Network) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        net.clock.pass_by(3601)
        assert await net.sweep() == 1
        assert await net.sweep() == 0
        assert await net.unbind(made.binding_id) == []
        assert await net.owed() == ([] if net.is_silent else [farewell_key(made.binding_id)])

    async def test_of_many_comes_in_steps(self, net: Network) -> None:
        session = await net.session("40")
        for place in range(50, 57):
            await net.bind(session, str(place), idle=HOUR)
        await net.bind(session, "60")
        net.clock.pass_by(3601)
        assert [await net.sweep(3) for _ in range(4)] == [3, 3, 1, 0]
        assert len(await net.active()) == 1

    async def test_of_another_account_is_its_own_affair(self, net: Network) -> None:
        made = await net.bind(await net.session("40"), idle=HOUR)
        net.clock.pass_by(3601)
        async with net.database.transaction() as tx:
            assert await net.bindings.sweep(tx, AccountId("901")) == 0
        assert await net.active() == [made.binding_id]


class TestTheArchive:
    async def archived(self, net: Network, **limits: Any) -> BindingId:
        made = await net.bind(await net.session("40"), **limits)
        assert await net.unbind(made.binding_id, EndReason.ARCHIVED) == [made.binding_id]
        assert await net.resolve() is None
        return made.binding_id

    async def test_gives_back_what_was_bound(self, net: Network) -> None:
        binding = await self.archived(net, idle=HOUR)
        stone = await net.read(binding)
        again = await net.reattach()
        assert again is not None
        assert (again.binding_id, again.status, again.end_reason) == (
            binding,
            BindingStatus.ACTIVE,
            None,
        )
        assert (again.bound_at, again.target_session_key) == (
            stone.bound_at,
            stone.target_session_key,
        )
        assert await net.resolve() == again
        # And again, as often as it is put away.
        assert await net.unbind(binding, EndReason.ARCHIVED) == [binding]
        assert await net.reattach() is not None
        assert await net.reattach() is None

    async def test_gives_back_nothing_whose_time_is_over(
        self, net: Network, frozen: list[timedelta]
    ) -> None:
        binding = await self.archived(net, idle=HOUR)
        frozen[0] = HOUR
        assert await net.reattach() is None
        frozen[0] = HOUR - INSTANT
        await net.touch(binding)
        frozen[0] = HOUR
        # To lie in the archive lengthens no life, whatever is said to use it.
        assert await net.reattach() is None
        assert (await net.read(binding)).status is BindingStatus.ENDED

    @pytest.mark.parametrize("reason", [one for one in EndReason if one is not EndReason.ARCHIVED])
    async def test_gives_back_nothing_that_ended_otherwise(
        self, net: Network, reason: EndReason
    ) -> None:
        made = await net.bind(await net.session("40"))
        await net.unbind(made.binding_id, reason)
        assert await net.reattach() is None
        await net.everything_is_sent()
        await net.sweep()
        assert await net.reattach() is None

    async def test_gives_back_nothing_that_another_took_the_place_of(self, net: Network) -> None:
        await self.archived(net)
        newer = await net.bind(await net.session("41"))
        assert await net.reattach() is None
        await net.unbind(newer.binding_id)
        # Neither while people are still to be told of the newer one, nor afterwards.
        assert await net.reattach() is None
        await net.everything_is_sent()
        await net.sweep()
        assert await net.reattach() is None
        assert await net.active() == []

    async def test_gives_back_nothing_where_nothing_was(self, net: Network) -> None:
        assert await net.reattach() is None

    async def test_gives_back_nothing_that_retention_takes_at_this_moment(
        self, net: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        binding = await self.archived(net)
        record = binding_rows.record

        async def too_late(tx: Transaction, *what: Any, **values: Any) -> Any:
            await tx.execute(sa.text("DELETE FROM bindings"))
            return await record(tx, *what, **values)

        monkeypatch.setattr(binding_rows, "record", too_late)
        assert await net.reattach() is None
        assert binding
        assert await net.rows() == []
