"""The numbers of hand-offs, and the rule that a source has ten in any minute."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

#: How long an envelope that we write may be used.
LIFE = timedelta(seconds=300)
#: With less of it left an envelope that nobody can have seen is written anew before it is sent.
FRESH = timedelta(seconds=240)
#: Nobody is given work that was handed over so long ago, even if it was never sent.
LONGEST_OWED = timedelta(seconds=600)
#: So long a hand-off waits for the answer's own messages.
LONGEST_BEHIND = timedelta(seconds=30)
#: How far ahead an envelope may expire that we accept.
LONGEST_LIFE = timedelta(seconds=3600)
#: A whole message, in UTF-16 units.
MOST_UNITS = 2000
#: A whole message, in bytes of UTF-8, that is read at all.
MOST_BYTES = 100_000
#: An event id is known for so long after it was accepted, and longer if its envelope lives longer.
REPLAY_KEPT = timedelta(seconds=600)
#: So many ids a receiver remembers at once; nothing is forgotten early to make room.
MOST_REPLAY_EVENTS = 4096
RATE_WINDOW = timedelta(seconds=60)
#: A source is heard so often in any `RATE_WINDOW`.
MOST_ACCEPTED = 10
#: And we send so often to a target: one fewer, since our clock is not the network's.
MOST_SENT = 9


def is_too_many(accepted: Iterable[datetime], another: datetime) -> bool:
    """Whether some minute would hold more than `MOST_ACCEPTED`, were `another` accepted as well.

    In order of arrival that is the minute that ends with it; messages that come late, from history,
    fall between others.
    """
    near = sorted(at for at in accepted if abs(at - another) < RATE_WINDOW)
    times = sorted([*near, another])
    return any(_is_one_window(times, n) for n in range(len(times) - MOST_ACCEPTED))


def _is_one_window(times: Sequence[datetime], first: int) -> bool:
    return times[first + MOST_ACCEPTED] - times[first] < RATE_WINDOW


def next_chance(sent: Sequence[datetime], now: datetime) -> datetime:
    """When the next one may be sent to a target that was sent to at these moments: now, or later."""
    recent = sorted(at for at in sent if at > now - RATE_WINDOW)
    return now if len(recent) < MOST_SENT else recent[-MOST_SENT] + RATE_WINDOW
