"""Finds statements that SQLAlchemy compiles anew each time they run: some part of them has no cache key."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import CacheStats

_KINDS = (sa.Insert, sa.Update, sa.Delete, sa.Select, sa.CompoundSelect)
_ANEW = {CacheStats.NO_CACHE_KEY, CacheStats.CACHING_DISABLED}


@contextmanager
def compiled_anew() -> Iterator[set[str]]:
    """Those of any engine while this is open. One costs a millisecond, each time."""
    found: set[str] = set()

    def look(
        _connection: Any, _cursor: Any, statement: str, _values: Any, context: Any, _many: bool
    ) -> None:
        compiled = getattr(context, "compiled", None)
        if isinstance(getattr(compiled, "statement", None), _KINDS) and context.cache_hit in _ANEW:
            found.add(statement)

    sa.event.listen(sa.Engine, "after_cursor_execute", look)
    try:
        yield found
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", look)
