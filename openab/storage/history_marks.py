"""History marks: how far the history of each place is taken in, while the account's own mark stands still.

A reading that is cut off would else begin from its start each time, and never end where lives are short.
"""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.ids import AccountId, ChannelName, PlatformId
from openab.storage.engine import Transaction
from openab.storage.schema import history_marks

_row = history_marks.c


@dataclass(frozen=True, slots=True)
class HistoryMark:
    """Moments as message ids; None: never."""

    #: What was said in the place up to then is in the inbox.
    read_to: PlatformId | None = None
    #: So are the threads of the place that were archived up to then.
    listed_to: PlatformId | None = None


async def of_account(
    tx: Transaction, channel: ChannelName, account: AccountId
) -> dict[PlatformId, HistoryMark]:
    """All of an account's, by their places."""
    rows = await tx.execute(sa.select(history_marks).where(*_of(channel, account)))
    return {
        PlatformId(row.conversation_id): HistoryMark(_id(row.read_to), _id(row.listed_to))
        for row in rows
    }


async def keep(
    tx: Transaction,
    channel: ChannelName,
    account: AccountId,
    place: PlatformId,
    mark: HistoryMark,
) -> None:
    """Note it in the transaction that takes in the last of it; what it leaves open stays as it was."""
    told = {"read_to": mark.read_to, "listed_to": mark.listed_to}
    known = {name: moment for name, moment in told.items() if moment is not None}
    statement = postgresql.insert(history_marks).values(
        channel=channel, account=account, conversation_id=place, **known
    )
    of_place = ["channel", "account", "conversation_id"]
    await tx.execute(statement.on_conflict_do_update(index_elements=of_place, set_=known))


async def forget(
    tx: Transaction, channel: ChannelName, account: AccountId, mark: PlatformId
) -> None:
    """The account's own mark has come here: those that it has passed say nothing more."""
    passed = (_is_passed(moment, mark) for moment in (_row.read_to, _row.listed_to))
    await tx.execute(sa.delete(history_marks).where(*_of(channel, account), *passed))


def _is_passed(moment: sa.Column[str], mark: PlatformId) -> sa.ColumnElement[bool]:
    """Ids are decimal numbers of any length."""
    length = sa.func.length(moment)
    return sa.or_(
        moment.is_(None), length < len(mark), sa.and_(length == len(mark), moment <= mark)
    )


def _of(channel: ChannelName, account: AccountId) -> tuple[sa.ColumnElement[bool], ...]:
    return _row.channel == channel, _row.account == account


def _id(value: str | None) -> PlatformId | None:
    return PlatformId(value) if value else None
