"""What the first message of a session asks of the broker itself, in the lines at its head."""

from dataclasses import dataclass

from openab.control.bound_sessions import session_key_here
from openab.control.settings import Settings
from openab.storage import sessions, turns
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.text.directives import Header, message_header


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for, and the text without it."""

    text: str
    #: As it was written: `@name`, or something that is no name, which is refused by the folder's maker.
    workspace: str | None = None
    title: str | None = None


async def wishes_of(
    tx: Transaction, settings: Settings, text: str, here: Conversation, *, opens_thread: bool
) -> Wishes:
    """The message's wishes; a message that is not the first one has none, its text is all its own."""
    is_header = text.lstrip().startswith("[[")
    if not is_header or not (opens_thread or await _is_first(tx, settings, here)):
        return Wishes(text)
    header = message_header(text)
    return Wishes(header.body.strip(), _workspace(header), header.directives.get("title"))


def _workspace(header: Header) -> str | None:
    invalid = next((each.value for each in header.invalid if each.key == "ws"), None)
    return header.directives.get("ws", invalid)


async def _is_first(tx: Transaction, settings: Settings, here: Conversation) -> bool:
    """Whether no agent has been opened for the session yet, and nothing waits for it."""
    session = await sessions.get(tx, await session_key_here(tx, settings, here))
    if session is None:
        return True
    return session.acp_session_id is None and not await turns.open_of(tx, here.id)
