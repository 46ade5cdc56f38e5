"""The HTTP listener over real sockets: what it shows, to whom, and on which port."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest
from structlog.testing import capture_logs

from openab.domain.listen import Listen
from openab.observability.metrics import Metrics
from openab.web import health
from openab.web.health import Check
from openab.web.server import CannotListen, PortTaken, WebServer


class Broker:
    """What the pages show; a test changes it."""

    def __init__(self) -> None:
        self.checks: Mapping[str, Check] = {"database": Check(ok=True)}
        self.turns: Sequence[Mapping[str, object]] = []
        self.error: Exception | None = None

    async def ask(self) -> Mapping[str, Check]:
        if self.error:
            raise self.error
        return self.checks

    async def live(self) -> Sequence[Mapping[str, object]]:
        if self.error:
            raise self.error
        return self.turns

    def server(
        self, listen: str = "127.0.0.1:0", *, is_default: bool = False, token: str | None = None
    ) -> WebServer:
        return WebServer(
            Listen.parse(listen),
            is_default=is_default,
            checks=self.ask,
            metrics=Metrics().render,
            turns=self.live,
            token=token,
        )


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


@asynccontextmanager
async def started(server: WebServer) -> AsyncIterator[str]:
    address = await server.start()
    try:
        yield f"http://{address}"
    finally:
        await server.stop()


@pytest.fixture
async def site(broker: Broker) -> AsyncIterator[str]:
    async with started(broker.server()) as address:
        yield address


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


async def test_livez_answers(site: str, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{site}/livez") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_readyz_names_every_check(
    site: str, broker: Broker, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{site}/readyz") as answer:
        assert answer.status == 200
        assert await answer.json() == {
            "ready": True,
            "checks": {"database": {"ok": True, "reason": ""}},
        }
    broker.checks = {**broker.checks, "gateway": Check(ok=False, reason="no frame for 90 s")}
    async with http.get(f"{site}/readyz") as answer:
        assert answer.status == 503
        body = await answer.json()
    assert body["ready"] is False
    assert body["checks"]["gateway"] == {"ok": False, "reason": "no frame for 90 s"}


async def test_checks_that_break_are_not_ready(
    site: str, broker: Broker, http: aiohttp.ClientSession
) -> None:
    broker.error = ConnectionError("database gone")
    with capture_logs() as told:
        async with http.get(f"{site}/readyz") as answer:
            assert answer.status == 503
            body = await answer.json()
    assert body["checks"] == {
        "checks": {"ok": False, "reason": "the checks failed: ConnectionError"}
    }
    assert [line["event"] for line in told] == ["checks_failed"]


async def test_checks_that_hang_are_not_ready() -> None:
    async def hang() -> Mapping[str, Check]:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    with capture_logs():
        found = await health.ask(hang, seconds=0.01)
    assert found == {"checks": Check(ok=False, reason="the checks failed: TimeoutError")}


async def test_metrics_are_in_prometheus_form(site: str, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{site}/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "openab_turns_started_total 0.0" in await answer.text()


async def test_the_page_shows_checks_and_turns_escaped(
    site: str, broker: Broker, http: aiohttp.ClientSession
) -> None:
    async with http.get(site) as answer:
        assert "<p>None.</p>" in await answer.text()
    broker.checks = {"gateway": Check(ok=False, reason="<b>")}
    broker.turns = [{"turn": "t1", "asked by": "<script>alert(1)</script>"}, {"turn": "t2"}]
    async with http.get(site) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        shown = await answer.text()
    assert "t1" in shown
    assert "t2" in shown
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "<b>" not in shown


async def test_the_page_survives_a_lost_database(
    site: str, broker: Broker, http: aiohttp.ClientSession
) -> None:
    broker.error = ConnectionError("gone")
    with capture_logs() as told:
        async with http.get(site) as answer:
            assert answer.status == 200
            assert "could not be read" in await answer.text()
    assert {line["event"] for line in told} == {"checks_failed", "live_turns_failed"}


async def test_nothing_is_written_and_strangers_are_not_found(
    site: str, http: aiohttp.ClientSession
) -> None:
    async with http.post(f"{site}/") as answer:
        assert answer.status == 405
    async with http.get(f"{site}/../etc/passwd") as answer:
        assert answer.status == 404
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/livez", "/readyz", "/metrics", "/none"])
async def test_foreign_hosts_are_refused(site: str, path: str, http: aiohttp.ClientSession) -> None:
    for host in ("evil.example", "evil.example:8787", "localhost.evil.example", "10.0.0.1", ""):
        async with http.get(f"{site}{path}", headers={"Host": host}) as answer:
            assert answer.status == 421, host
            assert "ready" not in await answer.text()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]", "[::1]:9"])
async def test_our_own_names_are_known(site: str, host: str, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{site}/livez", headers={"Host": host}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("listen", "host", "known"),
    [
        ("10.1.2.3:80", "10.1.2.3:80", True),
        ("10.1.2.3:80", "10.1.2.4", False),
        ("0.0.0.0:80", "10.9.9.9:80", True),
        ("[::]:80", "[fd00::1]:80", True),
        ("0.0.0.0:80", "evil.example", False),
        ("box.lan:80", "BOX.lan", True),
        ("box.lan:80", "other.lan", False),
    ],
)
def test_hosts_of_other_addresses(listen: str, host: str, known: bool) -> None:
    assert Listen.parse(listen).knows(host) is known


@pytest.fixture
def off_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests stay on loopback, so the listener only believes that it is reachable from elsewhere.
    monkeypatch.setattr(Listen, "is_loopback", property(lambda self: False))


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("192.168.1.1:1", False),
        ("box.lan:1", False),
    ],
)
def test_what_counts_as_loopback(listen: str, expected: bool) -> None:
    assert Listen.parse(listen).is_loopback is expected


async def test_off_loopback_only_health_is_open(
    off_loopback: None, broker: Broker, http: aiohttp.ClientSession
) -> None:
    async with started(broker.server()) as site:
        seen = {}
        for path in ("/livez", "/readyz", "/metrics", "/"):
            async with http.get(site + path, headers={"Authorization": "Bearer "}) as answer:
                seen[path] = answer.status
    assert seen == {"/livez": 200, "/readyz": 200, "/metrics": 401, "/": 401}


async def test_off_loopback_a_token_opens_the_rest(
    off_loopback: None, broker: Broker, http: aiohttp.ClientSession
) -> None:
    async with started(broker.server(token="open-sesame")) as site:
        for given, status in (("Bearer open-sesame", 200), ("Bearer other", 401), ("", 401)):
            async with http.get(f"{site}/", headers={"Authorization": given}) as answer:
                assert answer.status == status


async def test_a_taken_default_port_gives_the_next_free_one(
    broker: Broker, taken: int, http: aiohttp.ClientSession
) -> None:
    server = broker.server(f"127.0.0.1:{taken}", is_default=True)
    with capture_logs() as told:
        address = await server.start()
    port = int(address.rpartition(":")[2])
    assert taken < port < taken + 50
    warned = [line for line in told if line["event"] == "http_port_taken"]
    assert warned == [
        {
            "event": "http_port_taken",
            "log_level": "warning",
            "wanted": f"127.0.0.1:{taken}",
            "listening_on": address,
        }
    ]
    async with http.get(f"http://{address}/livez") as answer:
        assert answer.status == 200
    await server.stop()


async def test_a_taken_configured_port_is_an_error(broker: Broker, taken: int) -> None:
    with pytest.raises(PortTaken, match=f"127.0.0.1:{taken}"):
        await broker.server(f"127.0.0.1:{taken}").start()


async def test_an_impossible_address_is_an_error(broker: Broker) -> None:
    with pytest.raises(CannotListen, match="cannot listen on"):
        await broker.server("127.0.0.1%nowhere:1").start()


@pytest.mark.parametrize("listen", ["", "8787", "localhost:", "localhost:http", "h:65536", "h:٣"])
def test_no_address_is_said(listen: str) -> None:
    with pytest.raises(ValueError, match="is no address with a port"):
        Listen.parse(listen)


async def test_start_and_stop_are_repeatable(broker: Broker) -> None:
    server = broker.server()
    await server.stop()
    assert await server.start() == await server.start()
    await server.stop()
    await server.stop()
