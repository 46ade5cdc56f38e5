"""The loopback Discord's clock: real time plus an offset that tests may move forward."""

import time
from datetime import UTC, datetime, timedelta

#: Snowflakes count milliseconds since the first second of 2015 (Discord API documentation).
DISCORD_EPOCH_MS = 1_420_070_400_000


class Clock:
    """Gives wall and monotonic time; `advance` moves both, so windows can pass without waiting."""

    def __init__(self) -> None:
        self._offset = 0.0

    def wall(self) -> datetime:
        """Now, in UTC, as Discord believes it."""
        return datetime.now(UTC) + timedelta(seconds=self._offset)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic() + self._offset

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once for every window, limit and snowflake."""
        self._offset += seconds


class Snowflakes:
    """Hands out ids that grow strictly and carry their time (Discord API documentation)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def next(self) -> str:
        """A fresh id, greater than every earlier one."""
        milliseconds = int(self._clock.wall().timestamp() * 1000) - DISCORD_EPOCH_MS
        self._last = max(milliseconds << 22, self._last + 1)
        return str(self._last)


def snowflake_time(snowflake: str) -> datetime:
    """The moment at which an id was made."""
    milliseconds = (int(snowflake) >> 22) + DISCORD_EPOCH_MS
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
