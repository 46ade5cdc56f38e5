"""Accounts: a bot's own facts on a channel."""

from datetime import timedelta

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


_OF = sa.update(accounts).where(
    accounts.c.channel == sa.bindparam("of_channel"), accounts.c.account == sa.bindparam("of")
)
_MARK: sa.BindParameter[str] = sa.bindparam("mark", type_=sa.String)
_MOVE_MARK = _OF.where(
    sa.or_(
        accounts.c.intake_mark.is_(None),
        sa.func.length(accounts.c.intake_mark) < sa.func.length(_MARK),
        sa.and_(
            sa.func.length(accounts.c.intake_mark) == sa.func.length(_MARK),
            accounts.c.intake_mark < _MARK,
        ),
    )
).values(intake_mark=_MARK)
_NOTE_OUTBOUND = _OF.where(
    sa.or_(
        accounts.c.last_outbound_at.is_(None),
        accounts.c.last_outbound_at < sa.bindparam("before"),
    )
).values(last_outbound_at=sa.bindparam("at"))
#: The row is everybody's: who is right to a second writes nothing, and waits for nobody.
_OUTBOUND_EXACT = timedelta(seconds=1)


async def move_mark(
    tx: Transaction, channel: ChannelName, account: AccountId, mark: PlatformId
) -> None:
    """The greatest message id that was committed to the inbox; it never goes back."""
    await tx.execute(_MOVE_MARK, {"of_channel": channel, "of": account, "mark": mark})


async def note_outbound(tx: Transaction, channel: ChannelName, account: AccountId) -> None:
    """The bot, or a webhook of its own, has just been heard: kept to a second, and never moved back."""
    now = await tx.now()
    told = {"of_channel": channel, "of": account, "at": now, "before": now - _OUTBOUND_EXACT}
    await tx.execute(_NOTE_OUTBOUND, told)


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
