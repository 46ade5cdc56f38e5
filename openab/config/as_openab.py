"""Judges a file as OpenAB would read it: what it would refuse, and what it would ignore in silence."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from openab.config.fields import IdList, kind_of
from openab.config.findings import Caution, ConfigInvalid, Mistake, Path, in_file_order
from openab.config.keys import Findings, closest, is_openab_key, keys_of, sections_in
from openab.config.lexer import REFERENCE
from openab.config.models import Config
from openab.config.positions import Positions, positions
from openab.config.translate import explain, path_of
from openab.config.unserved import OTHER_CHATS

_WITH_DEFAULT = re.compile(r"\$\{\w+:-")


def judge_as_openab(text: str, environ: Mapping[str, str]) -> tuple[Caution, ...]:
    """What OpenAB would make of the text otherwise than written. Raises ConfigInvalid."""
    found = Findings(Positions({}))
    _judge_references(text, environ, found)
    expanded = REFERENCE.sub(lambda name: _expand(name, environ), text.replace("\r\n", "\n"))
    try:
        table = tomllib.loads(expanded)
    except tomllib.TOMLDecodeError as error:
        broken = Mistake("", None, f"this is no TOML once values are put in: {error}")
        raise ConfigInvalid([broken], found.cautions) from None
    found.positions = positions(expanded)
    _validate(_judge_keys(Config, table, found, ()), found)
    cautions = tuple(in_file_order(found.cautions))
    if found.mistakes:
        raise ConfigInvalid(in_file_order(found.mistakes), cautions)
    return cautions


def _expand(name: re.Match[str], environ: Mapping[str, str]) -> str:
    return name[0] if name["fallback"] is not None else environ.get(name["name"], "")


def _judge_references(text: str, environ: Mapping[str, str], found: Findings) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        for name in REFERENCE.finditer(line):
            if name["fallback"] is not None:
                said = "OpenAB knows no defaults, it takes this as it stands"
                found.cautions.append(Caution("", number, said, f"write ${{{name['name']}}}"))
            elif name["name"] not in environ:
                said = f"${{{name['name']}}} is not defined, OpenAB makes it an empty text"
                found.cautions.append(Caution("", number, said, f"set {name['name']}"))


def _judge_keys(
    model: type[BaseModel], table: Mapping[str, Any], found: Findings, path: Path
) -> dict[str, Any]:
    """What OpenAB sees of a table; every key that it does not see is told."""
    known = {key: each for key, each in keys_of(model).items() if is_openab_key(each)}
    seen: dict[str, Any] = {}
    for key, value in table.items():
        place = (*path, key)
        if key not in known:
            meant = closest(key, known)
            found.caution(
                place, "OpenAB ignores this in silence", f"did you mean `{meant}`?" if meant else ""
            )
        elif any(isinstance(each, IdList) for each in known[key].metadata):
            seen[key] = _judge_ids(value, found, place)
        else:
            seen[key] = _judge_sections(sections_in(known[key].annotation), value, found, place)
    return seen


def _judge_sections(
    inner: tuple[str, type[BaseModel]] | None, value: Any, found: Findings, path: Path
) -> Any:
    if inner and inner[0] == "list" and isinstance(value, list):
        one = ("one", inner[1])
        return [_judge_sections(one, each, found, (*path, n)) for n, each in enumerate(value)]
    if inner and isinstance(value, dict):
        return _judge_keys(inner[1], value, found, path)
    return value


def _judge_ids(value: Any, found: Findings, path: Path) -> Any:
    if not isinstance(value, list):
        return value
    for position, each in enumerate(value):
        if not isinstance(each, str):
            said = f"OpenAB takes ids as strings only, not as {kind_of(each)}"
            found.mistake((*path, position), said, 'write it in quotes, "…"')
    return [each for each in value if isinstance(each, str)]


def _validate(seen: dict[str, Any], found: Findings) -> None:
    seen.setdefault("agent", {})
    if isinstance(seen["agent"], dict):
        seen["agent"].setdefault("command", "openab-agent")
    try:
        Config.model_validate(seen)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            if path_of(each) != ("discord",) or not OTHER_CHATS & seen.keys():
                found.mistake(path_of(each), *explain(each))
