"""Continue: whoever asked for an interrupted turn, or an operator, says that it goes on."""

from openab.control.settings import Settings
from openab.domain.message import Author
from openab.domain.turn import TurnState
from openab.storage import conversations, turns
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.turns import Turn
from openab.text import notices


async def go_on(
    tx: Transaction, settings: Settings, here: Conversation, author: Author, wanted: str
) -> str:
    """Note that the turn goes on about which people are asked here; its owner sees to the rest.

    `wanted` is a button's `TURN:ATTEMPT`, or empty for whichever is asked about. Doing it twice
    changes nothing more. Returns what the author is told.
    """
    await conversations.hold(tx, here.id)
    turn = _asked_about(await turns.open_of(tx, here.id), wanted)
    if turn is None:
        return notices.nothing_to_continue()
    if not turn.is_asked_by(author.id) and author.id not in settings.operators():
        return notices.not_yours_to_continue(turn.requester_name)
    await turns.go_on(tx, turn, author.display_name)
    return notices.going_on()


def _asked_about(open_turns: list[Turn], wanted: str) -> Turn | None:
    asked = [
        turn
        for turn in open_turns
        if turn.state is TurnState.RUNNING and turn.asked_at and not turn.cancel_requested_at
    ]
    fitting = (turn for turn in asked if wanted in {"", f"{turn.id}:{turn.attempt}"})
    return next(fitting, None)
