"""`./dev` says what is missing and how to get it; a toy machine is made of a PATH of our own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repository import ROOT

WORDS = ["demo", "test", "check", "fix", "docs", "bench"]
TOOLS = ["sh", "dirname", "cat", "sed", "cksum", "rm", "mkdir", "printf", "readlink", "sleep"]


class Machine:
    """A copy of the script in a folder with a space in its name, and the programs that PATH shall have."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "a clone"
        self.programs = folder / "bin"
        self.home.mkdir()
        self.programs.mkdir()
        for name in ("dev", "requirements.lock", "pyproject.toml"):
            shutil.copy(ROOT / name, self.home)
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.programs / tool).symlink_to(found)
        self.has("uname", "echo Linux")
        self.has("git")

    def has(self, program: str, script: str = "exit 0") -> None:
        path = self.programs / program
        path.unlink(missing_ok=True)
        path.write_text(f"#!{self.programs / 'sh'}\n{script}\n")
        path.chmod(0o755)

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.home / "dev", *words],
            cwd=self.programs,
            env={"PATH": str(self.programs), "PYTHONPATH": "elsewhere", "VIRTUAL_ENV": "other"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_it_is_executable_and_knows_six_words() -> None:
    assert os.access(ROOT / "dev", os.X_OK)
    told = subprocess.run([ROOT / "dev"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in told.splitlines()] == WORDS


def test_another_word_is_bad_usage(machine: Machine) -> None:
    done = machine.types("deploy")

    assert done.returncode == 2
    assert "no such word: deploy" in done.stderr


def test_without_a_python_it_says_which_and_how_to_get_it(machine: Machine) -> None:
    done = machine.types("docs")

    assert done.returncode == 1
    assert "needs Python 3.11" in done.stderr
    assert "here is no python3" in done.stderr
    assert "apt install python3" in done.stderr


def test_a_python_that_is_too_old_is_named(machine: Machine) -> None:
    machine.has("python3", 'case "$1" in --version) echo Python 3.9.2 ;; *) exit 1 ;; esac')

    done = machine.types("docs")

    assert done.returncode == 1
    assert "here is Python 3.9.2" in done.stderr


def test_a_debian_without_ensurepip_is_told_the_package(machine: Machine) -> None:
    answers = '*ensurepip*) exit 1 ;; *executable*) echo python3 ;; *"%d.%d"*) echo 3.11 ;;'
    machine.has("python3", f'case "$2" in {answers} esac')

    done = machine.types("docs")

    assert done.returncode == 1
    assert "apt install python3-venv (or python3.11-venv)" in done.stderr


def test_without_git_it_says_so(machine: Machine) -> None:
    (machine.programs / "git").unlink()

    done = machine.types("check")

    assert done.returncode == 1
    assert "git is missing" in done.stderr


@pytest.mark.parametrize("system", ["MINGW64_NT-10.0", "MSYS_NT-10.0", "CYGWIN_NT-10.0"])
def test_windows_is_sent_to_wsl(machine: Machine, system: str) -> None:
    machine.has("uname", f"echo {system}")

    done = machine.types("test")

    assert done.returncode == 1
    assert "WSL" in done.stderr


def test_an_environment_that_cannot_be_made_is_made_anew_next_time(machine: Machine) -> None:
    machine.has(
        "uv", f'if [ "$1" = venv ]; then {machine.programs / "mkdir"} -p .venv/bin; else exit 9; fi'
    )

    first, second = machine.types("docs"), machine.types("docs")

    for done in (first, second):
        assert done.returncode == 1
        assert "could not be made" in done.stderr
        assert "OPENAB_TEST_POSTGRES_URL" in done.stderr
    assert "making it anew" in second.stderr
    assert not (machine.home / ".venv.making").exists()


def test_what_a_killed_maker_left_behind_is_cleared(machine: Machine) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    workshop = machine.home / ".venv.making"
    workshop.mkdir()
    (workshop / "pid").write_text(str(dead.pid))

    done = machine.types("docs")

    assert "did not finish; starting anew" in done.stderr
    assert not workshop.exists()
