"""Discord's side of bindings: a thread below a channel, and silent notices when a binding begins and ends."""

from openab.domain.binding import (
    BindingCode,
    BindingRefused,
    Capabilities,
    EndReason,
    Placement,
    SessionBinding,
)
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.ids import BindingId, ConversationRef, MessageRef, PlatformId
from openab.domain.message import Place
from openab.domain.outbound import presentation_body
from openab.storage import conversations, deliveries
from openab.storage.bindings import farewell_key
from openab.storage.deliveries import Owed, thread_on
from openab.storage.engine import Transaction
from openab.text import binding_words

#: Whoever is told there would take the thread out of the archive, or cannot be told at all.
_SILENT = frozenset({EndReason.ARCHIVED, EndReason.CONVERSATION_GONE})


def intro_key(binding: BindingId) -> str:
    """The key of the delivery by which people learn that a conversation is bound."""
    return f"binding:{binding}:intro"


class DiscordBindings:
    """Fulfils `openab.routing.adapter.BindingAdapter`; everything is owed, the outbox sends it."""

    capabilities = Capabilities(placements=frozenset({Placement.CURRENT, Placement.CHILD}))

    async def child_of(
        self, tx: Transaction, parent: ConversationRef, title: str, anchor: str
    ) -> ConversationRef:
        """As the port says: the thread of a message in a server's channel has that message's id."""
        above = await conversations.find(tx, parent)
        if above is None or above.place is not Place.CHANNEL:
            raise _refused("threads can be opened in a server's channels only")
        if above.is_closed:
            raise _refused("the channel is gone")
        if not anchor:
            raise _refused("there is no message that the thread could hang on")
        home = above.ref.conversation_id
        ref = ConversationRef(parent.channel, parent.account, PlatformId(anchor), home)
        thread = await conversations.ensure(tx, ref, Place.THREAD)
        if thread.is_closed:
            raise _refused("the thread is gone")
        seq = await conversations.take_seq(tx, thread.id)
        await deliveries.owe(
            tx, thread_on(thread, MessageRef(home, PlatformId(anchor)), title, seq)
        )
        return thread.ref

    async def begun(self, tx: Transaction, binding: SessionBinding) -> None:
        """As the port says."""
        await _tell(tx, binding, intro_key(binding.binding_id), binding_words.begun(binding))

    async def ended(self, tx: Transaction, binding: SessionBinding) -> None:
        """As the port says; nothing is owed where nobody can or should be told."""
        if binding.end_reason in _SILENT:
            return
        await _tell(tx, binding, farewell_key(binding.binding_id), binding_words.ended(binding))


def _refused(why: str) -> BindingRefused:
    return BindingRefused(BindingCode.CREATE_FAILED, why)


async def _tell(tx: Transaction, binding: SessionBinding, key: str, text: str) -> None:
    where = await conversations.find(tx, binding.conversation)
    if where is None:
        return
    await deliveries.owe(
        tx,
        Owed(
            account=where.ref.account,
            conversation=where.id,
            key=key,
            kind=DeliveryKind.CREATE,
            purpose=Purpose.NOTICE,
            body=presentation_body(text),
            seq=await conversations.take_seq(tx, where.id),
            is_owed=False,
        ),
    )
