"""Every process that belongs to an agent, found by descent and by a marker in its environment."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil
import structlog

from openab.domain.ids import AccountId, Incarnation

log = structlog.get_logger()

#: Names the owner: `database id:account:incarnation`.
OWNER_VARIABLE = "OPENAB_MARKER"
#: Names the one agent process whose descendants carry it.
AGENT_VARIABLE = "OPENAB_AGENT"
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess, OSError)
#: A tree that forks while it is being killed is looked at again, so often.
_ROUNDS = 5


def owner_marker(database_id: str, account: str, incarnation: str) -> str:
    """The value of the owner variable."""
    return f"{database_id}:{account}:{incarnation}"


def descendants(pid: int) -> list[psutil.Process]:
    """The living children of a process, theirs, and so on."""
    with suppress(*_GONE):
        return psutil.Process(pid).children(recursive=True)
    return []


def marked(variable: str, accepts: Callable[[str], bool]) -> list[psutil.Process]:
    """Every living process whose environment has this variable with an accepted value."""
    return [
        process
        for process in psutil.process_iter()
        if (value := _variable(process, variable)) is not None and accepts(value)
    ]


def kill_all(known: Iterable[psutil.Process], agent: str) -> int:
    """SIGKILL the given processes and all that carry the agent's mark; how many there were."""
    wanted = {process.pid: process for process in known}
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        wanted.update({p.pid: p for p in marked(AGENT_VARIABLE, lambda value: value == agent)})
        fresh = [p for p in wanted.values() if p.pid not in killed and _lives(p)]
        if not fresh:
            break
        killed.update(p.pid for p in fresh)
        _kill(fresh)
    return len(killed)


def reap_leftovers(
    database_id: str, account: AccountId, is_dead: Callable[[Incarnation], bool]
) -> int:
    """End what a crashed host left behind, only where its owner is proved dead; how many there were.

    It blocks for seconds: call it in a thread.
    """
    prefix = owner_marker(database_id, account, "")

    def ownerless(value: str) -> bool:
        return value.startswith(prefix) and is_dead(Incarnation(value.removeprefix(prefix)))

    found = marked(OWNER_VARIABLE, ownerless)
    if found:
        _end(found)
        log.warning("agent_leftovers_ended", account=account, count=len(found))
    return len(found)


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(*_GONE):
            process.terminate()
    _kill(_outliving(processes, 1.5))


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(*_GONE):  # psutil compares the start time: a reused pid is left alone
            process.kill()
    _outliving(processes, 1.0)


def _outliving(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those still alive after so long. Not `psutil.wait_procs`: it reaps our own children, whose
    exit code then never reaches asyncio.
    """
    deadline = time.monotonic() + seconds
    while (alive := [p for p in processes if _lives(p)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return alive


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except _GONE:
        return False


def _variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name)
    except _GONE:
        return None
