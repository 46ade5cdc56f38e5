"""Who may bind what: the same allow-lists as for buttons, and nobody takes what somebody else has bound."""

from openab.control.settings import Settings
from openab.domain.binding import SessionBinding, TargetKind
from openab.domain.gates import may_press
from openab.domain.ids import PlatformId
from openab.domain.message import Author, Place
from openab.storage import conversations, deliveries, session_reports, sessions, spawns
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.sessions import Session


async def may_change_binding(
    tx: Transaction, settings: Settings, binding: SessionBinding, author: Author
) -> bool:
    """Who bound it, an operator, or in a sub-agent's own thread whoever it works for."""
    if binding.is_owned_by(author.id) or author.id in settings.operators():
        return True
    if binding.target_kind is not TargetKind.SUBAGENT:
        return False
    spawn = await spawns.of_session(tx, binding.target_session_key)
    session = await sessions.get(tx, binding.target_session_key)
    home = await conversations.find(tx, binding.conversation)
    is_own_thread = session is not None and home is not None and session.conversation == home.id
    return is_own_thread and spawn is not None and spawn.requester_id == author.id


async def may_reach(
    tx: Transaction, settings: Settings, author: Author, session: Session, here: Conversation
) -> bool:
    """Whether somebody may bring a session here: they could use its own conversation.

    The lists know nothing of a network's own rules about who sees which channel, so out of
    another channel it is brought only by who has asked in it, or an operator; and out of a direct
    conversation by nobody but the one who has asked there.
    """
    home = await conversations.get(tx, session.conversation)
    ref = home.ref
    if may_press(
        author, home.place, ref.conversation_id, ref.parent_conversation_id, settings.policy()
    ):
        return False
    if home.place is not Place.DM:
        is_operator = author.id in settings.operators()
        is_near = _channel_of(home) == _channel_of(here)
        if is_operator or (is_near and await _is_seen_by_all(tx, home)):
            return True
    # A binding is over one day; what was asked where it was gives no right to the session itself.
    return home.id == here.id or await session_reports.has_asked(
        tx, session, author.id, at_home=True
    )


async def _is_seen_by_all(tx: Transaction, home: Conversation) -> bool:
    """Whether whoever sees the channel sees it: a thread that people opened may be private."""
    return home.place is Place.CHANNEL or await deliveries.thread_of(tx, home.id) is not None


def _channel_of(where: Conversation) -> PlatformId:
    parent = where.ref.parent_conversation_id if where.place is Place.THREAD else None
    return parent or where.ref.conversation_id
