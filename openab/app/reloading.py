"""A changed configuration file, or SIGHUP: check the whole, apply what may change, keep the old one if broken."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from openab.app.values import Live
from openab.config.fetch import is_remote, read_source
from openab.config.findings import ConfigInvalid
from openab.config.load import check
from openab.config.reload import check_reload, with_live_keys

log = structlog.get_logger()
_LOOK_SECONDS = 2.0


class Reloading:
    """Watches one configuration source."""

    def __init__(
        self, source: str, live: Live, environ: Mapping[str, str], applied: Callable[[], None]
    ) -> None:
        """`applied` is called after values have changed."""
        self._source = source
        self._live = live
        self._environ = environ
        self._applied = applied
        self._asked = asyncio.Event()
        self._stamp = self._stat()

    def ask(self) -> None:
        """Reload at the next occasion (SIGHUP)."""
        self._asked.set()

    async def run(self) -> None:
        """Watch until the task is cancelled."""
        while True:
            if self._asked.is_set() or self._has_changed():
                self._asked.clear()
                await self.reload()
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                continue

    async def reload(self) -> None:
        """Read and check the whole; a broken file changes nothing."""
        try:
            loaded = check(await read_source(self._source), self._environ, self._source)
        except ConfigInvalid as invalid:
            _tell_mistakes(invalid)
            return
        changes = check_reload(self._live.config, loaded.config)
        if not changes.now and not changes.restart:
            # Whoever asked, or mended a broken file, learns that it was read.
            log.info("config_unchanged")
            return
        trusted = self._live.policy().trusted_bots
        self._live.config = with_live_keys(self._live.config, loaded.config)
        log.info("config_reloaded", now=list(changes.now))
        _tell_trust(trusted, self._live.policy().trusted_bots)
        if changes.restart:
            log.warning("config_needs_restart", keys=list(changes.restart))
        self._applied()

    def _has_changed(self) -> bool:
        stamp = self._stat()
        changed, self._stamp = stamp != self._stamp, stamp
        return changed and stamp is not None

    def _stat(self) -> tuple[int, int, int] | None:
        if is_remote(self._source):
            return None
        try:
            found = Path(self._source).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _tell_mistakes(invalid: ConfigInvalid) -> None:
    """The file's mistakes, not the place in our code that found them."""
    for mistake in invalid.mistakes:
        log.error(
            "config_mistake",
            place=str(mistake.path),
            line=mistake.line,
            told=mistake.message,
            remedy=mistake.remedy,
        )
    log.error("config_kept", mistakes=len(invalid.mistakes))


def _tell_trust(before: frozenset[str], after: frozenset[str]) -> None:
    """Who may give this bot work is worth a line of its own."""
    if before != after:
        log.info(
            "trusted_bots_changed", added=sorted(after - before), removed=sorted(before - after)
        )
