"""Spawn: a person gives a task to a sub-agent; the session there, if there is one, learns the result."""

from collections.abc import Mapping

from openab.control.bound_sessions import session_key_here
from openab.control.settings import Settings
from openab.control.spawning import Asked, hold_for_spawn, spawn
from openab.domain.ids import SessionKey
from openab.domain.message import Author, Place
from openab.domain.spawn import SpawnRefusal
from openab.storage import sessions
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.text import binding_replies, spawn_words

#: The options' names, as people see them.
AGENT, TASK = "agent", "task"


async def spawn_for_person(
    tx: Transaction,
    settings: Settings,
    here: Conversation,
    author: Author,
    options: Mapping[str, str],
) -> str:
    """Owe the sub-agent, or say why not."""
    await hold_for_spawn(tx, here)
    asked = Asked(
        agent=options.get(AGENT, "").strip(),
        task=options.get(TASK, ""),
        requester_id=author.id,
        requester_name=author.display_name,
        requester_is_bot=author.is_other_bot,
        at=here,
        parent_session=await _session(tx, settings, here),
    )
    outcome = await spawn(tx, settings, asked)
    if isinstance(outcome, SpawnRefusal):
        return spawn_words.refused(asked.agent, outcome, by_command=True)
    ref = here.ref
    above = ref.parent_conversation_id if here.place is Place.THREAD else None
    return binding_replies.spawn_begun(asked.agent, above or ref.conversation_id)


async def _session(tx: Transaction, settings: Settings, here: Conversation) -> SessionKey | None:
    """What talks here now; in a text channel, and where nobody has asked yet, nothing does."""
    if here.place is Place.CHANNEL:
        return None
    key = await session_key_here(tx, settings, here)
    return key if await sessions.get(tx, key) else None
