"""Accounts: a bot's own facts on a channel."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.ids import AccountId, ChannelName, PlatformId
from openab.storage.engine import Transaction
from openab.storage.schema import accounts


async def ensure(
    tx: Transaction,
    channel: ChannelName,
    account: AccountId,
    name: str,
    mark: PlatformId | None = None,
) -> None:
    """Make the account's row, or bring its name up to date.

    `mark` is this moment as a message id: an account that has heard nothing yet hears from here on.
    """
    statement = postgresql.insert(accounts).values(
        channel=channel, account=account, name=name, intake_mark=mark, first_mark=mark
    )
    told = statement.excluded
    is_deaf = accounts.c.intake_mark.is_(None)
    await tx.execute(
        statement.on_conflict_do_update(
            index_elements=["channel", "account"],
            set_={
                "name": told.name,
                "intake_mark": sa.func.coalesce(accounts.c.intake_mark, told.intake_mark),
                "first_mark": sa.case((is_deaf, told.first_mark), else_=accounts.c.first_mark),
            },
        )
    )


async def move_mark(
    tx: Transaction, channel: ChannelName, account: AccountId, mark: PlatformId
) -> None:
    """The greatest message id that was committed to the inbox; it never goes back."""
    longer = sa.func.length(accounts.c.intake_mark) < len(mark)
    same_length = sa.func.length(accounts.c.intake_mark) == len(mark)
    is_less = sa.or_(
        accounts.c.intake_mark.is_(None), longer, same_length & (accounts.c.intake_mark < mark)
    )
    await tx.execute(
        sa.update(accounts)
        .where(accounts.c.channel == channel, accounts.c.account == account, is_less)
        .values(intake_mark=mark)
    )


async def note_outbound(tx: Transaction, channel: ChannelName, account: AccountId) -> None:
    """The bot, or a webhook of its own, has just been heard; an earlier moment changes nothing."""
    now = await tx.now()
    is_earlier = sa.or_(accounts.c.last_outbound_at.is_(None), accounts.c.last_outbound_at < now)
    await tx.execute(
        sa.update(accounts)
        .where(accounts.c.channel == channel, accounts.c.account == account, is_earlier)
        .values(last_outbound_at=now)
    )


async def command_digest(tx: Transaction, channel: ChannelName, account: AccountId) -> str | None:
    """The digest of the command definitions that were registered last."""
    result = await tx.execute(
        sa.select(accounts.c.command_digest).where(
            accounts.c.channel == channel, accounts.c.account == account
        )
    )
    row = result.one_or_none()
    return row.command_digest if row else None


async def keep_command_digest(
    tx: Transaction, channel: ChannelName, account: AccountId, digest: str
) -> None:
    """Remember which command definitions are registered."""
    await tx.execute(
        sa.update(accounts)
        .where(accounts.c.channel == channel, accounts.c.account == account)
        .values(command_digest=digest)
    )
