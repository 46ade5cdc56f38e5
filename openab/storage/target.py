"""Which database plain `alembic` means: the rule of every command, without openab's configuration."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from openab.domain.database_url import (
    DATABASE_URL_VARIABLE,
    DatabaseAddress,
    database_address,
    parse_database_url,
)
from openab.domain.errors import Rejected


class TargetUnclear(Rejected):
    """The configuration file cannot tell the database here; the message says what to do instead."""


def from_surroundings(
    arguments: Mapping[str, str],
    environ: Mapping[str, str] = os.environ,
    config: Path = Path("config.toml"),
) -> DatabaseAddress:
    """`-x url=…` beats the variable, that `[database].url` of ./config.toml, that the default.

    The file is read without `${…}`, which only the configuration knows: if its address needs that,
    `TargetUnclear` is raised, and `openab db` or the variable can do it.
    """
    home = environ.get("HOME") or str(Path.home())
    folder = environ.get("OPENAB_HOME") or f"{home}/.openab"
    if "url" in arguments:
        return parse_database_url(arguments["url"], home)
    configured = "" if environ.get(DATABASE_URL_VARIABLE) else _written(config)
    return database_address(environ, configured, home=home, folder=folder)


def _written(config: Path) -> str:
    if not config.exists():
        return ""
    try:
        table = tomllib.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TargetUnclear(f"{config}: {error}; set {DATABASE_URL_VARIABLE} instead") from error
    section = table.get("database", {})
    url = section.get("url", "") if isinstance(section, dict) else ""
    if not isinstance(url, str) or "${" in url:
        raise TargetUnclear(
            f"{config}: [database].url can only be read by openab; use `openab db`, "
            f"or set {DATABASE_URL_VARIABLE}"
        )
    return url
