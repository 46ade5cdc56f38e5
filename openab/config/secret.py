"""A text that must not be shown: it prints as `***`."""

from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, core_schema


class Secret:
    """Holds a text that only `reveal` gives out; `str`, `repr` and formatting show `***`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one call that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._from)

    @classmethod
    def _from(cls, value: object) -> "Secret":
        if isinstance(value, Secret):
            return value
        if not isinstance(value, str):
            raise PydanticKnownError("string_type")
        return cls(value)
