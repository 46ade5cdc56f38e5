"""Reads what was said while we did not listen, and lets it in as if we had: same queue, gates and rows."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from openab.control import history_reader
from openab.control.held_events import HeldEvents
from openab.control.history_reader import HistoryReader, Reading
from openab.control.intake import Event, Intake, Step
from openab.control.persist import persist
from openab.control.settings import Settings
from openab.domain.ids import PlatformId, snowflake
from openab.domain.window import Window
from openab.ports.history import History
from openab.ports.tasks import end, spawn
from openab.storage import absences, accounts, history_marks
from openab.storage.engine import Database, Transaction

log = structlog.get_logger()
#: Events may have been told out of order before the mark was reached; the inbox keeps doubles out.
OVERLAP = timedelta(minutes=2)
#: Live events wait no longer than this for their place's history.
PATIENCE_SECONDS = 30.0
#: So long after an event was missed history is read, if nothing else begins it before.
AGAIN_SECONDS = 30.0


class Backfill:
    """Stands between the network's events and the intake. `run` does the reading, until cancelled."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        intake: Intake,
        history: History,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        count: Callable[[str], None] = lambda _result: None,
        spare: Callable[[float], bool] = lambda _now: False,
    ) -> None:
        """`count` hears `started`, and then `finished` or `interrupted`. `spare`: as `HistoryReader` says."""
        self._database = database
        self._settings = settings
        self._intake = intake
        self._history = history
        self._patience_seconds = patience_seconds
        self._count = count
        self._spare = spare
        self._pace = Window(history_reader.READS, history_reader.READS_SECONDS)
        self._held = HeldEvents(intake.put)
        self._asked = asyncio.Event()
        #: What lets the mark go on, and which of these the next round will put.
        self._free: Step | None = None
        self._planned: Step | None = None
        self._round: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None

    @property
    def is_unfinished(self) -> bool:
        """Something that was said while we were away may not be read yet."""
        return self._free is not None

    def put(self, event: Event) -> None:
        """Take an event from the network; never waits. It may stay here until its place is read."""
        self._held.put(event)

    def connected(self) -> None:
        """Events come again after some may have been missed: read history, anew if that is under way."""
        if not self._settings.backfill:
            self._intake.put(Step("skip_absence", self._skip))
            return
        self._forget_again()
        self._free = self._planned = self._intake.hold_mark()
        self._held.begin()
        if self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(self._patience_seconds, self._lose_patience)
        self._asked.set()
        if self._round is not None:
            self._round.cancel()

    def stand_still(self) -> None:
        """Events are left out: the mark stays before them until the next `connected`.

        Where history is never read they are gone, and nothing waits for them.
        """
        if self._settings.backfill:
            self._free = self._intake.hold_mark()

    def missed(self) -> None:
        """An event was told and could not be taken: it is read soon, for the next connection may be far."""
        self.stand_still()
        if self._settings.backfill and self._again is None:
            self._read_later()

    async def run(self) -> None:
        """Read whenever that was asked for, until cancelled: then the next process reads on."""
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                await self._one_round()
        finally:
            self._forget_again()
            self._stop_waiting()
            self._held.end()
            if self._round is not None:
                await end(self._round)

    async def _one_round(self) -> None:
        free = self._planned
        assert free is not None
        self._count("started")
        self._round = spawn("backfill-round", self._read(free))
        await asyncio.wait({self._round})
        self._count("interrupted" if self._round.cancelled() else "finished")
        if not self._round.cancelled():
            self._round.result()
        self._round = None

    async def _read(self, free: Step) -> None:
        start, marks = await persist("mark", self._start)
        direct = await persist("direct conversations", self._direct)
        log.info("backfill_started", after=start)
        reader = HistoryReader(
            self._settings,
            self._history,
            self._intake,
            self._held,
            start,
            marks,
            self._pace,
            self._spare,
        )
        reading = await reader.read(direct)
        self._intake.put(free)
        await free.committed.wait()
        self._finish(free, reading)

    def _finish(self, free: Step, reading: Reading) -> None:
        if self._free is free:
            self._free = None
        self._stop_waiting()
        self._held.open()
        log.info(
            "backfill_finished",
            rooms=reading.rooms,
            messages=reading.messages,
            unreadable=reading.unreadable,
        )

    async def _start(self) -> tuple[PlatformId, dict[PlatformId, PlatformId]]:
        """From where all is read, and the places that a reading which was cut off has come further in."""
        channel, account = self._settings.channel, self._settings.account
        async with self._database.read() as tx:
            mark = await absences.mark_of(tx, channel, account)
            marks = await history_marks.of_account(tx, channel, account)
            caught_up = await absences.newest_caught_up(tx, channel, account, marks)
        if caught_up is not None:
            # A life that was cut off took it in; when all is read, the mark goes past it.
            self._intake.note_heard(caught_up)
        if mark.heard is None:
            return self._history.newest(), marks
        start = self._history.earlier(mark.heard, OVERLAP)
        return max((start, mark.first or start), key=snowflake), marks

    async def _direct(self) -> list[PlatformId]:
        if not self._settings.policy().allow_dm:
            return []
        async with self._database.read() as tx:
            return await absences.direct_conversations(
                tx, self._settings.channel, self._settings.account
            )

    async def _skip(self, tx: Transaction) -> None:
        """Nothing is answered later: what was missed stays missed, also when that is wanted again."""
        settings = self._settings
        await accounts.move_mark(tx, settings.channel, settings.account, self._history.newest())

    def _lose_patience(self) -> None:
        self._patience = None
        log.warning("backfill_takes_long", waiting=len(self._held))
        self._held.open()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _read_later(self) -> None:
        self._again = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._read_again)

    def _read_again(self) -> None:
        if self._round is None:
            self.connected()
        else:
            # It is not begun anew for this: it may take long, and more may be missed meanwhile.
            self._read_later()

    def _forget_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
