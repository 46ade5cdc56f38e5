"""A hardened process cannot be read by another one of the same user."""

import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from openab.app import hardening

SHOW = "import sys\nfrom openab.app import hardening\n"
REPORT = SHOW + "print(hardening.is_dumpable(), hardening.harden(), hardening.is_dumpable())"
NEW_FILE = SHOW + "hardening.harden(); open(sys.argv[1], 'w').close()"

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", *arguments], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip()


@on_linux
def test_the_kernel_agrees_that_we_are_not_dumpable() -> None:
    assert run(REPORT) == "True True False"


def test_new_files_are_ours_alone(tmp_path: Path) -> None:
    run(NEW_FILE, str(tmp_path / "new"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


NOBODY = 65534


def environ_is_readable(*, hardened: bool) -> bool:
    """Whether a second process of a plain user can read the environment of a first one."""
    plain_user = NOBODY if os.geteuid() == 0 else None
    first = subprocess.Popen(
        [_plain_python(), "-I", "-c", _stand_alone(hardened=hardened)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"SECRET": "x"},
        cwd="/",
        user=plain_user,
        group=plain_user,
    )
    try:
        assert first.stdout
        assert first.stdout.readline() == b"ready\n"
        second = subprocess.run(
            ["cat", f"/proc/{first.pid}/environ"],
            capture_output=True,
            timeout=10,
            check=False,
            user=plain_user,
            group=plain_user,
        )
    finally:
        first.communicate(timeout=10)
    return b"SECRET" in second.stdout


def _plain_python() -> str:
    return sys.executable if os.geteuid() else "/usr/bin/python3"


def _stand_alone(*, hardened: bool) -> str:
    """Our module's source, since the plain user may not be able to read the installed one."""
    source = Path(hardening.__file__).read_text("utf-8")
    call = "assert harden()\n" if hardened else ""
    return f"{source}\n{call}print('ready', flush=True)\nsys.stdin.read()\n"


@on_linux
@pytest.mark.parametrize("hardened", [True, False])
def test_only_an_unhardened_environment_can_be_read(hardened: bool) -> None:
    if not Path(_plain_python()).exists():
        pytest.skip("no Python here that a plain user can run")
    assert environ_is_readable(hardened=hardened) is not hardened


def test_where_prctl_is_missing_nothing_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not hardening.forbid_dumps()
    assert hardening.is_dumpable()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not hardening.forbid_dumps()
