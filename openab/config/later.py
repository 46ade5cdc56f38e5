"""Keys that are accepted although their feature comes later. Building a feature deletes its lines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openab.config.findings import Path
from openab.config.models import Config


@dataclass(frozen=True, slots=True)
class Later:
    """A key, the values of it that already work, and what happens instead for the others."""

    key: str
    works: tuple[object, ...]
    sentence: str


LATER: tuple[Later, ...] = (
    Later("agent_host.linger_minutes", (15,), "agents live inside the broker"),
    Later("agent_host.fence_minutes", (30,), "agents live inside the broker"),
    Later("cron", ({},), "nothing is prompted by the clock"),
    Later("stt", ({},), "voice messages are not transcribed"),
)


def later_notes(written: Mapping[str, Any], config: Config) -> Iterator[tuple[Path, str]]:
    """Each written key whose feature comes later, with what happens until then."""
    for later in LATER:
        path = tuple(later.key.split("."))
        if (value := _at(written, path)) is _ABSENT or _works(later, value, path, config):
            continue
        yield path, f"accepted, but its feature comes later: {later.sentence}"


_ABSENT = object()


def _at(table: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(table, Mapping) or key not in table:
            return _ABSENT
        table = table[key]
    return table


def _works(later: Later, value: Any, path: Path, config: Config) -> bool:
    if path == ("stt",):
        return not config.stt.enabled
    if path == ("cron",):
        return not config.cron.jobs and not config.cron.usercron_enabled
    if isinstance(value, list):
        return not value
    return _normal(value) in [_normal(each) for each in later.works]


def _normal(value: Any) -> Any:
    return value.lower().replace("_", "-") if isinstance(value, str) else value
