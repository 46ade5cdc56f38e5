"""Tries every part of a broker, in the order in which a start needs them."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from openab.agents.limits import Timeouts
from openab.app.diagnosis.account import account, everybody
from openab.app.diagnosis.agent import agent
from openab.app.diagnosis.bound import bound
from openab.app.diagnosis.database import database
from openab.app.diagnosis.machine import home_folder, secrets_in_files, working_folder
from openab.app.diagnosis.report import Found, Level, warning, well
from openab.app.values import agent_spec, named_agent_specs
from openab.config.fetch import is_remote, shown_source
from openab.config.load import Loaded
from openab.config.paths import openab_home
from openab.ports.agent import AgentSpec

#: Told in full by the check of the lists themselves.
_TOLD_ANYWAY = ("an empty list means",)
_SECRET_NAME = re.compile(r"key|token|secret|passw", re.IGNORECASE)
_SHORTEST_SECRET = 12


async def examine(
    loaded: Loaded, environ: Mapping[str, str], timeouts: Timeouts | None = None
) -> AsyncIterator[Found]:
    """One line after the other, as soon as it is known. Changes nothing that a broker relies on."""
    config, home = loaded.config, openab_home(environ)
    for found in (*_configuration(loaded), *_secrets(loaded), *home_folder(home)):
        yield found
    upgrades = config.database.auto_upgrade
    itself = loaded.database.is_sqlite if upgrades is None else upgrades
    seen = await database(loaded.database, upgrades_itself=itself)
    yield seen
    is_followed = config.discord.thread_bindings.enabled
    if seen.level is Level.WELL:
        for found in await bound(loaded.database.url, config.agents, is_followed=is_followed):
            yield found
    specs = {"agent": agent_spec(config, environ)}
    for name, spec in named_agent_specs(config, environ).items():
        specs[f"agents.{name}"] = spec
    for section, spec in specs.items():
        async for found in _agent(spec, section, timeouts):
            yield found
    for found in everybody(config.discord):
        yield found
    async for found in account(config.discord, home):
        yield found


async def _agent(spec: AgentSpec, section: str, timeouts: Timeouts | None) -> AsyncIterator[Found]:
    folder = working_folder(Path(spec.working_dir), section)
    yield folder
    if folder.level is Level.FAILURE:
        yield warning(section, "not tried without its working directory", "mend that first")
    else:
        yield await agent(spec, timeouts, section)


def _configuration(loaded: Loaded) -> Iterator[Found]:
    cautions = [each for each in loaded.cautions if not each.message.startswith(_TOLD_ANYWAY)]
    yield well("configuration", f"{shown_source(loaded.source)} can be used")
    for each in cautions:
        place = f"{each.path}, line {each.line}" if each.line is not None else each.path
        yield warning("configuration", f"{place}: {each.message}".removeprefix(": "), each.remedy)


def _secret_texts(loaded: Loaded) -> Iterator[str]:
    yield loaded.config.discord.bot_token.reveal()
    for name, value in loaded.config.agent_variables():
        # Most of an agent's variables are no secrets, and `1` stands in every file.
        if _SECRET_NAME.search(name) and len(value.reveal()) >= _SHORTEST_SECRET:
            yield value.reveal()
    if password := urlsplit(loaded.database.url).password:
        yield password


def _secrets(loaded: Loaded) -> Iterator[Found]:
    if is_remote(loaded.source):
        return
    file = Path(loaded.source)
    found = list(secrets_in_files((file, file.parent / ".env"), _secret_texts(loaded)))
    yield from found or [well("secrets", f"none stands in {file}")]
