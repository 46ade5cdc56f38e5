"""Can the database be used, and is its schema the one that we need?"""

from openab.app.diagnosis.report import Found, failure, warning, well
from openab.domain.database_url import DatabaseAddress
from openab.domain.errors import OpenabError
from openab.storage.inspection import explained
from openab.storage.upgrade import SchemaAge, SchemaState, check

_PART = "database"
_UPGRADE = "type: openab db upgrade"


async def database(address: DatabaseAddress, *, upgrades_itself: bool) -> Found:
    """Look at it and change nothing."""
    try:
        state = await check(address.url)
    except (OpenabError, OSError) as error:
        return _unusable(address, str(error))
    except Exception as error:
        told = explained(error)
        if told is None:
            raise
        return _unusable(address, told)
    return _judged(address, state, upgrades_itself=upgrades_itself)


def _judged(address: DatabaseAddress, state: SchemaState, *, upgrades_itself: bool) -> Found:
    found = f"{address.masked}, schema {state.found or 'none yet'}"
    if state.age is SchemaAge.EQUAL:
        return well(_PART, found)
    if state.age is SchemaAge.NEWER:
        remedy = "install the release that upgraded it"
        return failure(_PART, f"{found}, newer than the {state.needed} of this openab", remedy)
    if not upgrades_itself:
        return failure(_PART, f"{found}, this openab needs {state.needed}", _UPGRADE)
    if state.is_in_use:
        told = f"{found}, and a broker of an earlier release is at work in it"
        return warning(_PART, told, f"stop that one first, or {_UPGRADE}")
    return well(_PART, f"{found}; openab run brings it to {state.needed}")


def _unusable(address: DatabaseAddress, told: str) -> Found:
    remedy = "correct [database].url or OPENAB_DATABASE_URL, or start the server"
    if address.is_sqlite:
        remedy = "correct [database].url or OPENAB_DATABASE_URL, or the rights of the file"
    return failure(_PART, f"{address.masked}: {told}", remedy)
