"""Whether the process lives and can work: `/livez`, `/readyz`, `/metrics`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog
from aiohttp import web

log = structlog.stdlib.get_logger(__name__)

#: A probe gives up after about this long, so an answer must come sooner.
CHECKS_SECONDS = 5.0

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Check:
    """What one part says of itself; the reason is for people and needed when it is not ok."""

    ok: bool
    reason: str = ""


#: Asks every part; may raise or hang, which makes the process not ready.
Checks = Callable[[], Awaitable[Mapping[str, Check]]]


async def ask(checks: Checks, seconds: float = CHECKS_SECONDS) -> Mapping[str, Check]:
    """The checks by name; one failed check named `checks` if they fail or take too long."""
    try:
        async with asyncio.timeout(seconds):
            return await checks()
    except Exception as error:  # whoever asks is told, whatever broke
        log.exception("checks_failed")
        return {"checks": Check(ok=False, reason=f"the checks failed: {type(error).__name__}")}


async def livez(_: web.Request) -> web.Response:
    """Answers as soon as the event loop comes round."""
    return web.Response(text="ok\n")


def readyz(checks: Checks) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Every check as JSON; 503 unless all are ok."""

    async def answer(_: web.Request) -> web.Response:
        found = await ask(checks)
        ready = all(check.ok for check in found.values())
        shown = {name: {"ok": check.ok, "reason": check.reason} for name, check in found.items()}
        return web.json_response({"ready": ready, "checks": shown}, status=200 if ready else 503)

    return answer


def metrics(render: Callable[[], bytes]) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The metrics in Prometheus' text form."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=render(), headers={"Content-Type": _METRICS_TYPE})

    return answer
