"""The kinds of values that keys have, and how a key is declared."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

from openab.config.secret import Secret
from openab.domain.ids import PlatformId

_SNOWFLAKE = re.compile(r"[1-9][0-9]{0,19}")
_SHOWN_LENGTH = 30
# In any unit; the greatest number of days that a duration holds is not much more.
_GREATEST_DURATION = 10**8
_GREATEST_ID = 2**64 - 1
_FLOAT_REMEDY = 'write the id in quotes, "…": a number with a point or an exponent has lost digits'

#: Defaults of switches, by name so that declarations read as sentences.
ON: Final = True
OFF: Final = False

Value = TypeVar("Value")


class Section(BaseModel):
    """A table of the file. Immutable; defaults are checked like written values."""

    model_config = ConfigDict(
        frozen=True, validate_default=True, populate_by_name=True, arbitrary_types_allowed=True
    )


@dataclass(frozen=True, slots=True)
class Spelled:
    """How the documentation names a kind of value."""

    name: str


@dataclass(frozen=True, slots=True)
class IdList:
    """Marks a list of platform ids: ids that are none are dropped with a caution."""


def theirs(default: Any, meaning: str, **more: Any) -> Any:
    """A key that OpenAB knows too."""
    return Field(default, description=meaning, json_schema_extra={"openab": True}, **more)


def ours(default: Any, meaning: str, **more: Any) -> Any:
    """A key that only openab knows."""
    return Field(default, description=meaning, json_schema_extra={"openab": False}, **more)


def wrong(message: str, remedy: str = "") -> PydanticCustomError:
    """A value that cannot be used; raise it in a validator."""
    return PydanticCustomError("openab", "{message}", {"message": message, "remedy": remedy})


def platform_id(value: object) -> PlatformId:
    """An id from a string or an integer, with all its digits. Raises PydanticCustomError."""
    if isinstance(value, float):
        raise wrong(f"{value!r} is no id", _FLOAT_REMEDY)
    text = str(value).strip() if isinstance(value, str | int) else ""
    if isinstance(value, bool) or not _SNOWFLAKE.fullmatch(text) or int(text) > _GREATEST_ID:
        raise wrong(f"{shown(value)} is no id", "an id has only digits, up to 20")
    return PlatformId(text)


def _foreign_id(value: object) -> str:
    """An id on any chat network: not only digits, but still no number that lost some."""
    if isinstance(value, float):
        raise wrong(f"{value!r} is no id", _FLOAT_REMEDY)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise wrong(f"an id is expected, not {kind_of(value)}", 'write it in quotes, "…"')
    return str(value)


def _count_of(unit: str) -> Any:
    def to_timedelta(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value if isinstance(value, timedelta) else _no_number(value)
        if not 0 <= value <= _GREATEST_DURATION:
            raise wrong(f"{value} is out of range", "write a number from 0 to 100000000")
        return timedelta(**{unit: value})

    return BeforeValidator(to_timedelta)


def _no_number(value: object) -> object:
    remedy = "write it without quotes" if isinstance(value, str) else ""
    raise wrong(f"a number is expected, not {kind_of(value)}", remedy)


def shown(value: object) -> str:
    """The value for a message; a long text may be a token in the wrong place and is not repeated."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= _SHOWN_LENGTH else f"a text of {len(value)} characters"
    return str(value)


def kind_of(value: object) -> str:
    """What TOML calls a value of this kind."""
    names: dict[type, str] = {
        bool: "true or false",
        int: "a whole number",
        float: "a number with a point",
        str: "a string",
        list: "an array",
        dict: "a table",
    }
    return names.get(type(value), "a date or time")


def _nothing_if_zero(value: timedelta) -> timedelta | None:
    return value or None


def _more_than_nothing(value: timedelta) -> timedelta:
    if not value:
        raise wrong("0 is not allowed here", "write a greater number")
    return value


def _at_least_one(value: object) -> object:
    if value == 0 and not isinstance(value, bool):
        raise wrong("0 is not allowed here", "write 1 or more")
    return value


def freeze(value: Mapping[str, Value]) -> Mapping[str, Value]:
    """The same mapping, read-only."""
    return MappingProxyType(dict(value))


Text = Annotated[str, Strict(), Spelled("string")]
#: As long as what is stored of a reaction.
Face = Annotated[str, Strict(), Field(max_length=64), Spelled("string")]
Flag = Annotated[bool, Strict(), Spelled("true or false")]
Whole = Annotated[int, Strict(), Field(ge=0, le=2**63 - 1), Spelled("whole number")]
Count = Annotated[
    int,
    Strict(),
    Field(ge=1, le=2**63 - 1),
    BeforeValidator(_at_least_one),
    Spelled("whole number from 1"),
]
Texts = Annotated[tuple[Text, ...], Spelled("list of strings")]
Hidden = Annotated[Secret, Spelled("string, never shown")]
Id = Annotated[PlatformId, BeforeValidator(platform_id), Spelled("id")]
Ids = Annotated[frozenset[PlatformId], IdList(), Spelled("list of ids")]
ForeignId = Annotated[str, BeforeValidator(_foreign_id), Spelled("id")]
TextMap = Annotated[Mapping[str, Text], AfterValidator(freeze), Spelled("table of strings")]
HiddenMap = Annotated[Mapping[str, Hidden], AfterValidator(freeze), Spelled("table of strings")]
Milliseconds = Annotated[timedelta, _count_of("milliseconds"), Spelled("number")]
Seconds = Annotated[timedelta, _count_of("seconds"), Spelled("number")]
SomeMilliseconds = Annotated[Milliseconds, AfterValidator(_more_than_nothing)]
SomeSeconds = Annotated[Seconds, AfterValidator(_more_than_nothing)]
Minutes = Annotated[timedelta, _count_of("minutes"), Spelled("number")]
Days = Annotated[timedelta, _count_of("days"), Spelled("number")]
HoursOrNever = Annotated[
    timedelta | None,
    AfterValidator(_nothing_if_zero),
    _count_of("hours"),
    Spelled("number"),
]
