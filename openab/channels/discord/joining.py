"""Joins threads that we listen in, since Discord tells a bot's mention only to members of the thread."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from openab.channels.discord.rest import DiscordRest
from openab.channels.discord.threads import join_thread, optional_id
from openab.domain.errors import OpenabError
from openab.domain.ids import AccountId, PlatformId
from openab.ports.channel import ChannelBusy

#: (thread, its parent) → whether we listen there.
Wants = Callable[[PlatformId, PlatformId | None], bool]
_CALL_SECONDS = 10.0
#: Between two joins, so that they take no part of the limits that answers need.
_PAUSE_SECONDS = 0.25
_LONGEST_WAIT = 60.0
#: Waiting at once; of more threads than these the oldest are not joined.
_MOST_WAITING = 200
_MOST_REMEMBERED = 5000

log = structlog.get_logger()


class Joiner:
    """Every active thread that is seen is joined once, one after the other, the newest first."""

    def __init__(
        self,
        rest: DiscordRest,
        account: AccountId,
        wants: Wants,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._rest = rest
        self._account = account
        self._wants = wants
        self._pause_seconds = pause_seconds
        self._waiting: asyncio.Queue[tuple[PlatformId, PlatformId | None]] = asyncio.Queue(
            _MOST_WAITING
        )
        self._seen: OrderedDict[PlatformId, None] = OrderedDict()

    def see(self, threads: Iterable[Any], members: Iterable[Any] = ()) -> None:
        """Raw threads as the gateway tells them; `members` are our memberships. Never waits."""
        joined = {str(one.get("id")) for one in members if isinstance(one, Mapping)}
        raw = [one for one in threads if isinstance(one, Mapping)]
        for thread in sorted(raw, key=lambda one: -int(one["id"])):
            self._see(thread, is_member=str(thread["id"]) in joined)

    def _see(self, raw: Mapping[str, Any], *, is_member: bool) -> None:
        thread = PlatformId(str(raw["id"]))
        if (raw.get("thread_metadata") or {}).get("archived") or thread in self._seen:
            return
        is_member = is_member or raw.get("member") is not None
        if not is_member and str(raw.get("owner_id")) != self._account:
            if self._waiting.full():
                log.warning("threads_not_joined", waiting=self._waiting.qsize())
                return
            self._waiting.put_nowait((thread, optional_id(raw.get("parent_id"))))
        self._remember(thread)

    def _remember(self, thread: PlatformId) -> None:
        self._seen[thread] = None
        while len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)

    async def run(self) -> None:
        """Join what was seen until cancelled; one that fails is logged and left alone."""
        while True:
            thread, parent = await self._waiting.get()
            if not self._wants(thread, parent):
                continue
            wait = await self._join(thread)
            if wait is not None:
                await asyncio.sleep(min(wait, _LONGEST_WAIT))
                await self._join(thread)
            await asyncio.sleep(self._pause_seconds)

    async def _join(self, thread: PlatformId) -> float | None:
        """The seconds after which Discord wants to be asked again, or None."""
        try:
            await join_thread(self._rest, thread, _CALL_SECONDS)
        except ChannelBusy as error:
            return error.retry_after or self._pause_seconds
        except OpenabError as error:
            log.info("thread_not_joined", thread=thread, error=str(error))
        else:
            log.debug("thread_joined", thread=thread)
        return None
