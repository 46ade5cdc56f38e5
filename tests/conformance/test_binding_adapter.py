"""What every chat network's side of the bindings promises: children by anchor, and words that are owed once."""

from dataclasses import replace

import pytest

from openab.domain.binding import BindingCode, BindingRefused, EndReason, Placement, SessionBinding
from openab.domain.ids import ConversationRef
from openab.storage.bindings import farewell_key
from tests.conformance.binding_stage import WITH_CHILDREN, Network

SILENT = {EndReason.ARCHIVED, EndReason.CONVERSATION_GONE}


@pytest.fixture
async def bound(net: Network) -> SessionBinding:
    return await net.bind(await net.session("40"))


@pytest.mark.parametrize("reason", EndReason)
async def test_a_farewell_is_owed_once_or_not_at_all(
    net: Network, bound: SessionBinding, reason: EndReason
) -> None:
    async with net.database.transaction() as tx:
        for _ in range(2):
            await net.adapter.ended(tx, _over(bound, reason))
    is_told = not net.is_silent and reason not in SILENT
    assert await net.owed() == ([farewell_key(bound.binding_id)] if is_told else [])


def _over(binding: SessionBinding, reason: EndReason) -> SessionBinding:
    return replace(binding, end_reason=reason)


async def test_the_first_word_is_owed_once(net: Network, bound: SessionBinding) -> None:
    before = await net.owed("")
    async with net.database.transaction() as tx:
        await net.adapter.begun(tx, bound)
    assert await net.owed("") == before
    assert len(before) == (0 if net.is_silent else 1)


async def test_nothing_is_owed_by_what_was_not_committed(
    net: Network, bound: SessionBinding
) -> None:
    async def end_and_fail() -> None:
        async with net.database.transaction() as tx:
            await net.adapter.ended(tx, _over(bound, EndReason.UNFOCUSED))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await end_and_fail()
    assert await net.owed() == []


@pytest.mark.parametrize("net", WITH_CHILDREN, indirect=True)
class TestChildren:
    @pytest.fixture(autouse=True)
    async def places(self, net: Network) -> None:
        async with net.database.transaction() as tx:
            await net.place(tx, "40")
            await net.place(tx, "60", parent="40")

    async def child(self, net: Network, parent: ConversationRef, anchor: str) -> ConversationRef:
        async with net.database.transaction() as tx:
            return await net.adapter.child_of(tx, parent, "a title", anchor)

    async def test_hang_on_their_anchor(self, net: Network) -> None:
        one, again, other = [
            await self.child(net, net.ref("40"), anchor) for anchor in ("9", "9", "8")
        ]
        assert Placement.CHILD in net.adapter.capabilities.placements
        assert one == again
        assert one != other
        assert (one.channel, one.account) == (net.channel, net.ref("40").account)
        assert one.parent_conversation_id == "40"

    async def test_can_be_none_without_an_anchor_or_below_a_child(self, net: Network) -> None:
        for parent, anchor in ((net.ref("40"), ""), (net.ref("60", parent="40"), "9")):
            with pytest.raises(BindingRefused) as refused:
                await self.child(net, parent, anchor)
            assert refused.value.code is BindingCode.CREATE_FAILED
        assert await net.owed("") == []
