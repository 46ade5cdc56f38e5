"""Which session somebody means who names its conversation or its agent. Reads only."""

import sqlalchemy as sa

from openab.domain.ids import AccountId, ChannelName, ConversationId, PlatformId, SessionKey
from openab.storage.engine import Transaction
from openab.storage.schema import conversations, sessions, spawns


async def begun_in(
    tx: Transaction, channel: ChannelName, account: AccountId, place: PlatformId
) -> list[SessionKey]:
    """The sessions that a conversation is the home of, the oldest first."""
    query = (
        sa.select(sessions.c.session_key)
        .join(conversations, conversations.c.id == sessions.c.conversation)
        .where(
            conversations.c.channel == channel,
            conversations.c.account == account,
            conversations.c.conversation_id == place,
        )
        .order_by(sessions.c.created_at, sessions.c.session_key)
    )
    return [SessionKey(key) for key in (await tx.execute(query)).scalars()]


async def subagents_near(
    tx: Transaction, account: AccountId, agent: str, parent: SessionKey, here: ConversationId
) -> list[SessionKey]:
    """The sub-agents of this name that belong here, the newest first.

    Those whose thread this is, that were asked for here, or whose parent is this session.
    """
    query = (
        sa.select(spawns.c.session_key)
        .join(sessions, sessions.c.session_key == spawns.c.session_key)
        .where(
            spawns.c.account == account,
            spawns.c.agent == agent,
            sa.or_(
                sessions.c.conversation == here,
                spawns.c.requester_conversation == here,
                spawns.c.parent_session_key == parent,
            ),
        )
        .order_by(spawns.c.created_at.desc(), spawns.c.id)
    )
    found = (await tx.execute(query)).scalars()
    return list(dict.fromkeys(SessionKey(key) for key in found))
