"""What a test may not leave behind: tasks, child processes, threads, open files of its database."""

import asyncio
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

#: What is ending by itself gets this long to have ended.
GRACE_SECONDS = 10.0


async def tasks_left() -> list[str]:
    """The other tasks of this loop that do not end by themselves, as text."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if not others:
        return []
    _, left = await asyncio.wait(others, timeout=GRACE_SECONDS)
    return [repr(task) for task in left]


def children() -> list[psutil.Process]:
    """This process's living or unreaped children and theirs."""
    if _has_no_child():
        return []
    return psutil.Process().children(recursive=True)


def children_left(before: list[psutil.Process]) -> list[str]:
    """The children that were not there before and do not end by themselves, as text."""
    new = [child for child in children() if child not in before]
    if not new:
        return []
    _, left = psutil.wait_procs(new, timeout=GRACE_SECONDS)
    return [_describe(child) for child in left]


def threads_left(before: set[threading.Thread]) -> list[str]:
    """The threads that were not there before and keep the process alive, as text."""
    new = [t for t in threading.enumerate() if t not in before and not _goes_by_itself(t)]
    for thread in new:
        thread.join(GRACE_SECONDS)
    return [repr(thread) for thread in new if thread.is_alive()]


def open_files_left(folder: Path) -> list[str]:
    """Files below `folder` that this process still has open after the grace, as text."""
    deadline = time.monotonic() + GRACE_SECONDS
    while (found := _open_below(folder)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def _goes_by_itself(thread: threading.Thread) -> bool:
    # The loop's own executor is ended with the loop, which is after this check.
    return thread.daemon or thread.name.startswith("asyncio_")


def _has_no_child() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _open_below(folder: Path) -> list[str]:
    prefix = f"{folder.resolve()}{os.sep}"
    return [file.path for file in psutil.Process().open_files() if file.path.startswith(prefix)]


def _describe(process: psutil.Process) -> str:
    command = ""
    with suppress(psutil.Error):
        command = " ".join(process.cmdline())
    return f"process {process.pid}: {command or process}"
