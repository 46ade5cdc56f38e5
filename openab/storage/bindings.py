"""Bindings: which session a conversation talks to, and since when nobody has used it."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from openab.domain.binding import (
    LIFECYCLE,
    BindingEvent,
    BindingStatus,
    EndReason,
    Limits,
    SessionBinding,
    TargetKind,
)
from openab.domain.ids import (
    AccountId,
    BindingId,
    ChannelName,
    ConversationId,
    ConversationRef,
    PlatformId,
    SessionKey,
)
from openab.storage.engine import Transaction
from openab.storage.ids import new_id
from openab.storage.schema import bindings, conversations, deliveries, sessions, turns
from openab.storage.transitions import transition
from openab.storage.types import UtcDateTime

#: The partial indexes serve only a condition written word for word as theirs.
_IS_ACTIVE = sa.text("bindings.state = 'active'")
_IS_OPEN = sa.text("bindings.state IN ('active', 'ending')")


@dataclass(frozen=True, slots=True)
class NewBinding:
    """A binding to be written."""

    account: AccountId
    conversation: ConversationId
    session: SessionKey
    kind: TargetKind
    bound_by: str
    limits: Limits = field(default_factory=Limits)
    ttl: timedelta | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """A binding, and the row of its conversation."""

    binding: SessionBinding
    conversation: ConversationId
    ended_at: datetime | None = None


def farewell_key(binding: BindingId) -> str:
    """The key of the delivery by which people learn that a binding is over."""
    return f"binding:{binding}:farewell"


async def add(tx: Transaction, new: NewBinding) -> BindingId:
    """Write it, active. The caller has locked the conversation and ended the one before."""
    binding, now = BindingId(new_id()), await tx.now()
    idle, max_age = new.limits.idle, new.limits.max_age
    await tx.execute(
        sa.insert(bindings).values(
            id=binding,
            account=new.account,
            conversation=new.conversation,
            session_key=new.session,
            kind=new.kind.value,
            state=LIFECYCLE.initial.value,
            bound_at=now,
            bound_by=new.bound_by,
            last_activity_at=now,
            idle_seconds=_seconds(idle),
            max_age_seconds=_seconds(max_age),
            expires_at=now + new.ttl if new.ttl is not None else None,
            metadata=dict(new.metadata),
        )
    )
    return binding


async def get(tx: Transaction, binding: BindingId) -> Found | None:
    """The binding of this id, whatever state it is in."""
    return await _one(tx, bindings.c.id == binding)


async def active_in(tx: Transaction, conversation: ConversationId) -> Found | None:
    """The one active binding of a conversation; whether its time is over is for the caller to judge."""
    return await _one(tx, bindings.c.conversation == conversation, _IS_ACTIVE)


async def newest_in(tx: Transaction, conversation: ConversationId) -> Found | None:
    """The active binding of a conversation, else the newest one that it had."""
    newest = (
        _query(bindings.c.conversation == conversation)
        .order_by(
            sa.case((bindings.c.state == BindingStatus.ACTIVE.value, 0), else_=1),
            bindings.c.bound_at.desc(),
            bindings.c.id.desc(),
        )
        .limit(1)
    )
    row = (await tx.execute(newest)).one_or_none()
    return _found(row) if row else None


async def of_session(tx: Transaction, session: SessionKey) -> list[Found]:
    """Every binding of a session that is not ended, oldest first."""
    return await _several(tx, bindings.c.session_key == session, _IS_OPEN)


async def open_of(tx: Transaction, account: AccountId) -> list[Found]:
    """Every binding of an account that is not ended, oldest first."""
    return await _several(tx, bindings.c.account == account, _IS_OPEN)


async def listed(tx: Transaction, limit: int, *, only_open: bool) -> list[Found]:
    """For people: the newest first, of every account."""
    query = _query(*([_IS_OPEN] if only_open else []))
    newest = query.order_by(bindings.c.bound_at.desc(), bindings.c.id.desc()).limit(limit)
    return [_found(row) for row in await tx.execute(newest)]


async def active_of(tx: Transaction, keys: Collection[SessionKey]) -> list[SessionBinding]:
    """The bindings of these sessions that are good at this moment, oldest first."""
    now = await tx.now()
    found = await _several(tx, bindings.c.session_key.in_(list(keys)), _IS_ACTIVE)
    return [one.binding for one in found if one.binding.expired_by(now) is None]


async def touch(tx: Transaction, binding: BindingId, at: datetime | None = None) -> None:
    """Somebody used it, now or at a moment before.

    Never shortens its life and never fails: an earlier moment changes nothing, nor does a binding
    that is not known, or over, or whose time is over though nobody has noted it yet.
    """
    await _touch(tx, await get(tx, binding), at)


async def touch_in(tx: Transaction, conversation: ConversationId) -> None:
    """The same for whatever is bound in a conversation now."""
    await _touch(tx, await active_in(tx, conversation), None)


async def touch_of(tx: Transaction, session: SessionKey) -> None:
    """The same for every binding of a session that is busy until this moment: so none of them is idle.

    One that was idle for too long before the session began to work is over, as for any look.
    Whoever moves one of them right now is not waited for: its conversation is locked, and ours may be
    the one that it locks next.
    """
    now = await tx.now()
    free = sa.select(bindings.c.id).where(
        bindings.c.session_key == session,
        _IS_ACTIVE,
        bindings.c.last_activity_at < now,
        sa.or_(bindings.c.idle_seconds.is_(None), _idle_end() > now, _is_busy()),
    )
    await tx.execute(
        sa.update(bindings)
        .where(bindings.c.id.in_(free.with_for_update(skip_locked=True)))
        .values(last_activity_at=now)
    )


async def _touch(tx: Transaction, found: Found | None, at: datetime | None) -> None:
    now = await tx.now()
    if found is None or found.binding.expired_by(now):
        return
    moment = min(at or now, now)
    await tx.execute(
        sa.update(bindings)
        .where(
            bindings.c.id == found.binding.binding_id,
            _IS_ACTIVE,
            bindings.c.last_activity_at < moment,
        )
        .values(last_activity_at=moment)
    )


async def limit(
    tx: Transaction, binding: BindingId, limits: Limits, ttl: timedelta | None = None
) -> None:
    """Let it last so long; its age and its last activity stay. With `ttl` it ends so long from now."""
    values: dict[str, object] = {
        "idle_seconds": _seconds(limits.idle),
        "max_age_seconds": _seconds(limits.max_age),
    }
    if ttl is not None:
        values["expires_at"] = await tx.now() + ttl
    await tx.execute(sa.update(bindings).where(bindings.c.id == binding).values(**values))


async def hold_session(tx: Transaction, session: SessionKey) -> bool:
    """Whether the session exists; if so, retention leaves it alone while this transaction lasts."""
    result = await tx.execute(
        sa.select(sessions.c.session_key)
        .where(sessions.c.session_key == session)
        # Commanders of its agent write it meanwhile; only its deletion is to wait.
        .with_for_update(read=True, key_share=True)
    )
    return result.one_or_none() is not None


async def record(
    tx: Transaction, binding: SessionBinding, event: BindingEvent, **values: object
) -> BindingStatus:
    """Move it along one arrow of its lifecycle; raises StateChanged if somebody else has."""
    return await transition(
        tx, bindings, binding.binding_id, LIFECYCLE, binding.status, event, **values
    )


async def is_farewell_settled(tx: Transaction, binding: BindingId) -> bool:
    """Whether nothing is owed any more of what tells people that it is over."""
    row = deliveries.c
    result = await tx.execute(
        sa.select(sa.literal(1))
        .where(row.key == farewell_key(binding), row.settled_at.is_(None))
        .limit(1)
    )
    return result.one_or_none() is None


def _idle_end() -> sa.ColumnElement[datetime]:
    """When it was, or will be, idle for too long."""
    micros = sa.cast(bindings.c.idle_seconds, sa.BigInteger) * 1_000_000
    last = sa.type_coerce(bindings.c.last_activity_at, sa.BigInteger)
    return sa.type_coerce(last + micros, UtcDateTime)


def _is_busy() -> sa.ColumnElement[bool]:
    """A turn of its session is queued or running, asked for before it was idle for too long.

    What another conversation asks of the session afterwards brings no dead binding back.
    """
    return sa.exists(
        sa.select(sa.literal(1)).where(
            sa.text("turns.state IN ('queued', 'running', 'answered')"),
            turns.c.account == bindings.c.account,
            turns.c.session_key == bindings.c.session_key,
            turns.c.state != sa.literal("answered"),
            sa.or_(bindings.c.idle_seconds.is_(None), turns.c.created_at < _idle_end()),
        )
    )


def _query(*conditions: Any) -> sa.Select[Any]:
    where = conversations.c
    return (
        sa.select(
            bindings,
            where.channel.label("channel"),
            where.conversation_id.label("place_id"),
            where.parent_conversation_id.label("parent_id"),
            _is_busy().label("is_busy"),
        )
        .join(conversations, where.id == bindings.c.conversation)
        .where(*conditions)
    )


async def _one(tx: Transaction, *conditions: Any) -> Found | None:
    newest = _query(*conditions).order_by(bindings.c.bound_at.desc(), bindings.c.id.desc()).limit(1)
    row = (await tx.execute(newest)).one_or_none()
    return _found(row) if row else None


async def _several(tx: Transaction, *conditions: Any) -> list[Found]:
    oldest = _query(*conditions).order_by(bindings.c.bound_at, bindings.c.id)
    return [_found(row) for row in await tx.execute(oldest)]


def _found(row: Any) -> Found:
    binding = SessionBinding(
        binding_id=BindingId(row.id),
        target_session_key=SessionKey(row.session_key),
        target_kind=TargetKind(row.kind),
        conversation=ConversationRef(
            ChannelName(row.channel),
            AccountId(row.account),
            PlatformId(row.place_id),
            PlatformId(row.parent_id) if row.parent_id else None,
        ),
        status=BindingStatus(row.state),
        bound_at=row.bound_at,
        bound_by=row.bound_by,
        last_activity_at=row.last_activity_at,
        limits=Limits(_span(row.idle_seconds), _span(row.max_age_seconds)),
        expires_at=row.expires_at,
        metadata=row.metadata,
        end_reason=EndReason(row.end_reason) if row.end_reason else None,
        is_busy=bool(row.is_busy),
    )
    return Found(binding, ConversationId(row.conversation), row.ended_at)


def _seconds(span: timedelta | None) -> int | None:
    # Upwards: what lasts a moment is not over at once.
    return None if span is None else math.ceil(span.total_seconds())


def _span(seconds: int | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
