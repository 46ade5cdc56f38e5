"""The parts of the ACP SDK that we use, loaded without the rest."""

import importlib.util
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp.connection import Connection
    from acp.exceptions import RequestError

__all__ = ["Connection", "RequestError"]


def _load() -> tuple[ModuleType, ModuleType]:
    """Import two modules of the package without running its own `__init__`.

    That one builds every model of the schema: most of a second, in which all turns would stand
    still, and 14 MB, for nothing that we use. Whoever imports the package later gets it whole.
    """
    found = importlib.util.find_spec("acp")
    is_whole = found is None or "acp" in sys.modules
    if found is not None and not is_whole:
        shell = ModuleType("acp")
        shell.__path__ = list(found.submodule_search_locations or ())
        sys.modules["acp"] = shell
    try:
        return import_module("acp.connection"), import_module("acp.exceptions")
    finally:
        if not is_whole:
            del sys.modules["acp"]


if not TYPE_CHECKING:
    _connection, _exceptions = _load()
    Connection, RequestError = _connection.Connection, _exceptions.RequestError
