"""Keeps other processes of our own user out of our memory and files, as far as the system allows."""

import ctypes
import os
import sys

_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4
_OWNER_ONLY = 0o077


def harden() -> bool:
    """Make new files ours alone and this process not dumpable; whether the latter worked."""
    os.umask(_OWNER_ONLY)
    return forbid_dumps()


def forbid_dumps() -> bool:
    """Close `/proc/PID/environ`, memory and core dumps to our own user's other processes (Linux).

    False where it cannot be done. A program that this process starts is not covered: `exec` undoes it.
    From then on this process cannot list its own `/proc/self/fd` either, unless it is root.
    """
    prctl = _prctl()
    return prctl is not None and prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 and not is_dumpable()


def is_dumpable() -> bool:
    """Whether our user's other processes may read this one's memory; True where nobody can say."""
    prctl = _prctl()
    return prctl is None or prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0


def _prctl() -> "ctypes._NamedFuncPointer | None":
    if not sys.platform.startswith("linux"):
        return None
    found: ctypes._NamedFuncPointer | None = getattr(ctypes.CDLL(None), "prctl", None)
    return found
