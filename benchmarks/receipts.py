"""Where the tiny agents tell when a prompt reached them: a datagram socket in a private folder."""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Receipts(asyncio.DatagramProtocol):
    """The moments (`time.monotonic()`, one clock for the machine) at which prompts were read."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        #: How often each prompt was read, by this agent or that.
        self.count: Counter[str] = Counter()
        self._news = asyncio.Event()

    def datagram_received(self, data: bytes, _address: object) -> None:
        """See asyncio: an agent tells that it has read a prompt."""
        tag, at = data.decode().split()
        self.at[tag] = float(at)
        self.count[tag] += 1
        self._news.set()

    async def wait(self, tags: Iterable[str], seconds: float) -> None:
        """Until every one of these prompts was read; TimeoutError names how many are missing."""
        missing = set(tags)
        try:
            async with asyncio.timeout(seconds):
                while missing := missing - self.at.keys():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            raise TimeoutError(f"{len(missing)} prompts did not arrive in {seconds} s") from error


@contextmanager
def datagrams(path: Path) -> Iterator[socket.socket]:
    """A bound datagram socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.settimeout(0)
        bound.bind(str(path))
        yield bound
