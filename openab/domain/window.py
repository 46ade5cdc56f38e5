"""A sliding window: at most so many writes in so many seconds, on a clock that is passed in."""

from collections import deque


class Window:
    """At most `limit` writes in any `seconds`: what Discord takes in one conversation."""

    def __init__(self, limit: int = 5, seconds: float = 5.0) -> None:
        self._limit = limit
        self._seconds = seconds
        self._times: deque[float] = deque(maxlen=limit)

    def free_at(self, *, spare: int = 0) -> float:
        """From when on another write is allowed that leaves `spare` places free; minus infinity: now."""
        places = self._limit - spare
        if len(self._times) < places:
            return float("-inf")
        return self._times[-places] + self._seconds

    def is_empty(self, now: float) -> bool:
        """Whether nothing was written within the window's time."""
        return not self._times or self._times[-1] + self._seconds <= now

    def note(self, now: float) -> None:
        """A write went out."""
        self._times.append(now)
