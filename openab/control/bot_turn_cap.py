"""Says that bots have spoken often enough: one of the bots here, once for each time a person spoke.

Bots that share a database are single by the delivery's key. Others know their place among the bots
of the conversation, wait for those before them, and say nothing that was said meanwhile.
"""

from datetime import timedelta

import structlog

from openab.control.settings import Settings
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.errors import OpenabError
from openab.domain.gates import GatePolicy, warns_as
from openab.domain.ids import PlatformId
from openab.domain.outbound import presentation_body
from openab.ports.channel import Channel
from openab.storage import conversations, deliveries
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Owed
from openab.storage.engine import Transaction
from openab.text import notices

log = structlog.get_logger()
#: What one place costs: longer than a warning needs to be seen by the others.
_STEP = timedelta(seconds=2)
_MOST_STEPS = 5
#: A conversation with more messages than this since a person spoke is not read to its end.
_MOST_PAGES = 20
_PAGE = 100


async def owe_warning(
    tx: Transaction, settings: Settings, here: Conversation, policy: GatePolicy
) -> None:
    """The warning is owed; whoever owns the conversation sends it."""
    steps = min(warns_as(settings.account, here.bots.other_bots), _MOST_STEPS)
    since = here.bots.last_human or here.ref.conversation_id
    await deliveries.owe(
        tx,
        Owed(
            account=settings.account,
            conversation=here.id,
            # The place and the message, not our row: every bot of this database makes the same key.
            key=f"cap:{settings.channel}:{here.ref.conversation_id}:{since}",
            kind=DeliveryKind.CREATE,
            purpose=Purpose.CAP_WARNING,
            body=presentation_body(
                notices.bot_turn_limit(here.bots.turns, max(1, policy.max_bot_turns))
            ),
            seq=await conversations.take_seq(tx, here.id),
            not_before=await tx.now() + steps * _STEP,
        ),
    )
    log.info("bot_turn_cap_reached", conversation=here.id, turns=here.bots.turns)


async def is_said(channel: Channel, here: Conversation, call: timedelta) -> bool:
    """Whether a warning stands there already, or is not due any more because a person wrote."""
    if not here.bots.turns:
        return True
    after = here.bots.last_human or here.ref.conversation_id
    try:
        return await _stands(channel, here.ref.conversation_id, after, call)
    except OpenabError as error:
        # Said twice is better than never.
        log.info("bot_turn_cap_not_looked_up", conversation=here.id, error=str(error))
        return False


async def _stands(channel: Channel, where: PlatformId, after: PlatformId, call: timedelta) -> bool:
    for _ in range(_MOST_PAGES):
        seen = await channel.history(where, after=after, limit=_PAGE, seconds=call.total_seconds())
        if any(notices.is_bot_turn_limit(message.content) for message in seen):
            return True
        if len(seen) < _PAGE:
            break
        after = seen[-1].message_id
    return False
