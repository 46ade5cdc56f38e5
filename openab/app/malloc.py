"""Lets large blocks of memory go back to the system when they are freed."""

import ctypes
import sys

#: Of malloc.h: from which size on a block is mapped by itself.
_M_MMAP_THRESHOLD = -3
_LARGE = 1024 * 1024


def return_large_blocks() -> bool:
    """Map each block of a mebibyte or more by itself (glibc); False where that cannot be said.

    Else glibc takes the first large block that is freed as a sign that more will come, and keeps them: a
    single line of 20 MB from an agent would cost some hundred megabytes for as long as we run.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        # Another C library, or a Python that brings its own inside.
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE) == 1)
