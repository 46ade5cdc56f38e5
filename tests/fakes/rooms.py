"""Two chat networks in memory for the bindings: rooms with side rooms, and pagers on which nothing can be said."""

from openab.domain.binding import (
    BindingCode,
    BindingRefused,
    Capabilities,
    EndReason,
    Placement,
    SessionBinding,
)
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.ids import BindingId, ConversationRef, PlatformId
from openab.domain.outbound import MessageBody
from openab.storage import conversations, deliveries
from openab.storage.bindings import farewell_key
from openab.storage.deliveries import Owed
from openab.storage.engine import Transaction


class Rooms:
    """Fulfils `openab.routing.adapter.BindingAdapter`. A side room is there at once and has a name of its own.

    Words are owed as rows of the outbox, as the port asks; here only a test sends them.
    """

    capabilities = Capabilities(frozenset({Placement.CURRENT, Placement.CHILD}))

    def __init__(self) -> None:
        self.opened: dict[tuple[ConversationRef, str], ConversationRef] = {}

    async def child_of(
        self, tx: Transaction, parent: ConversationRef, title: str, anchor: str
    ) -> ConversationRef:
        """As the port says; nothing hangs below a side room."""
        if parent.parent_conversation_id is not None or not anchor:
            raise BindingRefused(BindingCode.CREATE_FAILED, f"no room for {title!r}")
        room = f"{parent.conversation_id}/{anchor}"
        child = ConversationRef(
            parent.channel, parent.account, PlatformId(room), parent.conversation_id
        )
        tx.after_commit(lambda: self.opened.update({(parent, anchor): child}))
        return child

    async def begun(self, tx: Transaction, binding: SessionBinding) -> None:
        """As the port says."""
        await _owe(tx, binding, f"binding:{binding.binding_id}:welcome", "welcome")

    async def ended(self, tx: Transaction, binding: SessionBinding) -> None:
        """As the port says; in a room that is put away or gone nobody is told."""
        if binding.end_reason not in (EndReason.ARCHIVED, EndReason.CONVERSATION_GONE):
            await _owe(tx, binding, farewell_key(binding.binding_id), "bye")


class Pagers:
    """Fulfils the same port: no place lies below another, and nothing can be said to anybody."""

    capabilities = Capabilities(frozenset({Placement.CURRENT}))

    def __init__(self) -> None:
        self.begun_here: list[BindingId] = []
        self.ended_here: list[BindingId] = []

    async def child_of(
        self, tx: Transaction, parent: ConversationRef, title: str, anchor: str
    ) -> ConversationRef:
        """Never asked: the capabilities say that it cannot be done."""
        raise AssertionError("asked for what the capabilities exclude")

    async def begun(self, tx: Transaction, binding: SessionBinding) -> None:
        """Nobody is told; a test sees what was committed."""
        tx.after_commit(lambda: self.begun_here.append(binding.binding_id))

    async def ended(self, tx: Transaction, binding: SessionBinding) -> None:
        """Nobody is told; a test sees what was committed."""
        tx.after_commit(lambda: self.ended_here.append(binding.binding_id))


async def _owe(tx: Transaction, binding: SessionBinding, key: str, text: str) -> None:
    where = await conversations.find(tx, binding.conversation)
    assert where is not None
    await deliveries.owe(
        tx,
        Owed(
            account=where.ref.account,
            conversation=where.id,
            key=key,
            kind=DeliveryKind.CREATE,
            purpose=Purpose.NOTICE,
            body=MessageBody(text),
            seq=await conversations.take_seq(tx, where.id),
            is_owed=False,
        ),
    )
