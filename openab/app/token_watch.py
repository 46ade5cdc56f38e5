"""Stops the process when Discord takes the token no longer: asking again makes it worse."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from openab.channels.discord.rest import TokenRefused
from openab.domain.errors import OpenabError

log = structlog.get_logger()
#: A 401 may be about an interaction's own token, so ours is asked for, at most this often.
_REST_SECONDS = 60.0
_UNAUTHORISED = 401


class TokenWatch:
    """Told of each invalid answer; `run` raises TokenRefused when the bot's token is at fault."""

    def __init__(self, rest_seconds: float = _REST_SECONDS) -> None:
        self._rest_seconds = rest_seconds
        self._suspected = asyncio.Event()

    def invalid(self, status: int) -> None:
        """A request was answered 401, 403 or 429; never waits."""
        if status == _UNAUTHORISED:
            self._suspected.set()

    async def run(self, check: Callable[[], Awaitable[None]]) -> None:
        """Ask whenever there is suspicion, until the task is cancelled."""
        while True:
            await self._suspected.wait()
            self._suspected.clear()
            try:
                await check()
            except TokenRefused:
                raise
            except OpenabError as error:
                log.info("token_not_checked", error=str(error))
                self._suspected.set()
            await asyncio.sleep(self._rest_seconds)
