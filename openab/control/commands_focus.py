"""Focus: binds a conversation to a session that there is, for who may use both."""

from openab.control.binding_rights import may_change_binding, may_reach
from openab.control.bound_sessions import session_key_here
from openab.control.commands_resume import RESUMED, resume
from openab.control.settings import Settings
from openab.domain.binding import BindingRefused, SessionBinding, TargetKind
from openab.domain.ids import AcpSessionId, SessionKey, named_agent
from openab.domain.message import Author
from openab.storage import conversations, meant_sessions, sessions, spawns
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.sessions import Session
from openab.text import binding_replies as replies
from openab.text.binding_words import ASKED_BY
from openab.text.mentions import conversation_named


async def focus(
    tx: Transaction, settings: Settings, here: Conversation, author: Author, wanted: str
) -> str:
    """Bind the conversation to the session that is meant, in place of what is bound. Returns the answer."""
    typed = wanted.strip().strip("`").strip()
    if not typed:
        return replies.no_session_named()
    await conversations.hold(tx, here.id)
    before = await settings.bindings.resolve_by_conversation(tx, here.id)
    if typed.startswith(RESUMED):
        agents_id = AcpSessionId(typed.removeprefix(RESUMED).strip())
        return await resume(tx, settings, here, author, agents_id, is_bound=before is not None)
    meant = await _meant(tx, settings, here, typed)
    if len(meant) > 1:
        return replies.several_sessions(typed, meant)
    session = await sessions.get(tx, meant[0]) if meant else None
    if session is None:
        return replies.unknown_session(typed)
    return await _unwanted(tx, settings, here, author, session, before) or await _bind(
        tx, settings, here, author, session.key
    )


async def _unwanted(
    tx: Transaction,
    settings: Settings,
    here: Conversation,
    author: Author,
    session: Session,
    before: SessionBinding | None,
) -> str:
    """Why it is not bound; empty if it is to be."""
    if session.key == here.ref.session_key():
        return replies.own_session_instead() if before else replies.own_session()
    if not await may_reach(tx, settings, author, session, here):
        return replies.session_not_yours()
    if settings.spec_of(session.key) is None:
        return replies.agent_not_configured(named_agent(session.key) or "")
    if before is None:
        return ""
    if before.target_session_key == session.key:
        return replies.focused_before(before)
    is_theirs = await may_change_binding(tx, settings, before, author)
    return "" if is_theirs else replies.binding_not_yours()


async def _bind(
    tx: Transaction, settings: Settings, here: Conversation, author: Author, session: SessionKey
) -> str:
    is_subagent = await spawns.of_session(tx, session) is not None
    try:
        async with tx.savepoint():
            binding = await settings.bindings.bind(
                tx,
                session,
                TargetKind.SUBAGENT if is_subagent else TargetKind.SESSION,
                here.ref,
                bound_by=author.id,
                limits=settings.binding.limits,
                metadata={ASKED_BY: author.display_name},
            )
    except BindingRefused as error:
        return replies.focus_refused(error.code, str(error))
    return replies.focused(binding)


async def _meant(
    tx: Transaction, settings: Settings, here: Conversation, typed: str
) -> list[SessionKey]:
    """The sessions of this account that go by what was typed: a key, a conversation, an agent's name."""
    if not (typed.isascii() and typed.isprintable()):
        # No session goes by it, and not every database would take it to look for it.
        return []
    if typed.startswith(f"{settings.channel}:{settings.account}:"):
        return [SessionKey(typed)]
    place = conversation_named(typed)
    if place:
        found = await meant_sessions.begun_in(tx, settings.channel, settings.account, place)
        if found:
            return found
    parent = await session_key_here(tx, settings, here)
    return await meant_sessions.subagents_near(tx, settings.account, typed, parent, here.id)
