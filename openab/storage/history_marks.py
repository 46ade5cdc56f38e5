"""History marks: how far the history of each place is taken in, while the account's own mark stands still.

A reading that is cut off would else begin from its start each time, and never end where lives are short.
"""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.ids import AccountId, ChannelName, PlatformId
from openab.storage.engine import Transaction
from openab.storage.schema import history_marks

_row = history_marks.c


async def of_account(
    tx: Transaction, channel: ChannelName, account: AccountId
) -> dict[PlatformId, PlatformId]:
    """By its places: up to which moment, as a message id, all that was said there is in the inbox."""
    rows = await tx.execute(sa.select(history_marks).where(*_of(channel, account)))
    return {PlatformId(row.conversation_id): PlatformId(row.read_to) for row in rows}


async def keep(
    tx: Transaction,
    channel: ChannelName,
    account: AccountId,
    place: PlatformId,
    read_to: PlatformId,
) -> None:
    """Note it in the transaction that takes in the last of it; a later note replaces it."""
    statement = postgresql.insert(history_marks).values(
        channel=channel, account=account, conversation_id=place, read_to=read_to
    )
    of_place = ["channel", "account", "conversation_id"]
    await tx.execute(
        statement.on_conflict_do_update(index_elements=of_place, set_={"read_to": read_to})
    )


async def forget(
    tx: Transaction, channel: ChannelName, account: AccountId, mark: PlatformId
) -> None:
    """The account's own mark has come here: those that it has passed say nothing more."""
    # Ids are decimal numbers of any length.
    length = sa.func.length(_row.read_to)
    is_same = sa.and_(length == len(mark), _row.read_to <= mark)
    is_passed = sa.or_(length < len(mark), is_same)
    await tx.execute(sa.delete(history_marks).where(*_of(channel, account), is_passed))


def _of(channel: ChannelName, account: AccountId) -> tuple[sa.ColumnElement[bool], ...]:
    return _row.channel == channel, _row.account == account
