"""How long each lease of this process holds by our own clock; the last word before every write."""

from collections.abc import Callable

from openab.domain.ids import ConversationId
from openab.storage.conversations import Ownership

#: Until which monotonic moment a lease was renewed; None: it was not renewed yet.
Renewed = Callable[[ConversationId, int], float | None]


def never(_conversation: ConversationId, _epoch: int) -> float | None:
    """Where nothing renews (tests without a renewal thread)."""
    return None


class Leases:
    """Counts from before the database was asked, so that it never believes longer than the others do.

    This gives liveness only; safety comes from the epoch in each transaction.
    """

    def __init__(
        self, clock: Callable[[], float], lease_seconds: float, renewed: Renewed = never
    ) -> None:
        self._clock = clock
        self._lease = lease_seconds
        self._renewed = renewed
        self._claimed: dict[tuple[ConversationId, int], float] = {}

    def note_claim(self, ownership: Ownership, asked_at: float) -> None:
        """A conversation was claimed; `asked_at` is the clock before the claim began."""
        self._claimed[ownership.conversation, ownership.epoch] = asked_at + self._lease

    def forget(self, ownership: Ownership) -> None:
        """It was given back or lost."""
        self._claimed.pop((ownership.conversation, ownership.epoch), None)

    def holds(self, ownership: Ownership) -> bool:
        """Whether nobody else can have claimed the conversation yet."""
        key = ownership.conversation, ownership.epoch
        until = max(self._claimed.get(key, 0.0), self._renewed(*key) or 0.0)
        return self._clock() < until
