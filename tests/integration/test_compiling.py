"""The check that every conformance test ends with sees what it is there for."""

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from openab.storage.engine import Database
from openab.storage.schema import accounts
from tests.compiling import compiled_anew


async def test_a_statement_without_a_cache_key_is_found(database: Database) -> None:
    class Keyless(sa.ColumnElement[int]):
        inherit_cache = True
        type = sa.Integer()

    @compiles(Keyless)
    def _seven(_element: Keyless, _compiler: object, **_options: object) -> str:
        return "7"

    with compiled_anew() as found:
        async with database.read() as tx:
            await tx.execute(sa.select(accounts.c.account))
            await tx.execute(sa.select(Keyless().label("seven")))
    assert found == {"SELECT 7 AS seven"}
