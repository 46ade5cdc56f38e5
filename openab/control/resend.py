"""Owes anew what could not be delivered, because somebody says so: once, as the next version."""

from dataclasses import dataclass
from enum import StrEnum

from openab.control.retire import owe_delete, placeholders_of
from openab.domain.delivery import DeadReason, DeliveryKind, DeliveryState, Purpose
from openab.domain.ids import ConversationId, TurnId
from openab.domain.turn import OwedAnew, TurnState
from openab.storage import conversations, deliveries, turns
from openab.storage.deliveries import Delivery, superseding
from openab.storage.engine import Transaction
from openab.storage.turns import Turn

#: What people miss; the rest serves something that is over.
_MISSED = frozenset({Purpose.FINAL, Purpose.NOTICE})
_SENDS = frozenset({DeliveryKind.CREATE, DeliveryKind.EDIT})


class Verdict(StrEnum):
    """What became of the wish."""

    OWED = "owed"
    #: It was owed anew before; what became of that is another row's story.
    DONE_BEFORE = "done_before"
    #: There is no such delivery or turn, or nothing of it is dead.
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Resent:
    """The verdict, how many messages are owed anew, and where."""

    verdict: Verdict
    count: int = 0
    conversations: tuple[ConversationId, ...] = ()


async def dead_rows(tx: Transaction, what: str) -> list[Delivery]:
    """The dead messages that this id names: a delivery, or all of a turn."""
    row = await deliveries.get(tx, what)
    rows = [row] if row else await deliveries.of_turn(tx, TurnId(what))
    return [row for row in rows if _can_be_sent(row)]


async def requested_by(tx: Transaction, rows: list[Delivery]) -> Turn | None:
    """The turn that the rows are of; None: of none."""
    named = next((row.turn for row in rows if row.turn), None)
    return await turns.get(tx, named) if named else None


async def resend(tx: Transaction, what: str, by: str) -> Resent:
    """Owe the dead rows of this id anew; whoever owns their conversation sends them.

    A row is followed by one next version, however often and from wherever this is asked.
    """
    rows = await dead_rows(tx, what)
    for conversation in sorted({row.conversation for row in rows}):
        # As every writer: the conversation before its turns.
        await conversations.hold(tx, conversation)
    owed = [row for row in rows if await _owe_anew(tx, row, by)]
    if not owed:
        return Resent(Verdict.DONE_BEFORE if rows else Verdict.NOTHING)
    places = tuple(sorted({row.conversation for row in owed}))
    return Resent(Verdict.OWED, len(owed), places)


def _can_be_sent(row: Delivery) -> bool:
    is_dead = row.state is DeliveryState.DEAD and row.dead_reason is not DeadReason.SUPERSEDED
    return is_dead and row.purpose in _MISSED and row.kind in _SENDS


async def _owe_anew(tx: Transaction, row: Delivery, by: str) -> bool:
    following = superseding(row, kind=DeliveryKind.CREATE, target=None, target_delivery=None)
    if await deliveries.owe(tx, following) is None:
        return False
    turn = await turns.locked(tx, row.turn) if row.turn else None
    if turn is not None:
        await _reopen(tx, turn, row, by)
    return True


async def _reopen(tx: Transaction, turn: Turn, row: Delivery, by: str) -> None:
    """The turn has something owed again; when that is settled it takes the state of its outcome."""
    if turn.state is TurnState.FAILED and row.is_owed:
        detail = {"part": row.part, "by": by}
        await turns.record(tx, turn, OwedAnew(), detail=detail, settled_at=None)
    if row.kind is DeliveryKind.EDIT:
        # The live message that the edit could not turn into the answer.
        for placeholder in await placeholders_of(tx, turn):
            await owe_delete(tx, turn, placeholder)
