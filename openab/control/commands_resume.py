"""Resume: gives a conversation's own session a memory that an agent still has though our rows forgot it."""

import structlog

from openab.control.settings import Settings
from openab.domain.ids import AcpSessionId
from openab.domain.message import Author
from openab.storage import conversations, sessions, turns
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.text import binding_replies as replies

log = structlog.get_logger()
#: What an agent's own session id begins with where a session is named.
RESUMED = "acp:"


async def resume(
    tx: Transaction,
    settings: Settings,
    here: Conversation,
    author: Author,
    agents_id: AcpSessionId,
    *,
    is_bound: bool,
) -> str:
    """Let the session here begin anew with that memory. Returns the answer.

    For operators only: the id alone does not tell whose memory it is. An agent that does not know
    it begins with nothing, and says so, as with any id.
    """
    if author.id not in settings.operators():
        return replies.resume_not_yours()
    if not agents_id:
        return replies.no_session_named()
    if is_bound:
        return replies.resume_elsewhere()
    await conversations.hold(tx, here.id)
    spec = settings.agent()
    made = await sessions.ensure(tx, here, agent=spec.name, working_dir=spec.working_dir)
    session = await sessions.locked(tx, made.key)
    assert session is not None
    if await turns.open_for(tx, session.key):
        return replies.resume_busy()
    await sessions.reset(tx, session)
    fresh = await sessions.get(tx, session.key)
    assert fresh is not None
    await sessions.remember_agent(tx, fresh, agents_id)
    tx.after_commit(lambda: log.info("session_resumed", session=session.key, by=author.id))
    return replies.resumed(agents_id)
