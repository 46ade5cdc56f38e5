"""The counts that all processes of an account share, on both dialects."""

from datetime import timedelta

import pytest

from openab.domain.binding import EndReason
from openab.domain.ids import AccountId, ChannelName
from openab.storage import accounts, counts
from openab.storage.engine import Database
from tests.builders import ACCOUNT
from tests.conformance.binding_stage import Network

DISCORD, SOL = ChannelName("discord"), AccountId("100")


@pytest.fixture
async def moved(database: Database) -> list[timedelta]:
    """The offset of the database's clock, which the test moves."""
    offset = [timedelta()]
    database.offset = lambda: offset[0]
    async with database.transaction() as tx:
        await accounts.ensure(tx, DISCORD, SOL, "Sol")
    return offset


async def test_identifies_are_counted_per_day(database: Database, moved: list[timedelta]) -> None:
    async with database.transaction() as tx:
        assert await counts.count_identifies(tx, DISCORD, SOL, 2) == 2
        assert await counts.count_identifies(tx, DISCORD, SOL, 1) == 3
    moved[0] = timedelta(days=1)
    async with database.transaction() as tx:
        assert await counts.count_identifies(tx, DISCORD, SOL, 1) == 1


async def test_invalid_requests_are_counted_per_ten_minutes(
    database: Database, moved: list[timedelta]
) -> None:
    async with database.transaction() as tx:
        assert await counts.count_invalid(tx, DISCORD, SOL, 3) == 3
    moved[0] = timedelta(minutes=9)
    async with database.transaction() as tx:
        assert await counts.count_invalid(tx, DISCORD, SOL, 1) == 4
    moved[0] = timedelta(minutes=11)
    async with database.transaction() as tx:
        assert await counts.count_invalid(tx, DISCORD, SOL, 1) == 1


async def test_an_account_without_turns_has_none_open(
    database: Database, moved: list[timedelta]
) -> None:
    async with database.read() as tx:
        assert await counts.open_turns(tx, SOL) == {}
        assert await counts.open_bindings(tx, SOL) == {}
    assert moved == [timedelta()]


async def test_bindings_are_counted_while_people_may_still_be_told(database: Database) -> None:
    net = Network(database, "rooms")
    session = await net.session("40")
    for place in ("50", "51", "52"):
        await net.bind(session, place)
    await net.unbind((await net.bind(session, "53")).binding_id)
    await net.unbind((await net.bind(session, "54")).binding_id, EndReason.ARCHIVED)
    async with database.read() as tx:
        assert await counts.open_bindings(tx, ACCOUNT) == {"active": 3, "ending": 1}
        assert await counts.open_bindings(tx, SOL) == {}
