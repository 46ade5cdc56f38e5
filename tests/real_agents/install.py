"""Install the real agents for the tests: `python -m tests.real_agents.install [--relock] [NAME…]`.

Each gets an environment of its own below the user's cache folder, exactly as its lock says. What is
complete is left alone; what is half-made is made anew.
"""

import fcntl
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from uv import find_uv_bin

from tests.real_agents.agents import AGENTS, RealAgent

Way = Callable[[RealAgent], list[list[str]]]
#: Most Pythons do; one of the agents knows none that is newer.
_PYTHON = ">=3.11,<3.14"
#: For one agent; after that it has failed.
BUDGET_SECONDS = 420.0
_STEP_SECONDS = 150.0
PAUSE_SECONDS = 2


def main(words: Sequence[str]) -> int:
    """Install all agents, or the named ones; the exit code says whether every one is there."""
    names = [word for word in words if not word.startswith("-")]
    if unknown := set(names) - {agent.name for agent in AGENTS}:
        _say(f"no such agent: {', '.join(sorted(unknown))}")
        return 2
    todo = relock if "--relock" in words else install
    done = [todo(agent) for agent in AGENTS if agent.name in names or not names]
    return 0 if all(done) else 1


def install(agent: RealAgent) -> bool:
    """Whether it is installed now; one installer at a time makes a folder."""
    deadline = time.monotonic() + BUDGET_SECONDS
    agent.folder.parent.mkdir(parents=True, exist_ok=True)
    with agent.folder.with_name(f"{agent.folder.name}.making").open("w") as turnstile:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        # Where only one of the two is told how the registry is reached, the other one cannot.
        for attempt, way in enumerate((_by_uv, _by_pip, _by_uv)):
            if agent.is_installed() or _make(agent, way, deadline):
                _say(f"{agent.name} {agent.version} is in {agent.folder}")
                return True
            # A registry that just failed is not asked again at once.
            time.sleep(PAUSE_SECONDS * (attempt + 1))
    _say(f"{agent.name} {agent.version} could not be installed; the reason stands above")
    return False


def relock(agent: RealAgent) -> bool:
    """Write the lock anew, for its pinned version and today's versions of what it needs."""
    words = [
        *("pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
        *("--generate-hashes", "--no-annotate", "--output-file", str(agent.lock)),
        *("--custom-compile-command", "python -m tests.real_agents.install --relock", "-"),
    ]
    return _run([find_uv_bin(), *words], time.monotonic() + _STEP_SECONDS, agent.requirement)


def _make(agent: RealAgent, way: Way, deadline: float) -> bool:
    _say(f"installing {agent.requirement}")
    shutil.rmtree(agent.folder, ignore_errors=True)
    made = all(_run(step, deadline) for step in way(agent)) and Path(agent.command).is_file()
    if made:
        agent.stamp.write_text(agent.wanted())
    return made


def _by_uv(agent: RealAgent) -> list[list[str]]:
    uv, python = find_uv_bin(), str(agent.folder / "bin" / "python")
    return [
        [uv, "venv", "--quiet", "--no-project", "--python", _PYTHON, str(agent.folder)],
        [uv, "pip", "install", "--quiet", "--python", python, *_exactly(agent)],
    ]


def _by_pip(agent: RealAgent) -> list[list[str]]:
    python = str(agent.folder / "bin" / "python")
    return [
        [sys.executable, "-m", "venv", str(agent.folder)],
        [python, "-m", "pip", "install", "--quiet", *_exactly(agent)],
    ]


def _exactly(agent: RealAgent) -> list[str]:
    return ["--require-hashes", "-r", str(agent.lock)]


def _run(words: list[str], deadline: float, given: str = "") -> bool:
    seconds = min(_STEP_SECONDS, deadline - time.monotonic())
    try:
        done = subprocess.run(words, input=given.encode(), timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        _say(str(error))
        return False
    return done.returncode == 0


def _say(text: str) -> None:
    sys.stderr.write(f"real agents: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
