"""A hand-off that may have left already: it is never written anew, whatever comes after."""

import pytest

from openab.domain.delivery import DeliveryState
from openab.domain.handoff import HandoffState, sent_in
from openab.ports.channel import ChannelBusy, ChannelRejected, DeliveryUnknown, Refusal
from openab.storage.engine import Database
from tests.conformance.test_control_handoff_sending import CREATE, Sender, is_envelope


@pytest.fixture
async def doubting(database: Database) -> Sender:
    """A sender whose first try came to nothing, but nobody knows that."""
    made = Sender(database)
    await made.take()
    made.channel.fail(CREATE, DeliveryUnknown("502"), when=is_envelope)
    await made.hand()
    await made.run()
    assert (await made.carrier()).state is DeliveryState.UNKNOWN
    return made


async def test_its_target_is_not_brought_there_again_by_the_next_owner(doubting: Sender) -> None:
    """Refused, that would settle nothing, and be asked for again at once."""
    turn = (await doubting.handoff()).turn
    await doubting.take()
    assert (await doubting.handoff()).turn == turn
    doubting.channel.fail(
        "add_thread_member", ChannelRejected(Refusal.FORBIDDEN, "Missing Access", 50001), times=1000
    )
    await doubting.run_later(5)
    assert len(doubting.posted) == 1
    assert (await doubting.handoff()).state is HandoffState.SENT


async def test_a_limit_after_history_has_told_that_it_is_not_there_gives_it_no_new_expiry(
    doubting: Sender,
) -> None:
    first = sent_in((await doubting.carrier()).body.content)
    doubting.channel.fail(CREATE, ChannelBusy("429", 5.0), when=is_envelope)
    await doubting.run_later(130)
    await doubting.run_later(6)
    (posted,) = doubting.posted
    assert sent_in(posted.body.content) == first
    assert (await doubting.carrier()).version == 1
