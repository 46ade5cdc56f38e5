"""The agents that are known to speak ACP, and which of them this machine has."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A command that starts an agent."""

    command: str
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.command, *self.args))


KNOWN = (
    Candidate("claude-agent-acp"),
    Candidate("codex-acp"),
    Candidate("opencode", ("acp",)),
    Candidate("gemini", ("--acp",)),
    Candidate("qwen", ("--acp",)),
    Candidate("kiro-cli", ("acp",)),
    Candidate("hermes-acp"),
    Candidate("agentao", ("--acp", "--stdio")),
    Candidate("openab-agent"),
)
#: What these agents may need from the environment; handed on only by name.
KEY_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "DASHSCOPE_API_KEY",
)


def on_this_machine(environ: Mapping[str, str]) -> tuple[Candidate, ...]:
    """Those whose command is found on PATH, in the order of KNOWN."""
    path = environ.get("PATH", "")
    return tuple(each for each in KNOWN if shutil.which(each.command, path=path))
