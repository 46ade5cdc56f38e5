"""The conversation's one writer: sends go first, one edit is in flight, and the pace is kept."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import structlog

from openab.domain.errors import Transient, Unknown
from openab.domain.ids import MessageRef
from openab.domain.outbound import MessageBody
from openab.domain.window import Window
from openab.ports.channel import Channel, ChannelRejected
from openab.ports.writer import EditOutcome

log = structlog.get_logger()


class ConversationWriter:
    """Implements `LiveWriter` for feeds, and gives the outbox its turn before them."""

    def __init__(
        self,
        channel: Channel,
        call_seconds: float,
        clock: Callable[[], float],
        count: Callable[[EditOutcome], None] = lambda _outcome: None,
        window: Window | None = None,
    ) -> None:
        """`window` outlives this writer: the next owner's goes on with what was written lately."""
        self._channel = channel
        self._call_seconds = call_seconds
        self._clock = clock
        self._count = count
        self._window = window or Window()
        self._busy = asyncio.Lock()
        self._senders = 0
        self._no_sender = asyncio.Event()
        self._no_sender.set()
        self._closed = False

    @asynccontextmanager
    async def sending(self, *, counts: bool = True) -> AsyncIterator[None]:
        """A send's turn: it waits for the edit in flight and for the pace; edits wait for it."""
        self._senders += 1
        self._no_sender.clear()
        try:
            async with self._busy:
                if not counts:
                    yield
                    return
                await self._keep_pace()
                try:
                    yield
                finally:
                    self._note()
        finally:
            self._senders -= 1
            if not self._senders:
                self._no_sender.set()

    async def edit(
        self, ref: MessageRef, body: MessageBody, given_up: asyncio.Event | None = None
    ) -> EditOutcome:
        """Show this body when no send waits and the pace allows; see `LiveWriter`."""
        given_up = given_up or asyncio.Event()
        while self._may_edit(given_up):
            await self._no_sender.wait()
            async with self._busy:
                # A place is spared for a send, so that an answer never waits for its own edits.
                wait = self._window.free_at(spare=1) - self._clock()
                if wait <= 0 and not self._senders and self._may_edit(given_up):
                    try:
                        outcome = await self._try(ref, body)
                    finally:
                        self._note()
                    self._count(outcome)
                    return outcome
            if wait > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await given_up.wait()
        return EditOutcome.REPLACED

    def _may_edit(self, given_up: asyncio.Event) -> bool:
        return not self._closed and not given_up.is_set()

    def close(self) -> None:
        """No edit begins any more."""
        self._closed = True

    async def _keep_pace(self) -> None:
        wait = self._window.free_at() - self._clock()
        if wait > 0:
            await asyncio.sleep(wait)

    def _note(self) -> None:
        """Counted when the call has ended: by then it has arrived, however long it was on its way."""
        self._window.note(self._clock())

    async def _try(self, ref: MessageRef, body: MessageBody) -> EditOutcome:
        try:
            await self._channel.edit_message(ref, body, self._call_seconds)
        except Transient:
            return EditOutcome.LATER
        except Unknown:
            return EditOutcome.UNKNOWN
        except ChannelRejected as error:
            log.info("presentation_failed", refusal=error.refusal.value, message=str(error))
            return EditOutcome.LOST
        return EditOutcome.SHOWN
