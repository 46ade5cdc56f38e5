"""Cancel, cancel all, reset: only what somebody has asked themselves, unless they are an operator.

Each is one transaction that holds the conversation's row, so that no owner claims a turn in
between: a kill leaves everything done or nothing.
"""

from collections.abc import Sequence

import structlog

from openab.control.bound_sessions import session_key_here
from openab.control.completions import ended_otherwise
from openab.control.retire import retire_queued
from openab.control.settings import Settings
from openab.domain.errors import Transient
from openab.domain.message import Author
from openab.domain.turn import CancelledQueued, Outcome, TurnState
from openab.storage import conversations, session_reports, sessions, turns
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.turns import Turn
from openab.text import notices, replies

log = structlog.get_logger()


async def cancel(
    tx: Transaction, settings: Settings, here: Conversation, author: Author, wanted: str | None
) -> str:
    """Cancel one turn here: the wanted one, else the next of the author's own, else the running one.

    Doing it twice changes nothing more. Returns what the author is told.
    """
    await conversations.hold(tx, here.id)
    turn = _choose(await turns.open_of(tx, here.id), author, wanted)
    if turn is None:
        return notices.nothing_to_cancel()
    if not _is_theirs(turn, settings, author):
        return notices.not_yours_to_cancel(turn.requester_name)
    is_running = turn.state is TurnState.RUNNING
    await _take_back(tx, settings, [turn], author.display_name)
    name = author.display_name
    return notices.cancelling(name) if is_running else notices.cancelled_before_start(name)


async def cancel_all(
    tx: Transaction, settings: Settings, here: Conversation, author: Author
) -> str:
    """Cancel every turn here that is the author's own, queued or running; an operator's are all."""
    await conversations.hold(tx, here.id)
    open_turns = await turns.open_of(tx, here.id)
    theirs = [turn for turn in open_turns if _is_theirs(turn, settings, author)]
    waiting, is_running = await _take_back(tx, settings, theirs, author.display_name)
    of_others = len(open_turns) - len(theirs)
    return replies.cancelled_all(waiting=waiting, is_running=is_running, of_others=of_others)


async def reset(tx: Transaction, settings: Settings, here: Conversation, author: Author) -> str:
    """End the session here: nothing runs or waits any more, and the agent forgets everything.

    The process is ended by whoever hosts it, as soon as this is committed.
    """
    key = await session_key_here(tx, settings, here)
    # Other conversations may be bound to the same session; theirs end with it.
    held = {here.id, *(turn.conversation for turn in await turns.open_for(tx, key))}
    for place in sorted(held):
        await conversations.hold(tx, place)
    session = await sessions.locked(tx, key)
    if session is None:
        return replies.nothing_to_reset()
    if not await may_change(tx, settings, session, author):
        return replies.reset_not_yours()
    open_turns = await turns.open_for(tx, key)
    if not held.issuperset(turn.conversation for turn in open_turns):
        raise Transient("another conversation has just asked in this session")
    for turn in open_turns:
        if not _is_theirs(turn, settings, author):
            return replies.reset_holds_others(turn.requester_name)
    waiting, is_running = await _take_back(tx, settings, open_turns, author.display_name)
    await sessions.reset(tx, session)
    tx.after_commit(lambda: log.info("session_reset", session=session.key, by=author.id))
    return replies.reset_done(waiting=waiting, is_running=is_running)


async def may_change(
    tx: Transaction, settings: Settings, session: sessions.Session, author: Author
) -> bool:
    """Whether somebody may change a session: they have asked in it, or are an operator."""
    is_operator = author.id in settings.operators()
    return is_operator or await session_reports.has_asked(tx, session, author.id)


def _is_theirs(turn: Turn, settings: Settings, author: Author) -> bool:
    return turn.is_asked_by(author.id) or author.id in settings.operators()


def _choose(open_turns: list[Turn], author: Author, wanted: str | None) -> Turn | None:
    if wanted:
        return next((turn for turn in open_turns if turn.id == wanted), None)
    running = [turn for turn in open_turns if turn.state is TurnState.RUNNING]
    own = [turn for turn in open_turns if turn.is_asked_by(author.id)]
    # A running turn comes before the queued ones in both.
    return next(iter(own + running + open_turns), None)


async def _take_back(
    tx: Transaction, settings: Settings, wanted: Sequence[Turn], by: str
) -> tuple[int, bool]:
    """Cancel these turns. Returns how many had not begun, and whether one runs (it ends soon)."""
    waiting, is_running = 0, False
    for turn in wanted:
        await turns.request_cancel(tx, turn.id, by)
        if turn.state is TurnState.RUNNING:
            is_running = True
            continue
        await turns.record(tx, turn, CancelledQueued(), settled_at=await tx.now())
        await retire_queued(tx, settings, turn, by)
        await ended_otherwise(tx, settings, turn, Outcome.CANCELLED)
        waiting += 1
    return waiting, is_running
