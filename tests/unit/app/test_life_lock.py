"""A proof of death is never given for the living, and for the dead only by the very file they kept."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from openab.app import life_lock
from openab.app.life_lock import LifeLock, proves_dead, sweep

LIVING = """
import sys
from pathlib import Path
from openab.app.life_lock import LifeLock
life = LifeLock(Path(sys.argv[1]))
life.acquire()
print(life.proof, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # Bytes that no text encoding has, and what separates a proof's parts.
    return tmp_path / os.fsdecode(b"a:b %\xff") / "locks"


@pytest.fixture
def life(folder: Path) -> Iterator[LifeLock]:
    made = LifeLock(folder)
    made.acquire()
    yield made
    made.release()


def test_a_living_process_is_not_proved_dead_a_killed_one_is(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LIVING, os.fspath(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        proof = process.stdout.readline().strip()
        assert proof
        assert not proves_dead(proof)
    finally:
        process.kill()
        process.communicate(timeout=10)
    assert proves_dead(proof)
    assert proves_dead(proof), "looking does not use it up"


def test_our_own_life_is_not_over(life: LifeLock) -> None:
    assert not proves_dead(life.proof)


@pytest.mark.parametrize(
    "forge",
    [
        lambda boot, dev, inode, path: f"other-boot:{dev}:{inode}:{path}",
        lambda boot, dev, inode, path: f"{boot}:{int(dev) + 1}:{inode}:{path}",
        lambda boot, dev, inode, path: f"{boot}:{dev}:{int(inode) + 1}:{path}",
        lambda boot, dev, inode, path: f"{boot}:{dev}:{inode}:{path}x",
        lambda boot, dev, inode, path: f"{boot}:{dev}:{inode}:%00",
        lambda boot, dev, inode, path: f"{boot}:{dev}:{inode}:{quote('/dev')}",
        lambda boot, dev, inode, path: f"{boot}:{dev}:{inode}:",
        lambda boot, dev, inode, path: f"{boot}:{dev}:{inode}",
        lambda boot, dev, inode, path: "",
    ],
)
def test_anything_else_is_no_proof(life: LifeLock, forge: Callable[..., str]) -> None:
    proof = life.proof
    life.release()
    assert proves_dead(proof)
    assert not proves_dead(forge(*proof.split(":", 3)))


def test_a_file_that_is_missing_or_another_is_no_proof(folder: Path, life: LifeLock) -> None:
    proof = life.proof
    (path,) = folder.iterdir()
    life.release()
    kept = path.rename(folder / "elsewhere")
    assert not proves_dead(proof)
    assert not path.exists(), "looking creates nothing"
    path.symlink_to(kept)
    assert not proves_dead(proof)
    path.unlink()
    path.touch()
    assert not proves_dead(proof)


def test_a_path_too_long_for_the_row_proves_nothing(life: LifeLock, tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(6):
        deep /= "x" * 200
    long = LifeLock(deep)
    long.acquire()
    proof = long.proof
    long.release()
    assert len(proof) <= life_lock.LONGEST_PROOF
    assert not proves_dead(proof)


def test_a_child_does_not_inherit_the_life(life: LifeLock) -> None:
    proof = life.proof
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    try:
        # The kernel lets the parent go on before it closes what the child is not to have.
        assert child.stdout
        assert child.stdout.readline()
        life.release()
        assert proves_dead(proof)
    finally:
        child.communicate(b"\n", timeout=10)


def test_only_the_files_of_the_long_dead_are_swept(folder: Path, life: LifeLock) -> None:
    old, fresh = LifeLock(folder), LifeLock(folder)
    for one in (old, fresh):
        one.acquire()
        one.release()
    (folder / "discord-42.lock").touch()
    for path in folder.iterdir():
        if path != fresh._path:
            os.utime(path, (1, 1))
    assert sweep(folder) == 1
    assert not old._path.exists()
    assert {life._path, fresh._path} < set(folder.iterdir())
    assert sweep(folder / "none") == 0


def test_the_file_is_ours_alone(folder: Path, life: LifeLock) -> None:
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.read_text() == f"{os.getpid()}\n"
