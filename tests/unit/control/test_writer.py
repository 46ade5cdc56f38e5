"""The pace counts a write when it has arrived, and outlives the conversation's owner."""

import asyncio

from openab.control.writer import ConversationWriter
from openab.domain.ids import MessageRef, PlatformId
from openab.domain.outbound import MessageBody
from openab.domain.window import Window
from openab.ports.tasks import spawn
from openab.ports.writer import EditOutcome
from tests.fakes.channel import RecordingChannel

REF = MessageRef(PlatformId("500"), PlatformId("1"))


class Clock:
    """Moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_write_counts_from_its_end() -> None:
    clock, window = Clock(), Window()
    writer = ConversationWriter(RecordingChannel(account="900"), 1.0, clock, window=window)
    for _ in range(5):
        async with writer.sending():
            clock.now += 0.5
    # The first arrived at some moment up to 100.5; a sixth before 105.5 might be one too many.
    assert window.free_at() == 105.5


async def test_the_next_owner_goes_on_with_what_was_written() -> None:
    clock, window = Clock(), Window()
    former = ConversationWriter(RecordingChannel(account="900"), 1.0, clock, window=window)
    for _ in range(3):
        async with former.sending():
            clock.now += 0.1
    following = ConversationWriter(RecordingChannel(account="900"), 1.0, clock, window=window)
    await following.edit(REF, MessageBody("live"))
    # With the edit four were written; the fifth place is spared for a send.
    assert window.free_at(spare=1) > clock.now


async def test_an_edit_that_waits_for_the_pace_can_be_given_up() -> None:
    channel, clock, window = RecordingChannel(account="900"), Clock(), Window()
    writer = ConversationWriter(channel, 1.0, clock, window=window)
    for _ in range(5):
        window.note(clock.now)
    given_up = asyncio.Event()
    waiting = spawn("edit", writer.edit(REF, MessageBody("live"), given_up))
    await asyncio.sleep(0)
    assert not waiting.done()
    given_up.set()
    assert await waiting is EditOutcome.REPLACED
    assert channel.calls == []


def test_a_window_is_empty_when_its_time_has_passed() -> None:
    window = Window()
    assert window.is_empty(0.0)
    window.note(10.0)
    assert (window.is_empty(14.9), window.is_empty(15.0)) == (False, True)
