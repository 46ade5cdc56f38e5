"""Binds conversations to sessions: one active binding a conversation, judged on read, ended as a tombstone."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from openab.domain.binding import (
    BindingCode,
    BindingRefused,
    BindingStatus,
    Cleared,
    EndReason,
    Limits,
    Placement,
    Reattached,
    SessionBinding,
    TargetKind,
    Unbound,
    may_reattach,
)
from openab.domain.ids import (
    AccountId,
    BindingId,
    ChannelName,
    ConversationId,
    ConversationRef,
    SessionKey,
)
from openab.domain.message import Place
from openab.routing.adapter import BindingAdapter
from openab.storage import bindings, conversations, sessions
from openab.storage.bindings import Found, NewBinding
from openab.storage.engine import Transaction
from openab.storage.transitions import StateChanged

log = structlog.get_logger()


class Bindings:
    """The service of one process. Every call does its work in the caller's transaction."""

    def __init__(self, adapters: Mapping[ChannelName, BindingAdapter]) -> None:
        self._adapters = adapters

    async def bind(
        self,
        tx: Transaction,
        target_session_key: SessionKey,
        target_kind: TargetKind,
        conversation: ConversationRef,
        placement: Placement = Placement.CURRENT,
        *,
        bound_by: str = "",
        ttl: timedelta | None = None,
        limits: Limits | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> SessionBinding:
        """Bind a conversation to a session that exists, and end what was bound there before.

        With `child` the conversation is the parent, and `metadata` has the `anchor` that the new one
        hangs on and its `title`. The later commit wins; people are told of the one that lost. The
        same session bound in the same place again is that binding, with its limits renewed. Raises
        BindingRefused with a stable code; then nothing is bound.
        """
        adapter = self._adapter(conversation.channel, target_kind, placement)
        if await sessions.get(tx, target_session_key) is None:
            raise _gone(target_session_key)
        told = dict(metadata or {})
        if placement is Placement.CHILD:
            conversation = await adapter.child_of(
                tx, conversation, told.get("title", ""), told.get("anchor", "")
            )
        place = Place.THREAD if conversation.parent_conversation_id else Place.CHANNEL
        row = await conversations.ensure(tx, conversation, place)
        await conversations.hold(tx, row.id)
        # Retention may have deleted it between the look and the lock.
        if not await bindings.hold_session(tx, target_session_key):
            raise _gone(target_session_key)
        before = await bindings.active_in(tx, row.id)
        if before:
            over = before.binding.expired_by(await tx.now())
            if over is None and before.binding.target_session_key == target_session_key:
                return await self._renewed(tx, before.binding, limits, ttl)
            await self._end(tx, before.binding, over or EndReason.REPLACED)
        binding = await bindings.add(
            tx,
            NewBinding(
                account=conversation.account,
                conversation=row.id,
                session=target_session_key,
                kind=target_kind,
                bound_by=bound_by,
                limits=limits or Limits(),
                ttl=ttl,
                metadata=told,
            ),
        )
        made = await _read(tx, binding)
        await adapter.begun(tx, made)
        tx.after_commit(lambda: _tell("binding_begun", made))
        return made

    async def child_of(
        self, tx: Transaction, parent: ConversationRef, title: str, anchor: str
    ) -> ConversationRef:
        """Owe a conversation below `parent` without binding it yet: its session may have to be made first."""
        adapter = self._adapter(parent.channel, TargetKind.SUBAGENT, Placement.CHILD)
        return await adapter.child_of(tx, parent, title, anchor)

    async def list_by_session(self, tx: Transaction, key: SessionKey) -> list[SessionBinding]:
        """The session's active bindings, oldest first; one whose time is over is none, noted or not."""
        return await bindings.active_of(tx, [key])

    async def resolve_by_conversation(
        self, tx: Transaction, conversation: ConversationId
    ) -> SessionBinding | None:
        """What a conversation is bound to at this moment; a binding whose time is over ends by this look."""
        found = await bindings.active_in(tx, conversation)
        if found and found.binding.expired_by(await tx.now()):
            await self._move(tx, found)
            # Somebody may have used it, or bound another, while this waited.
            found = await bindings.active_in(tx, conversation)
        return found.binding if found else None

    async def touch(self, tx: Transaction, binding: BindingId, at: datetime | None = None) -> None:
        """Somebody used it, now or at a moment before. Never shortens its life, and never fails."""
        await bindings.touch(tx, binding, at)

    async def unbind(
        self, tx: Transaction, target: BindingId | SessionKey, reason: EndReason
    ) -> list[SessionBinding]:
        """End one binding, or all of a session; returns those that this call ended."""
        one = await bindings.get(tx, BindingId(target))
        found = [one] if one else await bindings.of_session(tx, SessionKey(target))
        ended = []
        for each in _in_lock_order(found):
            await conversations.hold(tx, each.conversation)
            fresh = await bindings.get(tx, each.binding.binding_id)
            if fresh and fresh.binding.status is BindingStatus.ACTIVE:
                ended.append(await self._end(tx, fresh.binding, reason))
        return ended

    async def reattach(
        self, tx: Transaction, conversation: ConversationId
    ) -> SessionBinding | None:
        """A conversation came out of the archive: its binding goes on, if its time is not over."""
        if await self._archived_in(tx, conversation) is None:
            return None
        await conversations.hold(tx, conversation)
        last = await self._archived_in(tx, conversation)
        if last is None:
            return None
        try:
            await bindings.record(tx, last, Reattached(), end_reason=None, ended_at=None)
        except StateChanged:
            # Retention took it at this moment.
            return None
        again = await _read(tx, last.binding_id)
        tx.after_commit(lambda: _tell("binding_reattached", again))
        return again

    async def is_any_due(self, tx: Transaction, account: AccountId) -> bool:
        """Whether a sweep would move any; a read is enough to ask."""
        found = await bindings.open_of(tx, account)
        return any([await self._is_due(tx, one) for one in found])

    async def sweep(self, tx: Transaction, account: AccountId, limit: int = 50) -> int:
        """End bindings whose time is over, and clear those whose farewell is settled; how many moved.

        At most `limit`: what is left waits for the next sweep, since expiry is judged on read.
        """
        moved = 0
        due = [one for one in await bindings.open_of(tx, account) if await self._is_due(tx, one)]
        for found in _in_lock_order(due[:limit]):
            moved += await self._move(tx, found)
        return moved

    async def _archived_in(
        self, tx: Transaction, conversation: ConversationId
    ) -> SessionBinding | None:
        found = await bindings.newest_in(tx, conversation)
        return found.binding if found and may_reattach(found.binding, await tx.now()) else None

    async def _is_due(self, tx: Transaction, found: Found) -> bool:
        if found.binding.status is BindingStatus.ENDING:
            return await bindings.is_farewell_settled(tx, found.binding.binding_id)
        return found.binding.expired_by(await tx.now()) is not None

    async def _move(self, tx: Transaction, found: Found) -> bool:
        """Lock, look again, and take the step that is due; somebody else may have taken it."""
        await conversations.hold(tx, found.conversation)
        fresh = await bindings.get(tx, found.binding.binding_id)
        if fresh is None:
            return False
        if fresh.binding.status is BindingStatus.ENDING:
            return await self._clear(tx, fresh.binding)
        reason = fresh.binding.expired_by(await tx.now())
        if reason is None or fresh.binding.status is BindingStatus.ENDED:
            return False
        await self._end(tx, fresh.binding, reason)
        return True

    async def _clear(self, tx: Transaction, binding: SessionBinding) -> bool:
        if not await bindings.is_farewell_settled(tx, binding.binding_id):
            return False
        await bindings.record(tx, binding, Cleared())
        return True

    async def _end(
        self, tx: Transaction, binding: SessionBinding, reason: EndReason
    ) -> SessionBinding:
        """The caller holds its conversation, so nobody else moves it."""
        await bindings.record(
            tx, binding, Unbound(reason), end_reason=reason.value, ended_at=await tx.now()
        )
        ended = replace(binding, status=BindingStatus.ENDING, end_reason=reason)
        adapter = self._adapters.get(binding.conversation.channel)
        if adapter is not None:
            await adapter.ended(tx, ended)
        tx.after_commit(lambda: _tell("binding_ended", ended))
        if await self._clear(tx, ended):
            # Where nobody is told anything, it is over at once.
            return replace(ended, status=BindingStatus.ENDED)
        return ended

    async def _renewed(
        self,
        tx: Transaction,
        binding: SessionBinding,
        limits: Limits | None,
        ttl: timedelta | None,
    ) -> SessionBinding:
        # In this order: under new limits it might be over before it is used.
        await bindings.touch(tx, binding.binding_id)
        await bindings.limit(tx, binding.binding_id, limits or binding.limits, ttl)
        return await _read(tx, binding.binding_id)

    def _adapter(
        self, channel: ChannelName, kind: TargetKind, placement: Placement
    ) -> BindingAdapter:
        if kind is TargetKind.ACP:
            raise BindingRefused(
                BindingCode.CAPABILITY_UNSUPPORTED, "the target kind acp is reserved"
            )
        adapter = self._adapters.get(channel)
        if adapter is None:
            raise BindingRefused(
                BindingCode.ADAPTER_UNAVAILABLE, f"nothing here serves the channel {channel}"
            )
        if placement not in adapter.capabilities.placements:
            raise BindingRefused(
                BindingCode.CAPABILITY_UNSUPPORTED,
                f"{channel} cannot bind a {placement} conversation",
            )
        return adapter


def _gone(session: SessionKey) -> BindingRefused:
    return BindingRefused(BindingCode.CREATE_FAILED, f"there is no session {session} any more")


def _in_lock_order(found: Iterable[Found]) -> list[Found]:
    """By conversation: the order in which everybody locks several."""
    return sorted(found, key=lambda one: one.conversation)


async def _read(tx: Transaction, binding: BindingId) -> SessionBinding:
    found = await bindings.get(tx, binding)
    assert found is not None
    return found.binding


def _tell(event: str, binding: SessionBinding) -> None:
    log.info(
        event,
        binding=binding.binding_id,
        session=binding.target_session_key,
        conversation=binding.conversation.conversation_id,
        reason=binding.end_reason.value if binding.end_reason else None,
    )
