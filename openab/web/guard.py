"""Who may read what: foreign `Host` headers are refused, and off loopback all but health needs a token."""

import hmac
import ipaddress
from dataclasses import dataclass

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

_HEALTH = frozenset({"/livez", "/readyz"})
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Listen:
    """Where to listen, read from `host:port` or `[v6]:port`; ValueError says what is wrong."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Listen":
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ValueError(f"{text!r} is no address to listen on; write it as 127.0.0.1:8787")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def on(self, port: int) -> "Listen":
        """The same host with another port."""
        return Listen(self.host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        address = _address(self.host)
        return self.host == "localhost" or bool(address and address.is_loopback)

    def knows(self, header: str) -> bool:
        """Whether a `Host` header names us.

        A page of another site can make a browser ask us under a *name* of its own (DNS rebinding),
        never under an address; so on a wildcard, where any address is ours, every address is known.
        """
        host = header.rpartition(":")[0] if _has_port(header) else header
        host = host.removeprefix("[").removesuffix("]").lower()
        ours, theirs = _address(self.host), _address(host)
        if host in _HERE or host == self.host.lower():
            return True
        return theirs is not None and (theirs == ours or bool(ours and ours.is_unspecified))


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


def _has_port(header: str) -> bool:
    return not header.endswith("]") and header.rpartition(":")[2].isdigit()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
