"""Small kindnesses that no row stands for: 🚫 for somebody who may not use the bot, ⛔ for a hand-off."""

import asyncio
from datetime import timedelta

import structlog

from openab.domain.errors import OpenabError, Transient, Unknown
from openab.domain.handoff.receipts import REFUSED as HANDOFF_REFUSED
from openab.domain.ids import MessageRef
from openab.ports.channel import Channel

log = structlog.get_logger()
REFUSED = "🚫"
#: More than this many at once is a flood, and nobody is owed the reaction.
_WAITING = 100
#: The waits between tries, in seconds, where the network does not say how long; no wait is longer than the last.
_RETRIES = (0.3, 1.0, 3.0, 10.0)


class Courtesies:
    """One after the other; one that is refused, or fails too often, is logged and forgotten."""

    def __init__(self, channel: Channel, call: timedelta, *, is_on: bool = True) -> None:
        """Where reactions are off, a stranger gets none either."""
        self._channel = channel
        self._is_on = is_on
        self._seconds = call.total_seconds()
        self._queue: asyncio.Queue[tuple[MessageRef, str]] = asyncio.Queue(maxsize=_WAITING)

    def refuse(self, message: MessageRef) -> None:
        """Tell the message's author that they may not; never waits."""
        if self._is_on:
            self._owe(message, REFUSED)

    def refuse_handoff(self, message: MessageRef) -> None:
        """Tell the sender that it is not accepted; never waits. A receipt is no decoration: always on."""
        self._owe(message, HANDOFF_REFUSED)

    def _owe(self, message: MessageRef, emoji: str) -> None:
        if self._queue.full():
            log.warning("refusals_flooded", waiting=self._queue.qsize())
            return
        self._queue.put_nowait((message, emoji))

    async def run(self) -> None:
        """React until the task is cancelled."""
        while True:
            message, emoji = await self._queue.get()
            try:
                await self._show(message, emoji)
            except OpenabError as error:
                log.info("refusal_not_shown", message_id=message.message_id, error=str(error))

    async def _show(self, message: MessageRef, emoji: str) -> None:
        """Adding it twice is harmless, so a doubt is met as a failure is."""
        for wait in _RETRIES:
            try:
                await self._channel.add_reaction(message, emoji, self._seconds)
            except (Transient, Unknown) as error:
                told = getattr(error, "retry_after", None)
                await asyncio.sleep(min(told or wait, _RETRIES[-1]))
            else:
                return
        await self._channel.add_reaction(message, emoji, self._seconds)
