"""What a changed configuration changes at once, and what has to wait for a restart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from openab.config.fields import Section
from openab.config.findings import Path, spell_path
from openab.config.keys import keys_of
from openab.config.models import Config

#: Keys whose change takes effect in a running process.
LIVE: tuple[Path, ...] = (("discord", "trusted_bot_ids"), ("presentation",))


@dataclass(frozen=True, slots=True)
class Reload:
    """The changed keys, by what they need."""

    now: tuple[str, ...]
    restart: tuple[str, ...]


def check_reload(old: Config, new: Config) -> Reload:
    """Compare two configurations key by key."""
    changed = list(_changed(old, new, ()))
    live = [path for path in changed if any(path[: len(each)] == each for each in LIVE)]
    return Reload(
        now=tuple(spell_path(path) for path in live),
        restart=tuple(spell_path(path) for path in changed if path not in live),
    )


def with_live_keys(old: Config, new: Config) -> Config:
    """The old configuration with those of the new one's values that take effect at once."""
    discord = old.discord.model_copy(update={"trusted_bot_ids": new.discord.trusted_bot_ids})
    return old.model_copy(update={"discord": discord, "presentation": new.presentation})


def _changed(old: object, new: object, path: Path) -> Iterator[Path]:
    if old == new:
        return
    if isinstance(old, Section) and isinstance(new, Section):
        names = zip(type(old).model_fields, keys_of(type(old)), strict=True)
        for name, key in names:
            yield from _changed(getattr(old, name), getattr(new, name), (*path, key))
    elif isinstance(old, Mapping) and isinstance(new, Mapping) and path[-1:] == ("agents",):
        for key in sorted(old.keys() | new.keys()):
            yield from _changed(old.get(key), new.get(key), (*path, key))
    else:
        yield path
