"""Binds conversations to sessions: one active binding a conversation, judged on read, ended as a tombstone."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

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
from openab.storage import bindings, conversations
from openab.storage.bindings import Found, NewBinding
from openab.storage.engine import Transaction

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
        BindingRefused with a stable code, and then nothing is written.
        """
        adapter = self._adapter(conversation.channel, target_kind, placement)
        told = dict(metadata or {})
        if placement is Placement.CHILD:
            conversation = await adapter.child_of(
                tx, conversation, told.get("title", ""), told.get("anchor", "")
            )
        place = Place.THREAD if conversation.parent_conversation_id else Place.CHANNEL
        row = await conversations.ensure(tx, conversation, place)
        await conversations.hold(tx, row.id)
        before = await bindings.active_in(tx, row.id)
        if before and await self._is_same(tx, before.binding, target_session_key):
            return await self._renewed(tx, before.binding, limits)
        if before:
            await self._end(tx, before.binding, EndReason.REPLACED)
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
        now = await tx.now()
        found = [one.binding for one in await bindings.of_session(tx, key)]
        return [
            one
            for one in found
            if one.status is BindingStatus.ACTIVE and one.expired_by(now) is None
        ]

    async def resolve_by_conversation(
        self, tx: Transaction, conversation: ConversationId
    ) -> SessionBinding | None:
        """What a conversation is bound to at this moment; a binding whose time is over ends by this look."""
        found = await bindings.active_in(tx, conversation)
        if found is None:
            return None
        reason = found.binding.expired_by(await tx.now())
        if reason is None:
            return found.binding
        await self._end(tx, found.binding, reason)
        return None

    async def touch(self, tx: Transaction, binding: BindingId) -> None:
        """Somebody used it. Never shortens its life, and never fails."""
        await bindings.touch(tx, binding)

    async def unbind(
        self, tx: Transaction, target: BindingId | SessionKey, reason: EndReason
    ) -> list[SessionBinding]:
        """End one binding, or all of a session; returns those that this call ended."""
        one = await bindings.get(tx, BindingId(target))
        found = [one] if one else await bindings.of_session(tx, SessionKey(target))
        active = [each.binding for each in found if each.binding.status is BindingStatus.ACTIVE]
        return [await self._end(tx, each, reason) for each in active]

    async def reattach(
        self, tx: Transaction, conversation: ConversationId
    ) -> SessionBinding | None:
        """A conversation came out of the archive: its binding goes on, if its time is not over."""
        await conversations.hold(tx, conversation)
        last = await bindings.last_ended_in(tx, conversation)
        if last is None or await bindings.active_in(tx, conversation):
            return None
        if not may_reattach(last.binding, await tx.now()):
            return None
        await bindings.record(tx, last.binding, Reattached(), end_reason=None, ended_at=None)
        again = await _read(tx, last.binding.binding_id)
        tx.after_commit(lambda: _tell("binding_reattached", again))
        return again

    async def sweep(self, tx: Transaction, account: AccountId) -> int:
        """End every binding whose time is over, and clear those whose farewell is settled; how many moved."""
        now, moved = await tx.now(), 0
        for found in await bindings.open_of(tx, account):
            binding = found.binding
            if binding.status is BindingStatus.ENDING:
                moved += await self._clear(tx, binding)
            elif reason := binding.expired_by(now):
                moved += await self._expire(tx, found, reason)
        return moved

    async def _expire(self, tx: Transaction, found: Found, reason: EndReason) -> bool:
        await conversations.hold(tx, found.conversation)
        fresh = await bindings.get(tx, found.binding.binding_id)
        if fresh is None or fresh.binding.status is not BindingStatus.ACTIVE:
            return False
        # Somebody may have used it since.
        if fresh.binding.expired_by(await tx.now()) is None:
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

    async def _is_same(self, tx: Transaction, binding: SessionBinding, session: SessionKey) -> bool:
        is_alive = binding.expired_by(await tx.now()) is None
        return is_alive and binding.target_session_key == session

    async def _renewed(
        self, tx: Transaction, binding: SessionBinding, limits: Limits | None
    ) -> SessionBinding:
        if limits is not None:
            await bindings.limit(tx, binding.binding_id, limits)
        await bindings.touch(tx, binding.binding_id)
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
