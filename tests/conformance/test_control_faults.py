"""Each fault of the network during each kind of delivery, before and after a kill: once, and nothing left."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import cycle, product

import pytest
import sqlalchemy as sa

from openab.control.outbox import Outbox
from openab.control.writer import ConversationWriter
from openab.domain.delivery import DeliveryKind, DeliveryState, Purpose
from openab.domain.errors import OpenabError
from openab.domain.ids import DeliveryId, PlatformId, TurnId
from openab.domain.turn import Claimed, Ended, Outcome, TurnState
from openab.ports.channel import (
    ChannelBusy,
    ChannelRejected,
    ChannelUnreachable,
    DeliveryUnknown,
    Refusal,
)
from openab.ports.signals import Signals
from openab.storage import deliveries, schema, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.engine import Database
from tests.builders import (
    ACCOUNT,
    HOME,
    Offset,
    a_claim,
    a_conversation,
    a_delivery,
    a_turn,
    some_settings,
)
from tests.conformance.control_stage import outside
from tests.fakes.channel import RecordingChannel

SETTINGS = some_settings()


class Case:
    """One thread with one turn, and one row of it that things happen to."""

    def __init__(self, database: Database, clock: Offset, number: int) -> None:
        self.database = database
        self.clock = clock
        # The account's messages have one range of ids, whatever thread they stand in.
        self.channel = RecordingChannel(account=ACCOUNT, first_id=10_000 * (number + 1))
        self.trigger = self.channel.say(HOME, "build it")
        self.thread = PlatformId(str(1_000 + number))
        self.turn: TurnId
        self.row: DeliveryId
        self.where: Conversation
        self.outbox: Outbox

    async def take(self) -> None:
        """A process that owns the thread from now on, with nothing in its memory."""
        async with self.database.transaction() as tx:
            self.where = await a_conversation(tx, self.thread, HOME)
            bait = await a_delivery(tx, self.where, f"bait:{self.thread}:{self.where.epoch}")
        self.clock.pass_by(30)
        owned = {where.id: own for where, own in await a_claim(self.database)}
        async with self.database.transaction() as tx:
            await tx.execute(sa.delete(schema.deliveries).where(schema.deliveries.c.id == bait))
        self.outbox = self._outbox(owned[self.where.id])
        await self.outbox.recover()

    def _outbox(self, ownership: Ownership) -> Outbox:
        channel = outside(self.channel)
        writer = ConversationWriter(channel, 0.2, lambda: 0.0)
        return Outbox(
            self.database, channel, SETTINGS, self.where, ownership, writer, Signals(),
            lambda _sent: None,
        )  # fmt: skip

    async def begin(self) -> None:
        """The turn, running."""
        async with self.database.transaction() as tx:
            self.turn = await a_turn(tx, self.where, self.thread)
            turn = await turns.get(tx, self.turn)
            assert turn is not None
            await turns.record(tx, turn, Claimed())

    async def end(self) -> None:
        async with self.database.transaction() as tx:
            turn = await turns.get(tx, self.turn)
            assert turn is not None
            await turns.record(tx, turn, Ended(Outcome.COMPLETED), outcome="completed")

    async def owe(self, key: str, text: str, **changes: object) -> DeliveryId:
        async with self.database.transaction() as tx:
            named = f"turn:{self.turn}:{key}"
            return await a_delivery(tx, self.where, named, text, turn=self.turn, **changes)

    async def placeholder(self) -> DeliveryId:
        return await self.owe("placeholder:v1", "-# ⏳", purpose=Purpose.PLACEHOLDER, is_owed=False)

    async def run(self) -> None:
        """Step until nothing is due now."""
        for _ in range(20):
            if not (await self.outbox.step()).did:
                return
        raise AssertionError("the outbox does not come to rest")

    async def crash(self, *, after_the_call: bool) -> None:
        """The process ends between its commitment to a try and the record of the try's outcome."""
        async with self.database.read() as tx:
            row = await deliveries.get(tx, self.row)
        assert row is not None
        begun = await self.outbox._begin(row)
        assert begun is not None
        if after_the_call:
            await self.outbox._attempts.make(*begun)
        await self.take()

    async def settle(self) -> None:
        """Let minutes pass until nothing is open."""
        for _ in range(12):
            await self.run()
            async with self.database.read() as tx:
                if not await deliveries.open_of(tx, self.where.id):
                    return
            self.clock.pass_by(61)
        raise AssertionError("something stays open")

    async def state(self) -> TurnState:
        async with self.database.read() as tx:
            turn = await turns.get(tx, self.turn)
        assert turn is not None
        return turn.state

    def shown(self) -> list[str]:
        return self.channel.shown(self.thread)


# What is owed, and what must be the case in the end.


async def _a_placeholder(case: Case) -> None:
    case.row = await case.placeholder()


async def _is_shown(case: Case) -> None:
    assert case.shown() == ["-# ⏳"]


async def _an_edit(case: Case) -> None:
    made = await case.placeholder()
    await case.run()
    await case.end()
    case.row = await case.owe(
        "final:1:v1", "the answer", kind=DeliveryKind.EDIT, purpose=Purpose.FINAL, part=1,
        target_delivery=made,
    )  # fmt: skip


async def _a_fresh_final(case: Case) -> None:
    made = await case.placeholder()
    await case.run()
    await case.end()
    case.row = await case.owe("final:1:v1", "the answer", purpose=Purpose.FINAL, part=1)
    await _owe_retirement(case, made)


async def _a_retirement(case: Case) -> None:
    made = await case.placeholder()
    await case.run()
    await case.end()
    await case.owe("final:1:v1", "the answer", purpose=Purpose.FINAL, part=1)
    await case.run()
    case.row = await _owe_retirement(case, made)


async def _owe_retirement(case: Case, placeholder: DeliveryId) -> DeliveryId:
    return await case.owe(
        "placeholder:v1:retire", "", kind=DeliveryKind.DELETE, purpose=Purpose.RETIRE,
        target_delivery=placeholder,
    )  # fmt: skip


async def _is_answered_once(case: Case) -> None:
    assert case.shown() == ["the answer"]
    assert await case.state() is TurnState.DONE


async def _a_thread(case: Case) -> None:
    case.row = await case.owe(
        "thread:v1", "a title", kind=DeliveryKind.THREAD, purpose=Purpose.THREAD,
        target=case.trigger, is_owed=False,
    )  # fmt: skip


async def _is_open(case: Case) -> None:
    async with case.database.read() as tx:
        row = await deliveries.get(tx, case.row)
    assert row is not None
    assert row.state is DeliveryState.SENT
    assert list(case.channel.titles) == [case.trigger.message_id]


@dataclass(frozen=True)
class _Subject:
    method: str
    owe: Callable[[Case], Awaitable[None]]
    holds: Callable[[Case], Awaitable[None]]


SUBJECTS = {
    "placeholder": _Subject("create_message", _a_placeholder, _is_shown),
    "edit": _Subject("edit_message", _an_edit, _is_answered_once),
    "final": _Subject("create_message", _a_fresh_final, _is_answered_once),
    "thread": _Subject("open_thread", _a_thread, _is_open),
    "retirement": _Subject("delete_message", _a_retirement, _is_answered_once),
}

# What goes wrong.

Fault = Callable[[Case, str], Awaitable[None]]


def _error(make: Callable[[], OpenabError], *, commits: bool = False, times: int = 1) -> Fault:
    async def arrange(case: Case, method: str) -> None:
        case.channel.fail(method, make(), commits=commits, times=times)

    return arrange


def _hang(*, commits: bool) -> Fault:
    async def arrange(case: Case, method: str) -> None:
        case.channel.hang(method, commits=commits)

    return arrange


async def _deleted(case: Case, _method: str) -> None:
    """10008: a moderator deletes the live message."""
    for one in case.channel.posted(case.thread):
        one.deleted = one.body.content.startswith("-# ")


async def _archived(case: Case, _method: str) -> None:
    """50083, once anything is there to be changed."""
    case.channel.archive(case.thread)


async def _opened(case: Case, _method: str) -> None:
    """160004: another bot was quicker."""
    await case.channel.open_thread(case.trigger, "a title", 1.0)


def _too_old() -> OpenabError:
    return ChannelRejected(Refusal.EDIT_TOO_OLD, "30046", 30046)


EVERYWHERE: dict[str, Fault] = {
    "nothing": _error(lambda: DeliveryUnknown("never"), times=0),
    "commit-then-502": _error(lambda: DeliveryUnknown("502"), commits=True),
    "commit-then-502 again and again": _error(
        lambda: DeliveryUnknown("502"), commits=True, times=2
    ),
    "503": _error(lambda: DeliveryUnknown("503")),
    "drop": _error(lambda: ChannelUnreachable("refused")),
    "hang, committed": _hang(commits=True),
    "hang, not committed": _hang(commits=False),
    "429": _error(lambda: ChannelBusy("429", 0.5)),
    "429 for 300 s": _error(lambda: ChannelBusy("429", 300.0)),
}
ALSO: dict[str, dict[str, Fault]] = {
    "placeholder": {"archived": _archived},
    "edit": {"10008": _deleted, "archived": _archived, "30046": _error(_too_old)},
    "final": {"archived": _archived},
    "thread": {"160004": _opened},
    "retirement": {"10008": _deleted, "archived": _archived},
}


async def _alive(_case: Case) -> None:
    """Nobody dies."""


async def _killed_before(case: Case) -> None:
    await case.crash(after_the_call=False)


async def _killed_after(case: Case) -> None:
    await case.crash(after_the_call=True)


async def _killed_after_and_late(case: Case) -> None:
    """The next process comes when the nonce is forgotten."""
    await case.crash(after_the_call=True)
    case.clock.pass_by(200)
    case.channel._nonces.clear()


KILLS = {
    "alive": _alive,
    "killed before the call": _killed_before,
    "killed after the call": _killed_after,
    "killed, and the nonce forgotten": _killed_after_and_late,
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", list(SUBJECTS))
async def test_it_is_done_once_and_nothing_is_left_over(database: Database, name: str) -> None:
    subject, faults = SUBJECTS[name], EVERYWHERE | ALSO[name]
    clock = Offset(database)
    # Every pair on one dialect; on the other, which is slower, every fault and every kill.
    every, each = product(faults, KILLS), zip(faults, cycle(KILLS), strict=False)
    for number, (fault, kill) in enumerate(every if database.dialect == "sqlite" else each):
        case = Case(database, clock, number)
        await case.take()
        await case.begin()
        try:
            await subject.owe(case)
            await faults[fault](case, subject.method)
            await KILLS[kill](case)
            await case.settle()
            await subject.holds(case)
        except (AssertionError, KeyError) as error:
            error.add_note(f"{name}, {fault}, {kill}: {case.shown()}, {case.channel.calls}")
            raise


async def test_control_without_its_nonce_a_message_is_there_twice(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table above notices a broker that repeats blindly."""
    case = Case(database, Offset(database), 0)
    await case.take()
    await case.begin()
    await _a_fresh_final(case)
    await EVERYWHERE["commit-then-502"](case, "create_message")
    original = case.channel.create_message

    async def nonceless(
        conversation_id: PlatformId, body: object, nonce: str, seconds: float
    ) -> PlatformId:
        case.channel._nonces.clear()
        return await original(conversation_id, body, nonce, seconds)  # type: ignore[arg-type]

    monkeypatch.setattr(case.channel, "create_message", nonceless)
    await case.settle()
    assert case.shown() == ["the answer", "the answer"]
