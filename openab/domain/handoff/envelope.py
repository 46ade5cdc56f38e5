"""The envelope: one complete request from one bot to another, good once and for a short time."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from openab.domain.handoff.limits import LIFE
from openab.domain.ids import AccountId, ConversationRef, PlatformId
from openab.domain.message import Place

#: What any version's schema begins with.
SCHEMA_FAMILY = "openab.multibot.handoff"
SCHEMA = "openab.multibot.handoff.v1"


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the wire carries; `hop_count` is always 0 and the schema always `SCHEMA`."""

    source: PlatformId
    target: PlatformId
    #: A UUID in its usual form, lower case: other spellings are the same event.
    event_id: str
    #: The conversation itself, also where that is a thread.
    origin_channel: PlatformId
    #: The same once more in a thread, else None.
    origin_thread: PlatformId | None
    #: The message that the sender's turn came from.
    origin_message: PlatformId | None
    #: Unix seconds.
    expires_at: int
    #: The receiver's prompt, byte for byte.
    text: str


def draft(
    source: AccountId,
    target: PlatformId,
    where: ConversationRef,
    place: Place,
    trigger: PlatformId | None,
    event_id: UUID,
    now: datetime,
    text: str,
) -> Envelope:
    """A new envelope; `event_id` is the caller's fresh uuid4. Nothing is checked here: see `written`."""
    here = where.conversation_id
    return Envelope(
        source=PlatformId(source),
        target=target,
        event_id=str(event_id),
        origin_channel=here,
        origin_thread=here if place is Place.THREAD else None,
        origin_message=trigger,
        expires_at=_expiry(now),
        text=text,
    )


def reissued(envelope: Envelope, now: datetime) -> Envelope:
    """The same event with a new expiry: only while no byte of any version can have left."""
    return replace(envelope, expires_at=_expiry(now))


def _expiry(now: datetime) -> int:
    return int((now + LIFE).timestamp())
