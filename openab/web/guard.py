"""Who may read what: foreign `Host` headers are refused, and off loopback all but health needs a token."""

import hmac

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from openab.domain.listen import Listen

_HEALTH = frozenset({"/livez", "/readyz"})
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def guarding(listen: Listen, token: str | None) -> Middleware:
    """The middleware that refuses, and that adds the protective headers to every answer."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = _refusal(request, listen, token) or await _answered(request, handler)
        response.headers.update(_HEADERS)
        return response

    return guard


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as refused:
        refused.headers.update(_HEADERS)
        raise


def _refusal(request: web.Request, listen: Listen, token: str | None) -> web.Response | None:
    # `request.host` would make one up where there is none.
    if not listen.knows(request.headers.get(hdrs.HOST, "")):
        return web.Response(status=421, text="This is not the host that you asked for.\n")
    if listen.is_loopback or request.path in _HEALTH or _has_token(request, token):
        return None
    challenge = {"WWW-Authenticate": "Bearer"}
    return web.Response(status=401, text="Only health is open here.\n", headers=challenge)


def _has_token(request: web.Request, token: str | None) -> bool:
    if not token:
        return False
    given = request.headers.get(hdrs.AUTHORIZATION, "")
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), f"Bearer {token}".encode())
