"""How a database has been lately: told once in the log, asked by `/readyz`, counted."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from openab.storage.failures import CommitUnknown, DatabaseUnavailable
from openab.storage.trouble import Trouble

log = structlog.get_logger()
#: A full or broken disk lets some writes pass: it is well when none has failed for so long.
_QUIET_SECONDS = 10.0
#: Trouble that lasts is told again so often.
_TELL_SECONDS = 60.0
_MAY_PASS = frozenset({Trouble.FULL, Trouble.BROKEN})


class Health:
    """Of one `Database`; a failure stands until a commit has shown that it is over."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, is_told: bool = True
    ) -> None:
        """`is_told` false: somebody else logs the failures."""
        self._clock = clock
        self._is_told = is_told
        self._since: float | None = None
        self._told_at = 0.0
        self._failed_at = 0.0
        self._error = ""
        self._trouble = Trouble.AWAY
        #: How often something has failed.
        self.failures = 0
        #: Told of every failure.
        self.on_failure: Callable[[Trouble], None] = lambda _trouble: None

    @property
    def reason(self) -> str | None:
        """What is wrong and what to do about it; None: nothing."""
        return None if self._since is None else f"{self._error}; {self._trouble.remedy}"

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what goes wrong inside."""
        try:
            yield
        except DatabaseUnavailable as error:
            self.failed(error.trouble, str(error))
            raise
        except CommitUnknown as error:
            self.failed(Trouble.AWAY, str(error))
            raise

    def failed(self, trouble: Trouble, error: str) -> None:
        """Something was not done."""
        now = self._clock()
        self.failures += 1
        if self._since is None:
            self._since, self._told_at = now, now - _TELL_SECONDS
        self._trouble, self._error, self._failed_at = trouble, error, now
        self.on_failure(trouble)
        if self._is_told and now - self._told_at >= _TELL_SECONDS:
            self._told_at = now
            seconds = round(now - self._since, 1)
            log.error(
                "database_trouble",
                kind=trouble.value,
                error=error,
                remedy=trouble.remedy,
                seconds=seconds,
            )

    def committed(self, failures: int) -> None:
        """Something was written for good that began when `failures` were known.

        What began before the last failure says nothing of what the database does now.
        """
        if self._since is None or failures < self.failures:
            return
        now = self._clock()
        if self._trouble in _MAY_PASS and now - self._failed_at < _QUIET_SECONDS:
            return
        if self._is_told:
            log.info("database_well_again", seconds=round(now - self._since, 1))
        self._since = None
