"""Signals of the operating system: stop, stop at once, reload."""

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import structlog

log = structlog.stdlib.get_logger(__name__)

_STOPS = (signal.SIGTERM, signal.SIGINT)
#: A log line as any other, for whoever reads them by program.
_LAST_WORDS = (
    b'{"level": "warning", "event": "second_signal", "told": "second signal, ends at once"}\n'
)


class Signals:
    """While installed: SIGTERM or SIGINT sets `stop`, a second one ends the process at once with
    128 + its number, SIGHUP calls `reload` in the event loop.

    Handlers are the interpreter's, not the loop's, so that the second signal works when the loop hangs.
    """

    def __init__(
        self, reload: Callable[[], None], *, exit_now: Callable[[int], object] = os._exit
    ) -> None:
        self.stop = asyncio.Event()
        self._reload = reload
        self._exit_now = exit_now
        self._asked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Take the signals over. In the main thread, with the loop running; repeatable."""
        if self._before:
            return
        self._loop = asyncio.get_running_loop()
        for number in _STOPS:
            self._before[number] = signal.signal(number, self._on_stop)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_reload)

    def restore(self) -> None:
        """Give the signals back to whoever had them. Repeatable."""
        while self._before:
            number, before = self._before.popitem()
            signal.signal(number, before if before is not None else signal.SIG_DFL)

    def __enter__(self) -> "Signals":
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def _on_stop(self, number: int, _: FrameType | None) -> None:
        if self._asked:
            # Not the logger: this may have interrupted it in the middle of a line.
            os.write(2, _LAST_WORDS)
            self._exit_now(128 + number)
            return
        self._asked = True
        self._in_loop(self._stop_asked, signal.Signals(number).name)

    def _on_reload(self, _: int, __: FrameType | None) -> None:
        self._in_loop(self._reload)

    def _stop_asked(self, name: str) -> None:
        log.info("stop_requested", signal=name)
        self.stop.set()

    def _in_loop(self, callback: Callable[..., None], *args: Any) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)
