"""In the broker under test: tells the laboratory each point that is passed, and dies where it is told to.

A point is a place between two effects, by name. What is said goes through a socket at once, so that
nothing of it is lost with the process.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

#: Given to the broker: the laboratory's socket, and what to do from the start (`POINT N KIND`).
SOCKET_VARIABLE, ORDER_VARIABLE = "OPENAB_LAB_SOCKET", "OPENAB_LAB_ORDER"
KINDS = ("kill", "stop", "cut-discord", "cut-database")
#: Orders for whichever point is passed, and for one that no life was struck at before.
ANY, NEW = "*", "new"
#: Names the folder in which a process claims the point that `NEW` strikes at: a file for each, so that
#: no two processes do, in however many laboratories.
CLAIMS_VARIABLE = "OPENAB_LAB_CLAIMS"
#: So long the database is away after `cut-database`.
AWAY_SECONDS = 1.0


class Tripwire:
    """One process's line to the laboratory; orders are read where a point is passed."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self._lock = threading.Lock()
        self._heard = b""
        self._point, self._left, self._kind = "", 0, ""
        self._away_until = 0.0
        self._claims: Path | None = None
        self._spared: set[str] = set()

    def connect(self, address: str, order: str = "", claims: str = "") -> None:
        """Begin to tell; `order` is the first one, `claims` the folder that `NEW` looks into."""
        self._claims = Path(claims) if claims else None
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.connect(address)
        self._tell(f"born {os.getpid()}")
        if order:
            self._take(order)

    def close(self) -> None:
        """Tell nothing more; a process that ends need not."""
        if self._line:
            self._line.close()
            self._line = None

    @property
    def is_database_away(self) -> bool:
        """Whether the database is to look as if it could not be reached."""
        return time.monotonic() < self._away_until

    def reach(self, point: str) -> None:
        """The process stands at this point now."""
        if self._line is None:
            return
        with self._lock:
            self._listen()
            self._tell(f"passed {point}")
            if not self._is_meant(point):
                return
            self._left -= 1
            if self._left > 0:
                return
            self._point = ""
            self._tell(f"struck {point}")
            self._acts()[self._kind]()

    def _is_meant(self, point: str) -> bool:
        if self._point == NEW:
            return self._is_claimed(point)
        return self._point in {point, ANY}

    def _is_claimed(self, point: str) -> bool:
        """Whether this process is the first of all that wants to be struck there."""
        if point in self._spared or self._claims is None:
            return False
        self._spared.add(point)
        try:
            (self._claims / point).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _acts(self) -> dict[str, Callable[[], None]]:
        return {
            "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "stop": self._stop,
            "cut-discord": self._cut_discord,
            "cut-database": self._cut_database,
        }

    def _stop(self) -> None:
        self._tell("stopped")
        os.kill(os.getpid(), signal.SIGSTOP)

    def _cut_discord(self) -> None:
        """The laboratory cuts it, and then lets this process go on."""
        assert self._line is not None
        self._tell("cut-discord")
        while b"go\n" not in self._heard:
            self._heard += self._line.recv(4096)
        self._heard = self._heard.replace(b"go\n", b"", 1)

    def _cut_database(self) -> None:
        self._away_until = time.monotonic() + AWAY_SECONDS

    def _listen(self) -> None:
        assert self._line is not None
        try:
            self._heard += self._line.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        *orders, self._heard = self._heard.split(b"\n")
        for order in orders:
            self._take(order.decode())

    def _take(self, order: str) -> None:
        self._point, left, self._kind = order.rsplit(" ", 2)
        self._left = int(left)

    def _tell(self, what: str) -> None:
        assert self._line is not None
        self._line.sendall(what.encode() + b"\n")
