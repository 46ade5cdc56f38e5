"""The real agents that tests know: what they are, where they are installed, how they are set up."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.real_agents.mock_llm import MODEL, MockModel

HERE = Path(__file__).parent
#: Everything these two ask for is on the loopback interface; a proxy that only listens hears the rest.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class RealAgent:
    """One agent at one version, in an environment of its own."""

    name: str
    version: str
    extra: str
    program: str
    args: tuple[str, ...]
    #: The name and the arguments of its own tool that runs a shell command.
    shell_tool: str
    #: Whether it still knows a session whose process was killed.
    survives_kill: bool
    #: CI installs it, so that there its absence is a failure.
    is_expected_in_ci: bool
    configure: Callable[[Path, MockModel], dict[str, str]]

    @property
    def requirement(self) -> str:
        """What is asked of the registry."""
        return f"{self.name}[{self.extra}]=={self.version}"

    @property
    def lock(self) -> Path:
        """Every package of it, with its hashes."""
        return HERE / f"{self.name}.lock"

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "openab-agents" / f"{self.name}-{self.version}"

    @property
    def stamp(self) -> Path:
        """Written last by the installer; holds `wanted`."""
        return self.folder / "made-from"

    @property
    def command(self) -> str:
        """The program, as an absolute path."""
        return str(self.folder / "bin" / self.program)

    def wanted(self) -> str:
        """What a complete installation is made from; the place is part of it."""
        return f"{self.folder}\n{hashlib.sha256(self.lock.read_bytes()).hexdigest()}\n"

    def is_installed(self) -> bool:
        """Whether the installer came to its end here, with this lock."""
        return self.stamp.exists() and self.stamp.read_text() == self.wanted()

    def env(self, home: Path, model: MockModel) -> dict[str, str]:
        """Write its configuration below `home`; returns its variables, which name no other server."""
        home.mkdir(parents=True, exist_ok=True)
        proxies = dict.fromkeys(_PROXIES, model.address)
        local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        return {**proxies, **local, "HOME": str(home), **self.configure(home, model)}


def _agentao(_home: Path, model: MockModel) -> dict[str, str]:
    return {
        "LLM_PROVIDER": "OPENAI",
        "OPENAI_API_KEY": "loopback",
        "OPENAI_BASE_URL": model.api_base,
        "OPENAI_MODEL": MODEL,
    }


def _hermes(home: Path, model: MockModel) -> dict[str, str]:
    (home / "config.yaml").write_text(
        f"model:\n  default: {MODEL}\n  provider: custom\n  base_url: {model.api_base}\n"
        "  api_key: loopback\n  context_length: 128000\n"
    )
    # It would fetch a scanner for shell commands from the network.
    return {"HERMES_HOME": str(home), "TIRITH_ENABLED": "false"}


AGENTS = (
    RealAgent(
        name="agentao",
        version="0.5.17",
        extra="cli",
        program="agentao",
        args=("--acp", "--stdio"),
        shell_tool="run_shell_command",
        survives_kill=False,
        is_expected_in_ci=True,
        configure=_agentao,
    ),
    RealAgent(
        name="hermes-agent",
        version="0.19.0",
        extra="acp",
        program="hermes-acp",
        args=(),
        shell_tool="terminal",
        survives_kill=True,
        is_expected_in_ci=False,
        configure=_hermes,
    ),
)
