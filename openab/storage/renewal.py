"""Renews all leases of a process from a thread of its own, which a busy main loop cannot starve."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import sqlalchemy as sa
import structlog

from openab.domain.errors import OpenabError
from openab.domain.ids import ConversationId, WorkerId
from openab.storage.dialect import clock
from openab.storage.engine import Database
from openab.storage.health import Health
from openab.storage.schema import conversations

log = structlog.get_logger()
#: After a failure the next try comes sooner than the next round would.
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Renewal:
    """What one round brought."""

    #: `time.monotonic()` before the database was asked: from then on the lease counts.
    asked_at: float
    #: The renewed leases with their epochs. One that is missing has been lost, or its row was in
    #: use at that moment; the next transaction of its owner tells which.
    epochs: Mapping[ConversationId, int] = field(default_factory=dict)
    #: Why nothing is known to be renewed.
    failure: Exception | None = None


class LeaseRenewal:
    """A thread with a loop and a connection of its own; `start` it once, `stop` it once.

    `on_result` is called in that thread after every round, so it must be thread-safe
    (`loop.call_soon_threadsafe`). A lease that has ended is never renewed.
    """

    def __init__(
        self,
        url: str,
        worker: WorkerId,
        lease_seconds: float,
        every_seconds: float,
        on_result: Callable[[Renewal], None],
        *,
        offset: Callable[[], timedelta] | None = None,
    ) -> None:
        self._url = url
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._every_seconds = every_seconds
        self._on_result = on_result
        self._offset = offset or timedelta
        self._valid: dict[tuple[ConversationId, int], float] = {}
        self._database: Database | None = None
        self._is_failing = False
        self._cancel: Callable[[], object] = lambda: None
        self._is_running = threading.Event()
        # A daemon: a database that hangs must not keep a stopped process alive.
        self._thread = threading.Thread(target=self._run, name="lease renewal", daemon=True)

    def start(self) -> None:
        """Begin with the first round at once."""
        self._thread.start()
        self._is_running.wait()

    def stop(self, deadline_seconds: float) -> bool:
        """End it; False: it was still in a call to the database after `deadline_seconds`.

        Blocks, so a loop calls it through `asyncio.to_thread`.
        """
        self._cancel()
        self._thread.join(deadline_seconds)
        return not self._thread.is_alive()

    def valid_until(self, conversation: ConversationId, epoch: int) -> float | None:
        """Until which `time.monotonic()` this lease holds for sure; None: it was never renewed here."""
        return self._valid.get((conversation, epoch))

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            try:
                runner.run(self._main())
            except asyncio.CancelledError:
                log.debug("lease_renewal_ended")

    async def _main(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: None if loop.is_closed() else loop.call_soon_threadsafe(task.cancel)
        self._is_running.set()
        try:
            while True:
                await self._round_and_rest()
        finally:
            if self._database is not None:
                await self._database.close()

    async def _round_and_rest(self) -> None:
        asked_at = time.monotonic()
        try:
            renewal = Renewal(asked_at, await self._renew())
        except OpenabError as error:
            renewal = Renewal(asked_at, failure=error)
            tell = log.debug if self._is_failing else log.warning
            tell("lease_renewal_failed", worker=self._worker, error=str(error))
        except Exception as error:
            # A bug must not end the thread unseen.
            renewal = Renewal(asked_at, failure=error)
            log.exception("lease_renewal_failed", worker=self._worker)
        self._is_failing = renewal.failure is not None
        self._remember(renewal)
        self._tell(renewal)
        wait = min(self._every_seconds, _RETRY_SECONDS) if renewal.failure else self._every_seconds
        await asyncio.sleep(asked_at + wait - time.monotonic())

    async def _renew(self) -> dict[ConversationId, int]:
        database = self._database
        if database is None:
            database = self._database = await Database.open(self._url, health=Health(is_told=False))
        async with database.transaction() as tx:
            rows = await tx.execute(self._statement(database.dialect))
        return {ConversationId(row.id): row.epoch for row in rows}

    def _statement(self, dialect: str) -> sa.UpdateBase:
        now = clock(dialect) + _micros(self._offset())
        # A row that its owner is writing to would hold up all the others, or deadlock with it;
        # nobody can take it meanwhile, and the next round is near.
        mine = (
            sa.select(conversations.c.id)
            .where(conversations.c.lease_owner == self._worker, conversations.c.lease_until > now)
            .with_for_update(skip_locked=True)
        )
        until = now + _micros(timedelta(seconds=self._lease_seconds))
        return (
            sa.update(conversations)
            .where(
                conversations.c.id.in_(mine),
                conversations.c.lease_owner == self._worker,
                conversations.c.lease_until > now,
            )
            .values(lease_until=until)
            .returning(conversations.c.id, conversations.c.epoch)
        )

    def _remember(self, renewal: Renewal) -> None:
        until = renewal.asked_at + self._lease_seconds
        kept = {lease: end for lease, end in self._valid.items() if end > renewal.asked_at}
        # Replaced as a whole: other threads read it.
        self._valid = kept | dict.fromkeys(renewal.epochs.items(), until)

    def _tell(self, renewal: Renewal) -> None:
        try:
            self._on_result(renewal)
        except Exception:
            log.exception("lease_renewal_listener_failed")


def _micros(delta: timedelta) -> sa.ColumnElement[int]:
    return sa.literal(delta // timedelta(microseconds=1), sa.BigInteger)
