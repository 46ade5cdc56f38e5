"""From a file or an address to one checked configuration, or to every mistake in it."""

import asyncio
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from openab.config.agent import complete_agent, complete_named_agent
from openab.config.fetch import is_remote, read_file, read_source
from openab.config.findings import Caution, ConfigInvalid, Mistake, in_file_order
from openab.config.keys import Findings, tidy
from openab.config.models import Config
from openab.config.paths import openab_home, user_home
from openab.config.positions import positions
from openab.config.remarks import remark, renamed_sections
from openab.config.substitute import Substituted, substitute
from openab.config.translate import explain, path_of
from openab.domain.database_url import (
    DATABASE_URL_VARIABLE,
    DatabaseAddress,
    DatabaseUrlInvalid,
    database_address,
)

_TOML_PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that can be used, where it came from, and what its author should know."""

    config: Config
    database: DatabaseAddress
    cautions: tuple[Caution, ...]
    source: str


def load(source: str, environ: Mapping[str, str]) -> Loaded:
    """Read and check a file or an address. Raises ConfigInvalid with every mistake.

    An address is fetched in an event loop of its own; inside a loop use `read_source`, then `check`.
    """
    text = asyncio.run(read_source(source)) if is_remote(source) else read_file(source)
    return check(text, environ, source)


def check(text: str, environ: Mapping[str, str], source: str) -> Loaded:
    """Check a text that was read from `source`. Raises ConfigInvalid with every mistake."""
    substituted = substitute(text.replace("\r\n", "\n"), environ)
    table = _parse(substituted)
    found = Findings(positions(substituted.text))
    written = tidy(Config, renamed_sections(table, found), found)
    config = _validate(written, environ, found)
    database = _database(written, environ, found)
    if config is not None:
        remark(written, config, source, found)
    cautions = in_file_order(found.cautions)
    follow = _not_because_of(substituted.mistakes, found.mistakes)
    if substituted.mistakes or follow or config is None or database is None:
        raise ConfigInvalid(in_file_order([*substituted.mistakes, *follow]), cautions)
    return Loaded(config, database, tuple(cautions), source)


def _parse(substituted: Substituted) -> dict[str, Any]:
    """The table. What is no TOML cannot be checked further."""
    try:
        return tomllib.loads(substituted.text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        place = _TOML_PLACE.search(said)
        line = int(place["line"]) if place and place["line"] else substituted.text.count("\n") + 1
        message = f"this is no TOML: {_TOML_PLACE.sub('', said)}"
        broken = Mistake("", line, message, "TOML is explained at https://toml.io")
        raise ConfigInvalid(in_file_order([*substituted.mistakes, broken])) from None


def _validate(
    written: Mapping[str, Any], environ: Mapping[str, str], found: Findings
) -> Config | None:
    completed = dict(written)
    if isinstance(completed.setdefault("agent", {}), dict):
        completed["agent"] = complete_agent(completed["agent"], environ)
    if isinstance(agents := completed.get("agents"), dict):
        completed["agents"] = {
            name: complete_named_agent(each, environ) if isinstance(each, dict) else each
            for name, each in agents.items()
        }
    try:
        return Config.model_validate(completed)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            found.mistake(path_of(each), *explain(each))
        return None


def _database(
    written: Mapping[str, Any], environ: Mapping[str, str], found: Findings
) -> DatabaseAddress | None:
    section = written.get("database")
    configured = section.get("url", "") if isinstance(section, dict) else ""
    if not isinstance(configured, str):
        return None
    home, folder = str(user_home(environ)), str(openab_home(environ))
    try:
        return database_address(environ, configured, home=home, folder=folder)
    except DatabaseUrlInvalid as error:
        if environ.get(DATABASE_URL_VARIABLE):
            found.mistakes.append(
                Mistake(f"${DATABASE_URL_VARIABLE}", None, error.message, error.remedy)
            )
        else:
            found.mistake(("database", "url"), error.message, error.remedy)
        return None


def _not_because_of(causes: tuple[Mistake, ...], mistakes: list[Mistake]) -> list[Mistake]:
    """Mistakes without those on a line where a name was missing: they only follow from that."""
    lines = {cause.line for cause in causes}
    return [each for each in mistakes if each.line is None or each.line not in lines]
