"""The sections about agents: what to start, how many, and where they work."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from openab.config.fields import (
    ON,
    Count,
    Flag,
    HiddenMap,
    HoursOrNever,
    Minutes,
    Seconds,
    Section,
    SomeSeconds,
    Text,
    TextMap,
    Texts,
    ours,
    shown,
    theirs,
    wrong,
)
from openab.config.paths import expand_home, user_home
from openab.config.words import HostMode, OnBusy, PermissionMode, PerThread, RecoveryPolicy

_DEFAULT_COMMAND = "openab-agent"
_AGENT_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


def _command(value: str) -> str:
    if not value.strip():
        raise wrong("the command is empty", 'write the agent\'s program, for instance "codex-acp"')
    return value


def _agent_name(value: object) -> object:
    if isinstance(value, str) and not _AGENT_NAME.fullmatch(value):
        told = f"{shown(value)} is no name for an agent"
        raise wrong(told, "a name has 1 to 32 of the characters a-z A-Z 0-9 _ -")
    return value


#: It is a part of session keys, and people type it.
AgentName = Annotated[Text, BeforeValidator(_agent_name)]


class Agent(Section):
    """`[agent]`: one program that speaks ACP."""

    command: Annotated[Text, AfterValidator(_command)] = theirs(
        _DEFAULT_COMMAND,
        "The program. Absent: the first word of `OPENAB_AGENT_COMMAND`, else the default.",
    )
    args: Texts = theirs(
        (),
        "Its arguments. Absent: the other words of `OPENAB_AGENT_COMMAND`, "
        "or none if `command` is given.",
    )
    working_dir: Text = theirs("$HOME", "The folder it works in; `~` is the home folder.")
    env: HiddenMap = theirs({}, "Variables to give it.")
    inherit_env: Texts = theirs((), "Variables of openab's own environment to hand on.")


class NamedAgent(Agent):
    """`[agents.NAME]`: a further one, by which sub-agents are started."""

    command: Annotated[Text, AfterValidator(_command)] = ours(..., "The program.")


def complete_agent(written: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """What is written about an agent, with what the environment says where nothing is written."""
    words = environ.get("OPENAB_AGENT_COMMAND", "").split() or [_DEFAULT_COMMAND]
    implied = {"args": []} if "command" in written else {"command": words[0], "args": words[1:]}
    return complete_named_agent({**implied, **written}, environ)


def complete_named_agent(written: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The same for one that has to say its program itself."""
    completed = dict(written)
    folder = completed.get("working_dir", "~")
    if isinstance(folder, str):
        completed["working_dir"] = str(expand_home(folder or "~", user_home(environ)))
    return completed


class Pool(Section):
    """`[pool]`: how many sessions live, and how long."""

    max_sessions: Count = theirs(
        10,
        "Agents that live at once. Idle ones make room, the longest idle first; when all are busy, "
        "turns wait in line.",
    )
    session_ttl: HoursOrNever = theirs(
        4,
        "End an agent after so many silent hours; 0: never. The session can be resumed.",
        alias="session_ttl_hours",
    )
    prompt_hard_timeout: SomeSeconds = theirs(
        7200, "End a turn after so many seconds.", alias="prompt_hard_timeout_secs"
    )
    liveness_check: SomeSeconds = theirs(
        30,
        "Without effect, for OpenAB's files: an agent's exit is noticed at once, nobody has to look.",
        alias="liveness_check_secs",
    )
    hung_grace: Seconds = theirs(
        120,
        "End a turn by force that has not ended so long after the hard time-out.",
        alias="hung_grace_secs",
    )
    default_config_options: TextMap = theirs({}, "Agent options to set in each session made.")
    on_busy: OnBusy = ours(
        "queue",
        "What a message does to a running turn: wait for it, or (from who may cancel it) end it.",
    )


class Workspace(Section):
    """`[workspace]`: the folders that sessions work in."""

    aliases: TextMap = theirs(
        {},
        "Names for folders inside the home folder: `[[ws:@NAME]]` at the head of a session's first "
        "message has it work there.",
    )
    per_thread: PerThread = ours(
        "off",
        "Give each thread an empty folder, or a worktree of the repository that it would work in "
        "(branch `openab/THREAD`), below `workspaces` in openab's folder. A folder that was asked "
        "for by name is used itself, unless it is `worktree`.",
    )


class Permissions(Section):
    """`[permissions]`: who answers an agent that asks."""

    mode: PermissionMode = ours("auto", "Answer by the kind of the request, or ask in the thread.")


class Handoff(Section):
    """`[handoff]`: work passed from bot to bot."""

    announce: Flag = ours(ON, "Tell an agent in its first prompt how and to whom it can hand off.")


class Recovery(Section):
    """`[recovery]`: a running turn whose agent is gone."""

    policy: RecoveryPolicy = ours(
        "careful",
        "Go on by itself if nothing but reading was under way, else ask; go on always; always ask; "
        "or end the turn as interrupted.",
    )
    max_attempts: Count = ours(
        2, "How often one turn is tried, the first time included; an orderly stop does not count."
    )


class AgentHost(Section):
    """`[agent_host]`: the process that owns the agents."""

    mode: HostMode = ours("daemon", "Agents outlive the broker, or live inside it.")
    linger: Minutes = ours(15, "Minutes that an unused host stays.", alias="linger_minutes")
    fence: Minutes = ours(
        30, "Minutes without a broker after which a host ends its agents.", alias="fence_minutes"
    )
