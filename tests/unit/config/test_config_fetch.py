"""A configuration that is fetched."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from openab.config.fetch import FETCH_BYTES, read_source, shown_source
from openab.config.findings import ConfigInvalid


async def _good(_: web.Request) -> web.Response:
    return web.Response(text='[discord]\nbot_token = "é"\n')


async def _missing(_: web.Request) -> web.Response:
    return web.Response(status=404)


async def _great(_: web.Request) -> web.Response:
    return web.Response(body=b"#" * (FETCH_BYTES + 1))


async def _just_fits(_: web.Request) -> web.Response:
    return web.Response(body=b"#" * FETCH_BYTES)


async def _binary(_: web.Request) -> web.Response:
    return web.Response(body=b"\xff\xfe")


async def _silent(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError("nothing sets the event")


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    pages: dict[str, Callable[[web.Request], Awaitable[web.Response]]] = {
        "good": _good, "missing": _missing, "great": _great,
        "fits": _just_fits, "binary": _binary, "silent": _silent,
    }  # fmt: skip
    app = web.Application()
    app.add_routes([web.get(f"/{name}", page) for name, page in pages.items()])
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


async def test_a_page_is_read_as_utf8(address: str) -> None:
    assert 'bot_token = "é"' in await read_source(f"{address}/good")
    assert len(await read_source(f"{address}/fits")) == FETCH_BYTES


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("missing", "answered 404"),
        ("great", "larger than 1 MiB"),
        ("binary", "not UTF-8"),
        ("silent", "gave no answer in 0.2 s"),
    ],
)
async def test_a_page_that_cannot_be_used_says_why(address: str, page: str, said: str) -> None:
    with pytest.raises(ConfigInvalid, match=said):
        await read_source(f"{address}/{page}?token=hidden", seconds=0.2)


async def test_a_refused_connection_says_so_without_the_addresss_secrets(address: str) -> None:
    closed = address.replace("http://", "http://me:hidden@").rpartition(":")[0] + ":1"

    with pytest.raises(ConfigInvalid, match="cannot be fetched") as raised:
        await read_source(f"{closed}/config.toml?token=hidden")

    assert "hidden" not in str(raised.value)


def test_an_address_is_shown_without_login_and_parameters() -> None:
    assert shown_source("https://me:pw@host:1/a/b.toml?token=x") == "https://host/a/b.toml"
    assert shown_source("dir/config.toml") == "dir/config.toml"
