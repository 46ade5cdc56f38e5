"""No test reaches beyond this machine: sockets and name look-ups elsewhere are refused, and told."""

import ipaddress
import os
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tests.postgres_server import URL_VARIABLE

#: What was refused in the test that runs now; code under test may have swallowed the error.
refused: list[str] = []


class NetworkForbidden(OSError):
    """A test tried to leave the machine."""


def permits(host: object) -> bool:
    """Whether a test may talk to `host` or be heard on it."""
    if not isinstance(host, str):
        return host is None
    if host in {"localhost", _postgres_host()}:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def install() -> None:
    """Put the guard around Python's sockets, for the rest of this process."""
    for name in ("connect", "connect_ex", "bind"):
        setattr(socket.socket, name, _guarded_call(getattr(socket.socket, name), name))
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        _check(name, "look-up")
        return look_up(host, *args, **kwargs)

    socket.getaddrinfo = getaddrinfo


def _guarded_call(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(self: socket.socket, address: Any, *args: Any) -> Any:
        if self.family in {socket.AF_INET, socket.AF_INET6}:
            _check(address[0], name)
        return original(self, address, *args)

    return call


def _check(host: object, what: str) -> None:
    if not permits(host):
        refused.append(f"{what} {host!r}")
        raise NetworkForbidden(f"{what} {host!r}: tests stay on the loopback interface")


def _postgres_host() -> str | None:
    given = os.environ.get(URL_VARIABLE)
    return urlsplit(given).hostname if given else None
