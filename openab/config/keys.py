"""Compares the keys of a file with the keys that exist, and tidies lists of ids on the way."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from openab.config.fields import IdList, kind_of, platform_id
from openab.config.findings import Caution, Mistake, Path, spell_path
from openab.config.positions import Positions

#: How alike two keys are when the one is taken for a slip of the other.
_CLOSE = 0.8
_BINDINGS = "discord", "thread_bindings"
_SPAWNING = "spawn_subagent_sessions"
#: Slips that are no likeness.
_MISPLACED: Mapping[Path, str] = {
    ("thread_bindings",): "[discord.thread_bindings]",
    ("discord", "agents"): "[agents.NAME]",
    (*_BINDINGS, "spawn_subagents"): _SPAWNING,
    (*_BINDINGS, "spawn"): _SPAWNING,
    ("discord", _SPAWNING): f"thread_bindings.{_SPAWNING}",
    ("discord", "spawn_subagents"): f"thread_bindings.{_SPAWNING}",
    (_SPAWNING,): f"discord.thread_bindings.{_SPAWNING}",
    ("spawn_subagents",): f"discord.thread_bindings.{_SPAWNING}",
}


@dataclass(slots=True)
class Findings:
    """Collects what is found, with lines."""

    positions: Positions
    mistakes: list[Mistake] = field(default_factory=list)
    cautions: list[Caution] = field(default_factory=list)

    def mistake(self, path: Path, message: str, remedy: str = "") -> None:
        """Note a reason not to use the file."""
        self.mistakes.append(Mistake(spell_path(path), self.positions.line(path), message, remedy))

    def caution(self, path: Path, message: str, remedy: str = "") -> None:
        """Note something that the author should know."""
        self.cautions.append(Caution(spell_path(path), self.positions.line(path), message, remedy))


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """A section's keys as they are written, and how each was declared."""
    return {each.alias or name: each for name, each in model.model_fields.items()}


def sections_in(annotation: object) -> tuple[str, type[BaseModel]] | None:
    """If a key holds sections: how they lie in it (`one`, `list` or `map`), and their model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "one", annotation
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return sections_in(inner[0])
    for each in inner:
        if found := sections_in(each):
            if origin is tuple:
                return "list", found[1]
            return (
                "map" if isinstance(origin, type) and issubclass(origin, Mapping) else found[0]
            ), found[1]
    return None


def is_openab_key(declared: FieldInfo) -> bool:
    """Whether OpenAB knows the key too."""
    extra = declared.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("openab"))


def tidy(
    model: type[BaseModel], table: Mapping[str, Any], found: Findings, path: Path = ()
) -> dict[str, Any]:
    """The table without what nobody knows. A slip is a mistake, a stranger a caution."""
    declared = keys_of(model)
    tidied: dict[str, Any] = {}
    for key, value in table.items():
        if key in declared:
            tidied[key] = _tidy_value(declared[key], value, found, (*path, key))
        else:
            _tell_unknown(key, value, declared, found, path)
    return tidied


def _tidy_value(declared: FieldInfo, value: Any, found: Findings, path: Path) -> Any:
    if any(isinstance(each, IdList) for each in declared.metadata):
        return _tidy_ids(value, found, path)
    inner = sections_in(declared.annotation)
    if inner is None:
        return value
    return _tidy_sections(inner, value, found, path)


def _tidy_sections(
    inner: tuple[str, type[BaseModel]], value: Any, found: Findings, path: Path
) -> Any:
    lies, model = inner
    if lies == "one" and isinstance(value, dict):
        return tidy(model, value, found, path)
    if lies == "list" and isinstance(value, list):
        return [
            _tidy_sections(("one", model), each, found, (*path, n)) for n, each in enumerate(value)
        ]
    if lies == "map" and isinstance(value, dict):
        return {
            key: _tidy_sections(("one", model), each, found, (*path, key))
            for key, each in value.items()
        }
    return value


def closest(key: str, known: Mapping[str, Any]) -> str | None:
    """The known key that was probably meant, if any is close."""
    plain = key.lower().replace("-", "_")
    return next(iter(difflib.get_close_matches(plain, known, n=1, cutoff=_CLOSE)), None)


def _misplaced(path: Path, value: Any) -> str | None:
    """What was meant by a key that stands in the wrong place, or goes by another name."""
    if path[:-1] == ("agent",) and isinstance(value, dict):
        return f"[agents.{path[-1]}]"
    return _MISPLACED.get(path)


def _tell_unknown(
    key: str, value: Any, declared: Mapping[str, FieldInfo], found: Findings, path: Path
) -> None:
    if meant := _misplaced((*path, key), value) or closest(key, declared):
        found.mistake((*path, key), "there is no such key", f"did you mean `{meant}`?")
    else:
        found.caution((*path, key), "unknown to openab, ignored")


def _tidy_ids(value: Any, found: Findings, path: Path) -> Any:
    if not isinstance(value, list):
        return value
    told = len(found.mistakes)
    kept = list(_usable_ids(value, found, path))
    if value and not kept and len(found.mistakes) == told:
        remedy = "an empty list would let everybody in, so it is refused"
        found.mistake(path, "no usable id is left in the list", remedy)
    return kept


def _usable_ids(values: list[Any], found: Findings, path: Path) -> Iterator[str]:
    for position, value in enumerate(values):
        place = (*path, position)
        try:
            yield platform_id(value)
        except PydanticCustomError as error:
            remedy = str((error.context or {}).get("remedy", ""))
            if isinstance(value, float):
                found.mistake(place, error.message(), remedy)
            elif isinstance(value, str | int) and not isinstance(value, bool):
                found.caution(place, f"{error.message()}, left out", remedy)
            else:
                found.mistake(place, f"an id is expected, not {kind_of(value)}", 'write "123…"')
