"""Which session a conversation talks to: the one it is bound to, else its own."""

from openab.control.settings import Settings
from openab.domain.binding import BindingStatus, EndReason, SessionBinding
from openab.domain.ids import SessionKey
from openab.domain.message import Place
from openab.storage import bindings, sessions
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.storage.sessions import Session


async def session_here(tx: Transaction, settings: Settings, where: Conversation) -> Session:
    """The session that a message in this conversation is for, made if need be; a binding is used by it.

    A binding whose time is over ends by this look. One that ended with its conversation's archive
    goes on, since the conversation is in use again.
    """
    binding = await _used(tx, settings, where)
    if binding is not None:
        found = await sessions.get(tx, binding.target_session_key)
        assert found is not None
        return found
    spec = settings.agent()
    return await sessions.ensure(tx, where, agent=spec.name, working_dir=spec.working_dir)


async def session_key_here(tx: Transaction, settings: Settings, here: Conversation) -> SessionKey:
    """The key of the same session, for who only asks; nothing is written."""
    own = here.ref.session_key()
    if not _may_be_bound(settings, here):
        return own
    found = await bindings.active_in(tx, here.id)
    if found is None or found.binding.expired_by(await tx.now()):
        return own
    return found.binding.target_session_key


async def unbind_here(
    tx: Transaction, settings: Settings, where: Conversation, reason: EndReason
) -> None:
    """Take this conversation off whatever it is bound to; nothing happens if that is nothing."""
    found = await bindings.active_in(tx, where.id)
    if found is not None:
        await settings.bindings.unbind(tx, found.binding.binding_id, reason)


def _may_be_bound(settings: Settings, where: Conversation) -> bool:
    return settings.binding.enabled and where.place is not Place.CHANNEL


async def _used(tx: Transaction, settings: Settings, where: Conversation) -> SessionBinding | None:
    if not _may_be_bound(settings, where):
        return None
    newest = await bindings.newest_in(tx, where.id)
    if newest is None:
        return None
    if newest.binding.status is BindingStatus.ACTIVE:
        binding = await settings.bindings.resolve_by_conversation(tx, where.id)
    else:
        binding = await settings.bindings.reattach(tx, where.id)
    if binding is not None:
        await settings.bindings.touch(tx, binding.binding_id)
    return binding
