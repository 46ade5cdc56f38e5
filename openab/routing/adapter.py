"""What the bindings ask of a chat network's side: places below places, and words when a binding begins and ends."""

from typing import Protocol

from openab.domain.binding import Capabilities, SessionBinding
from openab.domain.ids import ConversationRef
from openab.storage.engine import Transaction


class BindingAdapter(Protocol):
    """One channel's side. Everything is owed in the caller's transaction; nothing is sent by these calls."""

    @property
    def capabilities(self) -> Capabilities:
        """What can be bound on this channel."""
        ...

    async def child_of(
        self, tx: Transaction, parent: ConversationRef, title: str, anchor: str
    ) -> ConversationRef:
        """Owe a new conversation below `parent` that hangs on the message `anchor`, and return its name.

        The same anchor gives the same conversation. Raises BindingRefused (CREATE_FAILED) where
        there can be none.
        """
        ...

    async def begun(self, tx: Transaction, binding: SessionBinding) -> None:
        """Owe what people in the conversation are told of a binding that begins; once per binding."""
        ...

    async def ended(self, tx: Transaction, binding: SessionBinding) -> None:
        """Owe the farewell of a binding that ends (`storage.bindings.farewell_key`); once per binding."""
        ...
