"""Writes docs/config.md from the models: every key with its type, default and meaning."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from openab.config.agent import NamedAgent
from openab.config.fields import Spelled
from openab.config.keys import is_openab_key, keys_of, sections_in
from openab.config.later import LATER
from openab.config.models import Config
from openab.config.secret import Secret
from openab.config.unserved import UNSERVED
from openab.domain.database_url import DATABASE_URL_VARIABLE

_INTRODUCTION = f"""\
# Configuration

<!-- Made by ./dev docs from the models in openab/config; change those instead. -->

openab reads one TOML file: `config.toml`, or what `-c` names, a file or an `https://` address (ten seconds, 1 MiB,
UTF-8; plain `http://` works with a warning). An existing OpenAB `config.toml` loads unchanged.

`openab config check` tells everything that is wrong with it, and where; `openab config check --openab` tells what OpenAB
would refuse or ignore.

- **Variables.** `${{NAME}}` and `${{NAME:-default}}` are replaced everywhere but in comments; the default also stands in for an
  empty variable. Inside quotes the value is taken as it is; outside quotes it stands as TOML, so `max_sessions = ${{N}}` works.
  A name that is not defined is a mistake. To write such a text itself: `"\\u0024{{NAME}}"`.
- **Keys.** A key that is nearly a known one is a mistake; a stranger is ignored with a warning.
- **Ids** are strings; whole numbers are taken with all their digits, numbers with a point are refused. An `allowed_…` list that
  is written as `[]` lets everybody in, with a warning; one that is left without a usable id is a mistake.
- **Words** may be written in upper case and with `_` for `-`.
- **Changes.** On SIGHUP, or when the file changes, it is checked again. `trusted_bot_ids` and `[presentation]` take effect at
  once, everything else says that it needs a restart. A broken file changes nothing.
- **Files.** Everything openab keeps is in `$OPENAB_HOME`, by default `~/.openab`. `{DATABASE_URL_VARIABLE}` beats `[database].url`.

A key marked with ◌ is openab's own: OpenAB does not know it. *Later* means that the key is accepted and checked, and that openab
says at the start what it does instead.
"""

_OUTRO = """\
## Sections that are not served

These belong to OpenAB. They are accepted with a warning and change nothing:
"""

_NAMED_AGENTS = """\
Further agents, with the keys of `[agent]`; `command` has to be written. Sub-agents are started from them
(`spawn_subagent_sessions` in `[discord.thread_bindings]`). A name has 1 to 32 of the characters `a-z A-Z 0-9 _ -`."""
_HEAD = ("| key | type | default | meaning |", "| --- | --- | --- | --- |")
_LATER = {tuple(each.key.split(".")): each.sentence for each in LATER}


def render() -> str:
    """The whole page."""
    own = [key for key in keys_of(Config) if key not in UNSERVED]
    parts = [_INTRODUCTION]
    for key in own:
        parts += _section((key,), keys_of(Config)[key], f"[{key}]")
    parts.append(_OUTRO)
    parts.append("\n".join(f"- `[{key}]`{_keys_in(key)}" for key in sorted(UNSERVED)) + "\n")
    return "\n".join(parts)


def _section(path: tuple[str, ...], declared: FieldInfo, title: str) -> Iterator[str]:
    lies, model = sections_in(declared.annotation) or ("", BaseModel)
    name = title.strip("[]")
    member = "NAME" if model is NamedAgent else '"ID"'
    header = {"list": f"[[{name}]]", "map": f"[{name}.{member}]"}
    lines = [f"## `{header.get(lies, title)}`{_own_mark(declared)}", ""]
    if path in _LATER:
        lines += [f"*Later:* {_LATER[path]}.", ""]
    if lies == "map" and model is NamedAgent:
        yield "\n".join([*lines, _NAMED_AGENTS, ""])
        return
    keys = keys_of(model).items()
    rows = [_row((*path, key), each) for key, each in keys if not sections_in(each.annotation)]
    yield "\n".join([*lines, *(_HEAD if rows else ()), *rows, ""])
    for key, each in keys:
        if sections_in(each.annotation):
            yield from _section((*path, key), each, f"[{name}.{key}]")


def _row(path: tuple[str, ...], declared: FieldInfo) -> str:
    meaning = declared.description or ""
    if path in _LATER:
        meaning += f" *Later:* {_LATER[path]}."
    cells = (f"`{path[-1]}`{_own_mark(declared)}", _kind(declared), _default(declared), meaning)
    return "| " + " | ".join(cells) + " |"


def _own_mark(declared: FieldInfo) -> str:
    return "" if is_openab_key(declared) else " ◌"


def _kind(declared: FieldInfo) -> str:
    spelled = [each.name for each in declared.metadata if isinstance(each, Spelled)]
    return spelled[-1] if spelled else _kind_of_annotation(declared.annotation)


def _kind_of_annotation(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " · ".join(f"`{word.value}`" for word in annotation)
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        spelled = [each.name for each in inner[1:] if isinstance(each, Spelled)]
        return spelled[-1] if spelled else _kind_of_annotation(inner[0])
    return next(filter(None, map(_kind_of_annotation, inner)), "")


def _default(declared: FieldInfo) -> str:
    value = declared.default
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[]`"
    text = value.reveal() if isinstance(value, Secret) else value
    return f'`"{text}"`' if isinstance(text, str) else f"`{text}`"


def _keys_in(section: str) -> str:
    inner = sections_in(keys_of(Config)[section].annotation)
    return ": " + ", ".join(f"`{key}`" for key in keys_of(inner[1])) if inner else ""
