"""Hand-offs for people: both ends of each that the database has, and those that were refused."""

from dataclasses import dataclass
from datetime import datetime

from openab.domain.handoff import Direction
from openab.storage import handoff_refusals, handoffs
from openab.storage.handoff_refusals import Refused
from openab.storage.handoffs import Handoff
from openab.storage.inspection import reading


@dataclass(frozen=True, slots=True)
class HandoffLine:
    """One end of a hand-off, without its text."""

    at: datetime
    account: str
    #: in | out
    direction: str
    #: owed | sent | not_sent | accepted | refused
    state: str
    #: Why it was refused or not sent.
    reason: str | None
    #: The bot at the other end.
    peer_id: str
    #: None: it had none that could be read.
    event_id: str | None
    conversation_id: str
    message_id: str | None
    turn_id: str | None
    delivery_id: str | None
    expires_at: datetime | None


async def list_handoffs(url: str, *, only_open: bool, limit: int) -> list[HandoffLine]:
    """The newest first, of every account. Raises as `inspection.list_turns`."""
    async with reading(url) as tx:
        ends = [_end(one) for one in await handoffs.listed(tx, limit, only_open=only_open)]
        if only_open:
            # What was refused or accepted is over.
            return ends
        refused = [_refused(one) for one in await handoff_refusals.listed(tx, limit)]
    return sorted(ends + refused, key=lambda line: line.at, reverse=True)[:limit]


def _end(one: Handoff) -> HandoffLine:
    return HandoffLine(
        at=one.created_at,
        account=one.account,
        direction=one.direction.value,
        state=one.state.value,
        reason=one.reason.value if one.reason else None,
        peer_id=one.peer,
        event_id=one.event_id,
        conversation_id=one.conversation_id,
        message_id=one.message_id,
        turn_id=one.turn,
        delivery_id=one.delivery,
        expires_at=one.expires_at,
    )


def _refused(one: Refused) -> HandoffLine:
    return HandoffLine(
        at=one.at,
        account=one.account,
        direction=Direction.IN.value,
        state="refused",
        reason=one.reason.value,
        peer_id=one.source,
        event_id=one.event_id,
        conversation_id=one.message.conversation_id,
        message_id=one.message.message_id,
        turn_id=None,
        delivery_id=None,
        expires_at=None,
    )
