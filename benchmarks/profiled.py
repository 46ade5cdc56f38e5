"""Runs an openab command under cProfile: `python -m benchmarks.profiled REPORT openab-arguments…`.

Only the main thread is profiled; what its loop waits for (the database's threads, the network) shows
as `poll`. The report is written when the command has ended in order.
"""

import cProfile
import io
import pstats
import sys
from pathlib import Path

from openab.cli.main import main

_LINES = 45


def write(profile: cProfile.Profile, report: Path) -> None:
    """Where the time went: by own time, then by time with all that was called."""
    text = io.StringIO()
    stats = pstats.Stats(profile, stream=text)
    for order in ("tottime", "cumulative"):
        stats.sort_stats(order).print_stats(_LINES)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(text.getvalue())


if __name__ == "__main__":
    target = Path(sys.argv[1])
    sys.argv = ["openab", *sys.argv[2:]]
    taken = cProfile.Profile()
    try:
        taken.runcall(main)
    finally:
        write(taken, target)
