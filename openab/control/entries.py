"""The inbox row of an event, and what it means that there is one already."""

from openab.control.settings import Settings
from openab.domain.errors import OpenabError
from openab.domain.gates import Verdict
from openab.domain.message import InboundMessage, InboundReaction
from openab.storage.inbox import Entry


class Duplicate(OpenabError):
    """The event was committed before; its savepoint is rolled back."""


def entry_of(
    settings: Settings, event: InboundMessage | InboundReaction, verdict: Verdict
) -> Entry:
    """The inbox row of an event."""
    is_reaction = isinstance(event, InboundReaction)
    return Entry(
        account=settings.account,
        kind="reaction" if is_reaction else "message",
        event_key=_key(event),
        conversation_id=event.conversation.conversation_id,
        author_id=event.author.id,
        disposition=verdict.disposition,
        reason=verdict.reason,
    )


def _key(event: InboundMessage | InboundReaction) -> str:
    return event.key if isinstance(event, InboundReaction) else event.message_id
