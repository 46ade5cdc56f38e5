"""What a large block took is given back, although something small was kept behind it."""

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import os, sys
from openab.app.malloc import return_large_blocks

def resident():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

if sys.argv[1] == "asked":
    assert return_large_blocks()
block = bytearray(20_000_000)
del block
before = resident()
blocks = [bytearray(20_000_000) for _ in range(3)]
kept = bytearray(100_000)
del blocks
print(resident() - before)
"""


def _kept(asked: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, asked],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc's habit")
def test_large_blocks_go_back_to_the_system() -> None:
    assert _kept("not asked") > 50_000_000
    assert _kept("asked") < 5_000_000
