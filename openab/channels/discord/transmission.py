"""Follows one HTTP request from the wire's side: whether bytes left, what came back, and that it was one.

discord.py repeats a request inside itself, and a refusal of the second try would hide that the
first was carried out. So an aiohttp trace watches each call, and ends what would be a second one.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace

import aiohttp

_TOO_MANY = 429
_SERVER_ERRORS = 500


class TryEnded(Exception):
    """Ends a request inside the libraries. No OSError and no discord.py error, so that neither repeats it."""


def _future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Try:
    """One call's only HTTP request, as the trace saw it."""

    permit: Callable[[], bool] | None = None
    #: The request's head is on its way: from here on it may be carried out.
    left: bool = False
    #: The permit was asked right before the head, and said no.
    refused: bool = False
    #: Nobody waits any more: no byte may leave from now on.
    closed: bool = False
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    #: Done as soon as status and body are known.
    answered: "asyncio.Future[None]" = field(default_factory=_future)


#: The call that the running task makes; None for requests that are not ours to follow.
current_try: ContextVar[Try | None] = ContextVar("discord_try", default=None)


def trace() -> aiohttp.TraceConfig:
    """The trace that a `discord.http.HTTPClient` needs for `current_try` to be followed."""
    config = aiohttp.TraceConfig()
    # aiohttp calls this before it writes the head, so raising here keeps every byte at home.
    config.on_request_headers_sent.append(_before_bytes_leave)
    config.on_request_end.append(_answer_came)
    return config


async def _before_bytes_leave(
    _session: aiohttp.ClientSession,
    _context: SimpleNamespace,
    _params: aiohttp.TraceRequestHeadersSentParams,
) -> None:
    request = current_try.get()
    if request is None:
        return
    if request.left or request.closed:
        raise TryEnded("one request a call")
    if request.permit is not None and not request.permit():
        request.refused = True
        raise TryEnded("not permitted any more")
    request.left = True


async def _answer_came(
    _session: aiohttp.ClientSession,
    _context: SimpleNamespace,
    params: aiohttp.TraceRequestEndParams,
) -> None:
    request = current_try.get()
    if request is None:
        return
    request.status = params.response.status
    request.headers = params.response.headers
    request.body = await params.response.read()
    request.answered.set_result(None)
    if request.status == _TOO_MANY or request.status >= _SERVER_ERRORS:
        # discord.py would sleep and repeat; and a cancelled global sleep blocks it for ever.
        raise TryEnded("the answer is in")
