"""What a session here has used, and which sessions there are; nothing is changed by asking."""

from openab.control.bound_sessions import session_key_here
from openab.control.settings import Settings
from openab.domain.outbound import CommandAnswer
from openab.storage import session_reports, sessions
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.session_reports import Seen
from openab.text import menus, replies
from openab.text.replies import SessionTold, UsageTold

#: So many lines fit a message whatever the agents are called.
PAGE_SIZE = 10
#: What a page button names that turns the list of sessions.
SESSIONS = "sessions"


async def usage(tx: Transaction, settings: Settings, here: Conversation | None) -> CommandAnswer:
    """What the session here has used since its beginning, or since its last reset."""
    key = await session_key_here(tx, settings, here) if here else None
    session = await sessions.get(tx, key) if key else None
    if session is None:
        return CommandAnswer(replies.no_session())
    spent = await session_reports.spent(tx, session)
    since = session.reset_at or session.created_at
    return CommandAnswer(replies.usage(UsageTold(session.usage, spent.turns, spent.time, since)))


async def session_list(
    tx: Transaction, settings: Settings, here: Conversation | None, page: int = 0
) -> CommandAnswer:
    """A page of this account's sessions, as far as the allow-lists let them be seen from here."""
    channels = settings.policy().allowed_channels
    seen = Seen(settings.account, here.id if here else None, channels)
    total = await session_reports.count(tx, seen)
    pages = max(1, -(-total // PAGE_SIZE))
    page = max(0, min(page, pages - 1))
    first = page * PAGE_SIZE
    found = await session_reports.page(tx, seen, first=first, size=PAGE_SIZE)
    told = [
        SessionTold(
            one.conversation_id, one.agent, one.is_running, one.waiting, one.last_activity_at
        )
        for one in found
    ]
    text = replies.session_list(told, first=first, total=total)
    return CommandAnswer(text, buttons=menus.turners(SESSIONS, page, pages))
