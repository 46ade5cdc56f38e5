"""Reads the text of a configuration: a file, or a page over HTTPS."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from openab.config.findings import ConfigInvalid, Mistake

#: Seconds for the whole fetch.
FETCH_SECONDS = 10.0
#: The greatest configuration that is fetched.
FETCH_BYTES = 1024 * 1024


def is_remote(source: str) -> bool:
    """Whether the source is fetched rather than opened."""
    return source.lower().startswith(("https://", "http://"))


async def read_source(source: str, *, seconds: float = FETCH_SECONDS) -> str:
    """The text, decoded. Raises ConfigInvalid with what to do about it."""
    if is_remote(source):
        return _decode(await _fetch(source, seconds))
    return await asyncio.to_thread(read_file, source)


def read_file(source: str) -> str:
    """The text of a local file, decoded. Raises ConfigInvalid."""
    scheme, separator, _ = source.partition("://")
    if separator:
        raise _unreadable(f"{scheme}:// is not served", "give a file, or an https:// address")
    return _decode(_read_bytes(source))


def _unreadable(message: str, remedy: str = "") -> ConfigInvalid:
    return ConfigInvalid([Mistake("", None, message, remedy)])


def _read_bytes(source: str) -> bytes:
    try:
        return Path(source).read_bytes()
    except FileNotFoundError:
        raise _unreadable(
            f"there is no file {source}", "make one with `openab setup`, or name it with -c"
        ) from None
    except OSError as error:
        raise _unreadable(f"{source} cannot be read: {error.strerror}") from error


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigInvalid(
            [Mistake("", line, "the file is not UTF-8", "save it as UTF-8")]
        ) from None


def shown_source(source: str) -> str:
    """The source as it may be printed: an address loses its login and its parameters."""
    if not is_remote(source):
        return source
    parts = urlsplit(source)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


async def _fetch(url: str, seconds: float) -> bytes:
    limit = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, trust_env=True) as session,
            session.get(url) as answer,
        ):
            return await _body(url, answer)
    except TimeoutError:
        raise _unreadable(f"{shown_source(url)} gave no answer in {seconds:g} s") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise _unreadable(
            f"{shown_source(url)} cannot be fetched: {type(error).__name__}"
        ) from error


async def _body(url: str, answer: aiohttp.ClientResponse) -> bytes:
    if not 200 <= answer.status < 300:
        raise _unreadable(
            f"{shown_source(url)} answered {answer.status}", "look at it in a browser"
        )
    if url.lower().startswith("https://") and answer.url.scheme != "https":
        raise _unreadable(
            f"{shown_source(url)} leads to plain HTTP", "give the address it leads to"
        )
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > FETCH_BYTES:
            raise _unreadable(f"{shown_source(url)} is larger than 1 MiB")
    return bytes(body)
