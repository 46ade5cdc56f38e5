"""Which bots' messages claim to be a hand-off: those are checked as one, and are never plain text."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openab.domain.handoff.envelope import SCHEMA_FAMILY
from openab.domain.handoff.limits import MOST_BYTES
from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind

_MENTION = re.compile(r"<@([!&]?)([0-9]+)>")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
#: Every spelling that OpenAB takes for a UUID.
_EVENT_ID = re.compile(
    rf"{_UUID}|[0-9a-f]{{32}}|\{{{_UUID}\}}|urn:uuid:{_UUID}", re.IGNORECASE | re.ASCII
)
#: A number with more digits fits no field, and Python refuses to read one of thousands.
_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message that claims to be a hand-off."""

    first_line: str
    is_too_large: bool
    #: None: it is no JSON object, or too large to be looked at.
    document: Mapping[str, Any] | None = field(default=None, repr=False)
    has_duplicate_key: bool = False

    @property
    def named(self) -> PlatformId | None:
        """The user whom the first line mentions: whom the message is addressed to."""
        found = _MENTION.fullmatch(self.first_line.strip())
        return PlatformId(found[2]) if found and found[1] != "&" else None

    @property
    def event_id(self) -> str | None:
        """The event that it says it is, in the one spelling that we keep."""
        return event_id_of(self.document.get("event_id")) if self.document else None


def candidate(text: str, author: AuthorKind) -> Candidate | None:
    """The claim that a message makes; None: it makes none, so it is text like any other.

    A person's or a webhook's message never makes one, nor does a text that only quotes an envelope.
    """
    if author not in {AuthorKind.BOT, AuthorKind.SELF}:
        return None
    first_line, _, rest = text.partition("\n")
    if not _MENTION.fullmatch(first_line.strip()):
        return None
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        return Candidate(first_line, is_too_large=True) if _looks_like_one(rest) else None
    read = _read(rest)
    if read is None:
        return Candidate(first_line, is_too_large=False) if _looks_like_one(rest) else None
    if not any(_is_of_family(schema) for schema in read.schemas):
        return None
    return Candidate(
        first_line,
        is_too_large=False,
        document=read.document,
        has_duplicate_key=read.has_duplicate_key,
    )


def event_id_of(value: object) -> str | None:
    """The UUID in its usual form, lower case, whichever way it was written; None: it is none."""
    if not isinstance(value, str) or not _EVENT_ID.fullmatch(value):
        return None
    digits = re.sub(r"urn:uuid:|[{}-]", "", value.lower())
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _looks_like_one(rest: str) -> bool:
    return rest.lstrip().startswith("{") and SCHEMA_FAMILY in rest


def _is_of_family(schema: object) -> bool:
    return isinstance(schema, str) and schema.startswith(SCHEMA_FAMILY)


@dataclass(slots=True)
class _Read:
    document: Mapping[str, Any] = field(default_factory=dict)
    #: Every value that the outermost object gives for `schema`.
    schemas: tuple[object, ...] = ()
    has_duplicate_key: bool = False

    def take(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """One object; the outermost is read last."""
        made = dict(pairs)
        self.has_duplicate_key |= len(made) < len(pairs)
        self.schemas = tuple(value for key, value in pairs if key == "schema")
        return made


def _read(rest: str) -> _Read | None:
    """The JSON object that is all of `rest`; None: there is none."""
    read = _Read()
    try:
        found = json.loads(
            rest, object_pairs_hook=read.take, parse_int=_number, parse_constant=_refused
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    read.document = found
    return read


def _number(digits: str) -> float:
    """An int, or a float that equals none of ours: too long for any field, or a minus zero."""
    if len(digits) > _MOST_DIGITS:
        return math.inf
    return -0.0 if digits == "-0" else int(digits)


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no JSON")
