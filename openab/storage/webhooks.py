"""Webhooks: the ids of those that show sub-agents' tasks, so that their echoes are known as ours."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.ids import AccountId, PlatformId
from openab.storage.engine import Transaction
from openab.storage.schema import webhooks


async def of_parent(tx: Transaction, account: AccountId, parent: PlatformId) -> PlatformId | None:
    """The webhook of a channel, if one is known."""
    result = await tx.execute(
        sa.select(webhooks.c.webhook_id).where(
            webhooks.c.account == account, webhooks.c.parent_conversation_id == parent
        )
    )
    found = result.scalar_one_or_none()
    return PlatformId(found) if found else None


async def keep(
    tx: Transaction, account: AccountId, parent: PlatformId, webhook: PlatformId
) -> None:
    """Remember it, before anything is sent by it; a later one replaces it."""
    values = {
        "account": account,
        "parent_conversation_id": parent,
        "webhook_id": webhook,
        "made_at": await tx.now(),
    }
    statement = postgresql.insert(webhooks).values(**values)
    await tx.execute(
        statement.on_conflict_do_update(
            index_elements=["account", "parent_conversation_id"],
            set_={"webhook_id": webhook, "made_at": values["made_at"]},
        )
    )


async def forget(tx: Transaction, account: AccountId, webhook: PlatformId) -> None:
    """The network says that it is gone; nothing happens if another one took its place."""
    await tx.execute(
        sa.delete(webhooks).where(webhooks.c.account == account, webhooks.c.webhook_id == webhook)
    )


async def is_ours(tx: Transaction, account: AccountId, author: PlatformId) -> bool:
    """Whether a message's author is a webhook of this account."""
    result = await tx.execute(
        sa.select(sa.literal(1)).where(
            webhooks.c.account == account, webhooks.c.webhook_id == author
        )
    )
    return result.one_or_none() is not None
