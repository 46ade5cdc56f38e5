"""The installer's notion of complete, and locks that pin what the tests are about."""

import sys
import time
from pathlib import Path

import pytest

from tests.real_agents import install
from tests.real_agents.agents import AGENTS, RealAgent

every_agent = pytest.mark.parametrize("one", AGENTS, ids=lambda one: one.name)


@every_agent
def test_the_lock_pins_this_version_and_names_no_address(one: RealAgent) -> None:
    text = one.lock.read_text()

    assert f"\n{one.name}=={one.version} \\\n    --hash=sha256:" in text
    assert "://" not in text


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The installer's steps, which are noted instead of run, in a cache folder of the test's own."""
    noted: list[list[str]] = []

    def run(words: list[str], *_: object) -> bool:
        noted.append(words)
        return False

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(install, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(install, "_run", run)
    return noted


@every_agent
def test_half_made_is_made_anew_and_complete_left_alone(
    one: RealAgent, steps: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(words: list[str], *_: object) -> bool:
        steps.append(words)
        Path(one.command).parent.mkdir(parents=True, exist_ok=True)
        Path(one.command).touch()
        return True

    monkeypatch.setattr(install, "_run", run)
    one.folder.mkdir(parents=True)
    (one.folder / "half").touch()
    assert not one.is_installed()

    assert install.install(one)
    assert install.install(one)

    assert len(steps) == 2
    assert "--require-hashes" in steps[1]
    assert one.is_installed()
    assert not (one.folder / "half").exists()


def test_what_cannot_be_installed_is_tried_in_both_ways_and_told(
    steps: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert install.main(["agentao"]) == 1

    assert [Path(step[0]).name.startswith("uv") for step in steps] == [True, False, True]
    assert "could not be installed" in capsys.readouterr().err
    assert not AGENTS[0].is_installed()


def test_an_unknown_name_is_refused(steps: list[list[str]]) -> None:
    assert install.main(["agento"]) == 2
    assert not steps


def test_a_step_that_takes_too_long_has_failed() -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]

    assert not install._run(sleeper, time.monotonic() + 0.2)
