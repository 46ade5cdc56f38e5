"""When the database refuses a turn's rows for good, the turn ends with bare values; the others go on."""

from collections.abc import Awaitable

import structlog

from openab.control.completions import ended_otherwise
from openab.control.retire import owe_delete, owe_notice, placeholders_of
from openab.control.services import Services
from openab.control.settling import settle_turn
from openab.domain.errors import IllegalTransition, Rejected
from openab.domain.ids import TurnId
from openab.domain.turn import Claimed, Ended, Outcome, TurnState
from openab.storage import conversations, turns
from openab.storage.conversations import Ownership
from openab.storage.engine import Transaction
from openab.storage.turns import Turn
from openab.text import notices

log = structlog.get_logger()


async def end_barely(services: Services, ownership: Ownership, failed: TurnId | None) -> None:
    """End the turns that are marked running, and `failed`, as failed; nobody runs any of them.

    What cannot be told is left out: a turn that ends silently is better than a broker that ends.
    """
    async with services.database.transaction() as tx:
        await conversations.lock(tx, ownership)
        for turn in await turns.open_of(tx, ownership.conversation):
            if turn.state is TurnState.RUNNING or turn.id == failed:
                await _end(tx, services, turn)
                log.error("turn_failed", turn_id=turn.id, kind="refused_by_database")


async def _end(tx: Transaction, services: Services, turn: Turn) -> None:
    now = await tx.now()
    if turn.state is TurnState.QUEUED:
        await turns.record(tx, turn, Claimed(), started_at=now)
    known = await turns.get(tx, turn.id)
    assert known is not None
    await _if_possible(tx, turn, _tell(tx, turn))
    await turns.record(
        tx,
        known,
        Ended(Outcome.FAILED),
        outcome=Outcome.FAILED.value,
        raw="",
        error={"kind": "refused_by_database"},
        answered_at=now,
    )
    await _if_possible(tx, turn, ended_otherwise(tx, services.settings, turn, Outcome.FAILED))
    await _if_possible(tx, turn, settle_turn(tx, services.settings, turn.id))


async def _tell(tx: Transaction, turn: Turn) -> None:
    for placeholder in await placeholders_of(tx, turn):
        await owe_delete(tx, turn, placeholder)
    key = f"turn:{turn.id}:not_stored:v1"
    await owe_notice(tx, turn, key, notices.not_stored(), is_owed=True)


async def _if_possible(tx: Transaction, turn: Turn, step: Awaitable[None]) -> None:
    try:
        async with tx.savepoint():
            await step
    except (Rejected, IllegalTransition):
        log.exception("end_not_told", turn_id=turn.id)
