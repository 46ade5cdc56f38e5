"""Column types: UTC moments, raw text as bytes, JSON documents, and the CHECK of an enum."""

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect


class UtcDateTime(sa.TypeDecorator[datetime]):
    """An aware UTC moment, kept in microseconds since 1970: the same order and value on both dialects."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002 - the base class's signature
        """Refuses naive moments: nobody could say which moment they mean."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without a time zone")
        delta = value - _EPOCH
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the base class's signature
        """Microseconds back to a moment."""
        return None if value is None else from_micros(value)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def from_micros(value: int) -> datetime:
    """The moment so many microseconds after 1970."""
    seconds, micros = divmod(value, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)


class RawText(sa.TypeDecorator[str]):
    """Any Python text, NUL and lone surrogates included, kept as UTF-8 bytes (`surrogatepass`)."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 - the base class's signature
        """Text to bytes; nothing a str can hold is refused."""
        return None if value is None else value.encode("utf-8", "surrogatepass")

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - the base class's signature
        """Bytes back to the very same text."""
        return None if value is None else bytes(value).decode("utf-8", "surrogatepass")


class JsonDocument(sa.TypeDecorator[Any]):
    """A JSON value, kept as ASCII text so that NUL and lone surrogates inside it survive both dialects."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002 - the base class's signature
        """Value to text; every character beyond ASCII, and NUL, becomes an escape."""
        return (
            None if value is None else json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        )

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002 - the base class's signature
        """Text back to the value."""
        return None if value is None else json.loads(value)


def one_of(name: str, enum: type[StrEnum], *, nullable: bool = False) -> sa.CheckConstraint:
    """The CHECK that a column holds a value of `enum`: built from it, so that both cannot differ."""
    values = ", ".join(f"'{member.value}'" for member in enum)
    test = f"{name} IN ({values})"
    return sa.CheckConstraint(f"{name} IS NULL OR {test}" if nullable else test, name=name)
