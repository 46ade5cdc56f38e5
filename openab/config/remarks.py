"""What the author of a usable file should know about it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from openab.config.discord import Discord
from openab.config.keys import Findings
from openab.config.later import later_notes
from openab.config.models import Config
from openab.config.unserved import UNSERVED

_LEGACY_CRON = ("cronjobs", "usercron_enabled", "usercron_path")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def renamed_sections(table: Mapping[str, Any], found: Findings) -> dict[str, Any]:
    """The table without keys that OpenAB itself has renamed; each is told with its new name."""
    kept = dict(table)
    for key in _LEGACY_CRON:
        if key in kept:
            del kept[key]
            new_name = "[[cron.jobs]]" if key == "cronjobs" else f"{key} below [cron]"
            found.caution((key,), "this name is no longer read", f"write {new_name}")
    return kept


def remark(written: Mapping[str, Any], config: Config, source: str, found: Findings) -> None:
    """Note what works otherwise than its author may think."""
    if source.lower().startswith("http://"):
        found.caution(
            (), "fetched over plain HTTP: anybody on the way can change it", "use https://"
        )
    for key in written:
        if key in UNSERVED:
            found.caution((key,), "this section of OpenAB's is not served, ignored")
    for path, sentence in later_notes(written, config):
        found.caution(path, sentence)
    _remark_lists(written["discord"], config.discord, found)
    _remark_api_base(config.discord, found)
    _remark_subagents(config, found)
    if config.cluster.call >= config.cluster.lease:
        found.mistake(
            ("cluster", "call_seconds"),
            "one call may outlast the lease that allows it",
            "write less than lease_seconds",
        )


def _remark_lists(written: Mapping[str, Any], discord: Discord, found: Findings) -> None:
    for noun, everybody, allowed in (
        ("channels", "every channel", discord.channels),
        ("users", "everybody", discord.users),
    ):
        path = ("discord", f"allowed_{noun}")
        switch = f"allow_all_{noun}"
        if written.get(path[1]) == [] and switch not in written:
            found.caution(path, f"an empty list means {everybody}", f"say so with {switch} = true")
        elif written.get(path[1]) and allowed is None:
            found.caution(path, f"not looked at, since {switch} = true")
        elif allowed == frozenset():
            found.caution(("discord", switch), f"nobody is heard: {path[1]} is empty")


def _remark_subagents(config: Config, found: Findings) -> None:
    bindings = config.discord.thread_bindings
    if not bindings.spawn_subagent_sessions:
        return
    path = ("discord", "thread_bindings", "spawn_subagent_sessions")
    if not bindings.enabled:
        found.caution(path, "without effect", "write enabled = true in [discord.thread_bindings]")
    elif not config.agents:
        found.caution(path, "no sub-agent is configured", "add [agents.NAME] with its command")


def _remark_api_base(discord: Discord, found: Findings) -> None:
    parts = urlsplit(discord.api_base)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        found.caution(
            ("discord", "api_base"),
            "the token goes over plain HTTP to another machine",
            "use https://",
        )
