"""Discord over HTTP for one account: one request a call, within its deadline, with one of three outcomes."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import discord
from discord.http import HTTPClient, Route

from openab.channels.discord import addressing
from openab.channels.discord.embargo import EVERYTHING, Embargo, told
from openab.channels.discord.refusals import is_refusal, translate
from openab.channels.discord.transmission import Try, TryEnded, current_try, trace
from openab.domain.errors import OpenabError, Rejected
from openab.domain.ids import AccountId, PlatformId
from openab.ports.channel import (
    ChannelBusy,
    ChannelRejected,
    ChannelUnreachable,
    DeliveryUnknown,
    Refusal,
)
from openab.ports.tasks import spawn

DEFAULT_API_BASE = "https://discord.com/api/v10"
#: discord.py raises instead of sleeping longer than this; it takes no smaller value.
_LONGEST_QUEUE_SECONDS = 30.0
_MESSAGE_CONTENT_FLAGS = (1 << 18) | (1 << 19)
_LOGIN_ROUTE = "GET /users/@me:"
_TOO_MANY = 429
_INVALID = frozenset({401, 403, _TOO_MANY})


class TokenRefused(Rejected):
    """Discord does not accept the token; trying again makes it worse."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the token is."""

    account: AccountId
    name: str
    application_id: PlatformId
    #: The Message Content Intent is switched on in the developer portal.
    message_content: bool


def _unheard(_value: float) -> None:
    """Nobody listens."""


class DiscordRest:
    """Makes requests for one token. `login` first; `close` at the end.

    `on_invalid(status)` is called for each answer that counts to Discord's limit of invalid
    requests, `on_skew(seconds)` with Discord's clock minus ours.
    """

    def __init__(
        self,
        token: str,
        api_base: str = DEFAULT_API_BASE,
        *,
        on_invalid: Callable[[int], None] = _unheard,
        on_skew: Callable[[float], None] = _unheard,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._token = token
        self._api_base = api_base
        self._on_invalid = on_invalid
        self._on_skew = on_skew
        self._clock = clock
        self._wall = wall
        #: Discord's clock minus ours in seconds, as its last answer told; it tells whole seconds.
        self.skew = 0.0
        #: Who the token is, since the last `login`.
        self.identity: Identity | None = None
        self._http: HTTPClient | None = None
        self._embargo = Embargo()
        #: Calls whose outcome is known, but which discord.py's limiter still holds.
        self._lingering: set[asyncio.Task[Any]] = set()

    async def login(self, seconds: float = 10.0) -> Identity:
        """Open the session and verify the token. Raises TokenRefused, or as `call`; may be repeated."""
        await self.close()
        addressing.claim(self._api_base)
        self._http = HTTPClient(
            asyncio.get_running_loop(),
            http_trace=trace(),
            max_ratelimit_timeout=_LONGEST_QUEUE_SECONDS,
        )
        try:
            user = await self._one_try(
                self._http.static_login(self._token), _LOGIN_ROUTE, seconds, None
            )
            self.identity = await self._identity(json.loads(user), seconds)
        except (DeliveryUnknown, KeyError, ValueError) as error:
            raise ChannelUnreachable(f"no usable answer to the login: {error}") from error
        except ChannelRejected as error:
            if error.refusal is Refusal.UNAUTHORIZED:
                raise TokenRefused(str(error)) from error
            raise
        return self.identity

    async def check_token(self, seconds: float = 10.0) -> None:
        """Raise TokenRefused if Discord takes the token no longer; otherwise as `call`."""
        try:
            await self.call(Route("GET", "/users/@me"), seconds=seconds)
        except ChannelRejected as error:
            if error.refusal is Refusal.UNAUTHORIZED:
                raise TokenRefused(str(error)) from error
            raise

    async def close(self) -> None:
        """Close the session; calls under way end as they would with a lost connection. Twice is harmless."""
        http, self._http = self._http, None
        if http is None:
            return
        addressing.release()
        await http.close()
        for task in self._lingering:
            task.cancel()
        if self._lingering:
            await asyncio.wait(self._lingering)

    async def application_allows_content(self, seconds: float = 10.0) -> bool:
        """Whether the Message Content Intent is switched on in the developer portal now."""
        return _allows_content(await self._application(seconds))

    async def call(
        self,
        route: Route,
        *,
        seconds: float,
        json_body: Any = None,
        query: Mapping[str, Any] | None = None,
        permit: Callable[[], bool] | None = None,
    ) -> Any:
        """One request; its parsed answer, or None where none can be parsed.

        Raises as the channel port says. A read is never in doubt: what would be DeliveryUnknown
        is ChannelUnreachable for a GET.
        """
        if self._http is None:
            raise ChannelUnreachable("not logged in to Discord")
        options: dict[str, Any] = {} if json_body is None else {"json": json_body}
        if query:
            options["params"] = query
        key = f"{route.key}:{route.major_parameters}"
        try:
            request = self._http.request(route, **options)
            return _parsed(await self._one_try(request, key, seconds, permit))
        except DeliveryUnknown as error:
            if route.method == "GET":
                raise ChannelUnreachable(str(error)) from error
            raise

    async def _identity(self, user: Mapping[str, Any], seconds: float) -> Identity:
        application = await self._application(seconds)
        return Identity(
            account=AccountId(str(user["id"])),
            name=str(user["username"]),
            application_id=PlatformId(str(application["id"])),
            message_content=_allows_content(application),
        )

    async def _application(self, seconds: float) -> Mapping[str, Any]:
        found = await self.call(Route("GET", "/oauth2/applications/@me"), seconds=seconds)
        if not isinstance(found, Mapping):
            raise ChannelUnreachable("Discord tells nothing readable about the application")
        return found

    async def _one_try(
        self,
        request: Coroutine[Any, Any, Any],
        key: str,
        seconds: float,
        permit: Callable[[], bool] | None,
    ) -> bytes:
        held = self._embargo.remaining(key, self._clock())
        if held > 0:
            request.close()
            raise ChannelBusy("Discord told us to wait", held)
        seen = Try(permit=permit)
        task = _start(request, seen)
        try:
            await asyncio.wait(
                {task, seen.answered}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            seen.closed = True
            self._linger(task, cancel=not seen.answered.done())
        return self._outcome(seen, key, _error_of(task))

    def _linger(self, task: "asyncio.Task[Any]", *, cancel: bool) -> None:
        """Keep the task until discord.py's limiter lets it go: it wakes the calls queued behind it."""
        self._lingering.add(task)
        task.add_done_callback(self._forget)
        if cancel:
            task.cancel()

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._lingering.discard(task)
        if not task.cancelled():
            # Its outcome was taken from the trace; asking keeps asyncio from reporting it as lost.
            task.exception()

    def _outcome(self, seen: Try, key: str, error: BaseException | None) -> bytes:
        if seen.status is None:
            raise _without_answer(seen, error) from error
        self._note(seen)
        if seen.status < 300:
            return seen.body or b""
        parsed = _parsed(seen.body)
        answer = parsed if isinstance(parsed, Mapping) else {}
        if seen.status == _TOO_MANY and not is_refusal(answer):
            raise self._busy(seen, answer, key)
        raise translate(seen.status, answer)

    def _note(self, seen: Try) -> None:
        if seen.status in _INVALID and seen.headers.get("X-RateLimit-Scope") != "shared":
            self._on_invalid(seen.status)
        date = seen.headers.get("Date")
        if date:
            try:
                told_at = parsedate_to_datetime(date).timestamp()
            except ValueError:
                return
            self.skew = told_at - self._wall()
            self._on_skew(self.skew)

    def _busy(self, seen: Try, answer: Mapping[str, Any], key: str) -> ChannelBusy:
        wait, everything = told(seen.headers, answer)
        self._embargo.hold(EVERYTHING if everything else key, self._clock() + wait)
        return ChannelBusy("Discord's rate limit", wait)


def _start(request: Coroutine[Any, Any, Any], seen: Try) -> "asyncio.Task[Any]":
    context = copy_context()
    context.run(current_try.set, seen)
    return context.run(spawn, "discord-request", request)


def _error_of(task: "asyncio.Task[Any]") -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


def _without_answer(seen: Try, error: BaseException | None) -> OpenabError | BaseException:
    """What it means that no status came: bytes left or not is the whole difference."""
    if isinstance(error, discord.RateLimited):
        return ChannelBusy("Discord's rate limit", error.retry_after)
    expected = (TryEnded, aiohttp.ClientError, OSError, TimeoutError, RuntimeError, type(None))
    if not isinstance(error, expected):
        return error
    if seen.left:
        return DeliveryUnknown(f"no answer from Discord ({type(error).__name__})")
    if seen.refused:
        return ChannelUnreachable("not permitted any more, nothing was sent")
    return ChannelUnreachable(f"Discord was not reached ({type(error).__name__})")


def _parsed(body: bytes | None) -> Any:
    try:
        return json.loads(body or b"")
    except ValueError:
        return None


def _allows_content(application: Mapping[str, Any]) -> bool:
    return bool(int(application.get("flags", 0)) & _MESSAGE_CONTENT_FLAGS)
