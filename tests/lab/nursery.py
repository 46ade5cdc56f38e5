"""Brokers by fork: openab is imported once, each broker is a process of its own that begins at once.

`python -m tests.lab.nursery [BROKEN]` reads one JSON object a line: `{"argv": …, "env": …, "log": …}`
starts a broker (the answer is its pid), `{"reap": PID}` waits for one that is ending (the answer is its
exit code, negative: the signal). When stdin closes, all of them are killed.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
from contextlib import suppress
from typing import Any

import openab
from openab.cli.main import main as openab_main
from tests.lab.broken import break_promise
from tests.lab.tripwire import CLAIMS_VARIABLE, ORDER_VARIABLE, SOCKET_VARIABLE, Tripwire
from tests.lab.wrapping import hasten, wrap

#: What openab imports only when it is needed.
_LATE = (
    "acp",
    "aiosqlite",
    "alembic.command",
    "asyncpg",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.dialects.sqlite.aiosqlite",
)


def main(broken: str) -> None:
    """Serve until stdin closes."""
    _import_everything()
    wire = Tripwire()
    wrap(wire)
    hasten()
    break_promise(broken)
    gc.freeze()
    living: set[int] = set()
    _answer("ready")
    for line in sys.stdin:
        order = json.loads(line)
        if "reap" in order:
            _, status = os.waitpid(order["reap"], 0)
            living.discard(order["reap"])
            _answer(os.waitstatus_to_exitcode(status))
            continue
        pid = _fork(order, wire)
        living.add(pid)
        _answer(pid)
    for pid in living:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _answer(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _import_everything() -> None:
    for module in pkgutil.walk_packages(openab.__path__, "openab."):
        if "__main__" not in module.name and ".migrations" not in module.name:
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)


def _fork(order: dict[str, Any], wire: Tripwire) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = _live(order, wire)
    finally:
        os._exit(code)


def _live(order: dict[str, Any], wire: Tripwire) -> int:
    """The child: `openab` with these arguments, told apart from its mother by nothing but its pid."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["openab", *order["argv"]]
    told = (os.environ.pop(name, "") for name in (SOCKET_VARIABLE, ORDER_VARIABLE, CLAIMS_VARIABLE))
    wire.connect(*told)
    try:
        openab_main()
    except SystemExit as ended:
        return int(ended.code or 0) if isinstance(ended.code, int | None) else 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
