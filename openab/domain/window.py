"""A sliding window: at most so many events in so many seconds."""

from collections import deque


class Window:
    """Counts events on a clock that is passed in; decides nothing about what is counted."""

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._taken: deque[float] = deque()

    def wait(self, now: float, *, spare: int = 0) -> float:
        """Seconds until one more event fits while `spare` further places stay free; 0: now."""
        self._forget(now)
        over = len(self._taken) - (self._limit - spare) + 1
        if over <= 0:
            return 0.0
        return max(0.0, self._taken[over - 1] + self._seconds - now)

    def take(self, now: float) -> None:
        """Count an event."""
        self._taken.append(now)

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0] + self._seconds <= now:
            self._taken.popleft()
