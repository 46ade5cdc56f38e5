"""The tester's count of a bot's window: what was taken late counts from then."""

import pytest

from openab.cli.conformance.bench import WINDOW_SECONDS, Bench, Pace, Sent, Tried
from openab.cli.conformance.envelopes import envelope
from openab.cli.conformance.rest import Rest
from openab.cli.conformance.sightings import ACCEPTED, REFUSED, Watch

TESTER, TARGET, THREAD, CHANNEL = "1", "2", "3", "4"
MESSAGE = "100"


class _Room:
    """A bench whose minutes take no time, with one hand-off that was sent at its beginning."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watch = Watch(TARGET, lambda: self.now)
        pace = Pace(lambda: self.now, self._wait, lambda: self.now)
        # Nothing is posted here.
        rest = Rest.__new__(Rest)
        self.bench = Bench(
            rest, self.watch, TESTER, TARGET, CHANNEL, pace, patience=1.0, tell=lambda _told: None
        )
        self.sent = Sent(envelope(self.bench.setting(THREAD)), MESSAGE, THREAD, at=0.0)
        self.bench.accepted.append(Tried(self.sent, lambda: ""))

    async def _wait(self, seconds: float) -> None:
        self.now += seconds

    def receipt(self, at: float, emoji: str) -> None:
        self.now = at
        told = {"user_id": TARGET, "message_id": MESSAGE, "emoji": {"name": emoji}}
        self.watch.take("MESSAGE_REACTION_ADD", told)

    def answer(self, at: float) -> None:
        self.now = at
        said = f"heard {self.sent.draft.probe} {'0' * 64}"
        body = {"id": "200", "channel_id": THREAD, "author": {"id": TARGET}, "content": said}
        self.watch.take("MESSAGE_CREATE", body)


async def test_an_empty_window_is_a_minute_after_the_last_was_sent() -> None:
    room = _Room()
    await room.bench.empty_window()
    assert room.now == pytest.approx(WINDOW_SECONDS)


@pytest.mark.parametrize("receipt", [None, ACCEPTED])
async def test_it_is_later_where_the_bot_took_its_time(receipt: str | None) -> None:
    room = _Room()
    if receipt:
        room.receipt(5.0, receipt)
    room.answer(20.0 if receipt else 5.0)
    await room.bench.empty_window()
    assert room.now == pytest.approx(5.0 + WINDOW_SECONDS)


async def test_a_refusal_and_a_repeated_sign_make_it_no_later() -> None:
    room = _Room()
    room.receipt(5.0, ACCEPTED)
    room.receipt(8.0, REFUSED)
    room.receipt(9.0, ACCEPTED)
    await room.bench.empty_window()
    assert room.now == pytest.approx(5.0 + WINDOW_SECONDS)
