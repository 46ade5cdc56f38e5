"""Sessions: one agent's memory of a conversation, and how to find it again."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.ids import AcpSessionId, ConversationId, Incarnation, SessionKey
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.schema import sessions


@dataclass(frozen=True, slots=True)
class Session:
    """A session as it was read. `epoch` guards commands to its agent."""

    key: SessionKey
    conversation: ConversationId
    epoch: int
    agent: str
    working_dir: str
    acp_session_id: AcpSessionId | None
    incarnation: Incarnation | None
    generation: int


async def ensure(
    tx: Transaction, conversation: Conversation, *, agent: str, working_dir: str
) -> Session:
    """The default agent's session here, made if need be; agent and folder stay as they were first."""
    key = conversation.ref.session_key()
    found = await get(tx, key)
    if found:
        return found
    now = await tx.now()
    statement = postgresql.insert(sessions).values(
        session_key=key,
        channel=conversation.ref.channel,
        account=conversation.ref.account,
        conversation=conversation.id,
        agent=agent,
        working_dir=working_dir,
        created_at=now,
        last_activity_at=now,
    )
    await tx.execute(statement.on_conflict_do_nothing())
    made = await get(tx, key)
    assert made is not None
    return made


async def get(tx: Transaction, key: SessionKey) -> Session | None:
    """The session of this key, if there is one."""
    result = await tx.execute(sa.select(sessions).where(sessions.c.session_key == key))
    row = result.one_or_none()
    return _session(row) if row else None


async def take(tx: Transaction, key: SessionKey, incarnation: Incarnation) -> Session:
    """Raise the session's epoch for a new commander; whoever held the former one is refused from now on."""
    result = await tx.execute(
        sa.update(sessions)
        .where(sessions.c.session_key == key)
        .values(
            epoch=sessions.c.epoch + 1,
            incarnation=incarnation,
            last_activity_at=await tx.now(),
        )
        .returning(sessions)
    )
    return _session(result.one())


async def remember_agent(tx: Transaction, key: SessionKey, acp_session_id: AcpSessionId) -> None:
    """Keep the id under which the agent finds its memory again."""
    await tx.execute(
        sa.update(sessions)
        .where(sessions.c.session_key == key)
        .values(acp_session_id=acp_session_id)
    )


async def listed(tx: Transaction, limit: int = 200) -> list[dict[str, Any]]:
    """The sessions for people, the latest active first."""
    result = await tx.execute(
        sa.select(sessions).order_by(sessions.c.last_activity_at.desc()).limit(limit)
    )
    return [dict(row) for row in result.mappings()]


def _session(row: Any) -> Session:
    return Session(
        key=SessionKey(row.session_key),
        conversation=ConversationId(row.conversation),
        epoch=row.epoch,
        agent=row.agent,
        working_dir=row.working_dir,
        acp_session_id=AcpSessionId(row.acp_session_id) if row.acp_session_id else None,
        incarnation=Incarnation(row.incarnation) if row.incarnation else None,
        generation=row.generation,
    )
