"""Small kindnesses that no row stands for: 🚫 on the message of somebody who may not use the bot."""

import asyncio
from datetime import timedelta

import structlog

from openab.domain.errors import OpenabError
from openab.domain.ids import MessageRef
from openab.ports.channel import Channel

log = structlog.get_logger()
REFUSED = "🚫"
#: More than this many at once is a flood, and nobody is owed the reaction.
_WAITING = 100


class Courtesies:
    """Made once, one after the other; one that fails is logged and forgotten."""

    def __init__(self, channel: Channel, call: timedelta, *, is_on: bool = True) -> None:
        """Where reactions are off, a stranger gets none either."""
        self._channel = channel
        self._is_on = is_on
        self._seconds = call.total_seconds()
        self._queue: asyncio.Queue[MessageRef] = asyncio.Queue(maxsize=_WAITING)

    def refuse(self, message: MessageRef) -> None:
        """Tell the message's author that they may not; never waits."""
        if not self._is_on:
            return
        if self._queue.full():
            log.warning("refusals_flooded", waiting=self._queue.qsize())
            return
        self._queue.put_nowait(message)

    async def run(self) -> None:
        """React until the task is cancelled."""
        while True:
            message = await self._queue.get()
            try:
                await self._channel.add_reaction(message, REFUSED, self._seconds)
            except OpenabError as error:
                log.info("refusal_not_shown", message_id=message.message_id, error=str(error))
