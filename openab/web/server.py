"""The HTTP listener of `[http]`: finds its port, serves health, metrics and the status page."""

import errno
from collections.abc import Callable, Iterator

import structlog
from aiohttp import web

from openab.domain.errors import Rejected
from openab.domain.listen import Listen
from openab.web import health, status
from openab.web.guard import guarding
from openab.web.health import Checks
from openab.web.status import Turns

log = structlog.stdlib.get_logger(__name__)

# One machine rarely runs more brokers with default settings than this.
_PORTS_TRIED = 50
_STOP_SECONDS = 1.0


class CannotListen(Rejected):
    """The configured address cannot be listened on; the message says why."""


class PortTaken(CannotListen):
    """Somebody else listens on the port."""


class WebServer:
    """Serves the pages from what it is given; it decides and changes nothing.

    A taken port is an error if it was configured. If it is the default, the next free one is taken
    and `http_port_taken` is logged. Without a `token` only health is served off loopback.
    """

    def __init__(
        self,
        listen: Listen,
        *,
        is_default: bool,
        checks: Checks,
        metrics: Callable[[], bytes],
        turns: Turns,
        token: str | None = None,
    ) -> None:
        self._listen = listen
        self._is_default = is_default
        app = web.Application(middlewares=[guarding(self._listen, token)])
        app.router.add_get("/livez", health.livez)
        app.router.add_get("/readyz", health.readyz(checks))
        app.router.add_get("/metrics", health.metrics(metrics))
        app.router.add_get("/", status.page(checks, turns))
        self._app = app
        self._runner: web.AppRunner | None = None
        self._bound = ""

    async def start(self) -> str:
        """Listen, and give the `host:port` that was bound. Raises CannotListen; repeatable."""
        if self._runner is not None:
            return self._bound
        runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        try:
            self._bound = str(await self._bind(runner))
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        log.info("http_listening", address=self._bound)
        return self._bound

    async def stop(self) -> None:
        """Stop listening and end open requests soon. Repeatable."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _bind(self, runner: web.AppRunner) -> Listen:
        for candidate in self._candidates():
            try:
                await web.TCPSite(runner, candidate.host, candidate.port).start()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise CannotListen(f"cannot listen on {candidate}: {error}") from error
                continue
            return self._told(candidate.on(runner.addresses[0][1]))
        raise PortTaken(f"cannot listen on {self._listen}: another program has the port")

    def _candidates(self) -> Iterator[Listen]:
        first = self._listen.port
        count = _PORTS_TRIED if self._is_default else 1
        return (self._listen.on(port) for port in range(first, min(first + count, 65536)))

    def _told(self, bound: Listen) -> Listen:
        if self._listen.port not in {0, bound.port}:
            log.warning("http_port_taken", wanted=str(self._listen), listening_on=str(bound))
        return bound
