"""What intake learns of a conversation from each message: who takes part, and how often bots spoke."""

from dataclasses import replace

import sqlalchemy as sa

from openab.domain.gates import counted
from openab.domain.ids import ConversationId, PlatformId, snowflake
from openab.domain.message import AuthorKind, InboundMessage, MessageKind, Place
from openab.domain.outbound import is_presentation
from openab.storage import conversations
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.schema import conversations as table


async def note(tx: Transaction, here: Conversation, message: InboundMessage) -> Conversation:
    """Remember a message before anything is decided about it; returns what is known with it."""
    is_human = message.author.kind is AuthorKind.HUMAN
    counts = not is_human and counted(here.bots, message) != here.bots
    known = await _locked(tx, here.id) if counts else here
    after = _with(known, message)
    values = _changed(known, after)
    if values:
        await tx.execute(sa.update(table).where(table.c.id == here.id).values(**values))
    return after


async def note_part(tx: Transaction, here: Conversation) -> Conversation:
    """We take part here: remembered, so that it is known when the network is not there to ask."""
    if here.is_involved:
        return here
    await conversations.mark_involved(tx, here.id)
    return replace(here, is_involved=True)


async def _locked(tx: Transaction, conversation: ConversationId) -> Conversation:
    """Counting begins with the present count: a replica may count another message right now."""
    await tx.execute(sa.select(table.c.id).where(table.c.id == conversation).with_for_update())
    return await conversations.get(tx, conversation)


def _with(known: Conversation, message: InboundMessage) -> Conversation:
    return replace(
        known,
        last_message_id=_newer(known.last_message_id, message.message_id),
        has_other_bot=known.has_other_bot or message.author.is_other_bot,
        is_involved=known.is_involved or _takes_part(message),
        bots=counted(known.bots, message),
    )


def _newer(known: PlatformId | None, seen: PlatformId) -> PlatformId:
    return known if known is not None and snowflake(known) > snowflake(seen) else seen


def _takes_part(message: InboundMessage) -> bool:
    """We have posted there; a warning, a refusal or any other notice makes nobody a participant."""
    if message.author.kind is not AuthorKind.SELF or message.kind is MessageKind.SYSTEM:
        return False
    return message.place is Place.THREAD and not is_presentation(
        message.text, silent=message.silent
    )


def _changed(known: Conversation, after: Conversation) -> dict[str, object]:
    values: dict[str, object] = {
        name: getattr(after, name)
        for name in ("last_message_id", "has_other_bot", "is_involved")
        if getattr(after, name) != getattr(known, name)
    }
    if after.bots != known.bots:
        # All together: another replica may have counted since `known` was read.
        values |= {
            "bot_turns": after.bots.turns,
            "bot_messages": after.bots.messages,
            "last_bot_author": after.bots.last_author,
            "last_human_id": after.bots.last_human,
        }
    if after.bots.other_bots != known.bots.other_bots:
        values["other_bots"] = list(after.bots.other_bots)
    return values
