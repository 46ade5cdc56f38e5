"""An address to serve on, and which names of it are ours."""

import ipaddress
import re
from dataclasses import dataclass

_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_WRITTEN = re.compile(r"(?P<host>\[[^\]]+\]|[^:\s]*):(?P<port>\d{1,5})", re.ASCII)
_EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Listen:
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Listen":
        """Read `host:port`, `[v6]:port` or `:port`, which is everywhere; ValueError: it is none of them."""
        found = _WRITTEN.fullmatch(text.strip())
        if not found or int(found["port"]) > 65535:
            raise ValueError(f"{text!r} is no address with a port")
        return cls(found["host"].strip("[]") or _EVERYWHERE, int(found["port"]))

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


def _has_port(header: str) -> bool:
    return not header.endswith("]") and header.rpartition(":")[2].isdigit()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
