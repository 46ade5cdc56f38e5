"""A turn takes the state of its outcome when every row that is owed for it is settled."""

import zlib

import structlog

from openab.control.settings import Settings
from openab.domain.delivery import LIFECYCLE, DeadReason, DeliveryState
from openab.domain.ids import TurnId
from openab.domain.turn import TurnState, settled
from openab.storage import deliveries, reactions, turns
from openab.storage.deliveries import Delivery, stem_of
from openab.storage.engine import Transaction

log = structlog.get_logger()
#: OpenAB's.
_FACES = ("😊", "😎", "🫡", "🤓", "😏", "✌️", "💪", "🦾")


async def settle_turn(tx: Transaction, settings: Settings, turn_id: TurnId | None) -> None:
    """Settle the turn if nothing owed for it is open any more; otherwise do nothing.

    Only now the trigger's reaction tells the end: an answer that did not arrive is no success.
    """
    if turn_id is None:
        return
    # Locked first: its rows may be settled in two conversations at once, and the second one to look
    # must see what the first one wrote.
    turn = await turns.locked(tx, turn_id)
    if turn is None or turn.state is not TurnState.ANSWERED or turn.outcome is None:
        return
    owed = [row for row in await deliveries.of_turn(tx, turn_id) if row.is_owed]
    if any(row.state in LIFECYCLE.open for row in owed):
        return
    event = settled(turn.outcome, any_dead=any(_is_loss(row) for row in _newest(owed)))
    state = await turns.record(tx, turn, event, settled_at=await tx.now())
    if settings.reactions.enabled:
        await reactions.conclude(tx, turn_id, _last_emoji(settings, turn_id, state), await tx.now())
        # Its answer may have stood elsewhere; the reaction is its own conversation's.
        tx.gives_work(turn.conversation)
    tx.after_commit(lambda: log.info("turn_settled", turn_id=turn_id, state=state.value))


def _last_emoji(settings: Settings, turn: TurnId, state: TurnState) -> str | None:
    emojis = settings.reactions.emojis
    last = {TurnState.DONE: emojis.done, TurnState.CANCELLED: emojis.cancelled}
    face = _face(turn) if settings.reactions.mood_face and state is TurnState.DONE else ""
    return " ".join(filter(None, (last.get(state, emojis.error), face))) or None


def _face(turn: TurnId) -> str:
    """Any one, but the same each time it is asked for: what stands there must be known."""
    return _FACES[zlib.crc32(turn.encode()) % len(_FACES)]


def _newest(rows: list[Delivery]) -> list[Delivery]:
    """The last version of each: what was owed anew is not lost with the version before."""
    last = {stem_of(row): row for row in sorted(rows, key=lambda row: row.version)}
    return list(last.values())


def _is_loss(row: Delivery) -> bool:
    return row.state is DeliveryState.DEAD and row.dead_reason is not DeadReason.SUPERSEDED
