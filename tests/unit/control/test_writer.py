"""The pace counts a write when it has arrived, and outlives the conversation's owner."""

from openab.control.writer import ConversationWriter
from openab.domain.ids import MessageRef, PlatformId
from openab.domain.outbound import MessageBody
from openab.domain.window import Window
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


def test_a_window_is_empty_when_its_time_has_passed() -> None:
    window = Window()
    assert window.is_empty(0.0)
    window.note(10.0)
    assert (window.is_empty(14.9), window.is_empty(15.0)) == (False, True)
