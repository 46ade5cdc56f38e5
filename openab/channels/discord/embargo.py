"""Remembers which routes Discord has told us to leave alone, so that no second 429 is earned."""

from collections.abc import Mapping
from typing import Any

#: A global limit, or a ban of our address: nothing may be sent.
EVERYTHING = "*"
#: Cloudflare tells no time; it counts invalid requests in windows of ten minutes.
UNTOLD_SECONDS = 60.0


class Embargo:
    """Routes and until when they are held; times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def hold(self, route: str, until: float) -> None:
        """Leave the route alone until then; a later end wins."""
        self._until[route] = max(until, self._until.get(route, until))

    def remaining(self, route: str, now: float) -> float:
        """Seconds until the route may be used; 0 when it may."""
        self._until = {key: until for key, until in self._until.items() if until > now}
        ends = (self._until.get(route, now), self._until.get(EVERYTHING, now))
        return max(ends) - now


def told(headers: Mapping[str, str], answer: Mapping[str, Any]) -> tuple[float, bool]:
    """What a 429 says: seconds to wait, and whether for everything.

    Without `Via` it comes from Cloudflare before Discord saw it, and then it is for the address.
    """
    everything = "Via" not in headers or answer.get("global") is True
    for text in (answer.get("retry_after"), headers.get("Retry-After")):
        try:
            return float(text), everything  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return UNTOLD_SECONDS, everything
