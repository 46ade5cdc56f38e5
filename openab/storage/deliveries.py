"""Deliveries: what is owed to conversations, in order, and how each try ended."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.delivery import (
    LIFECYCLE,
    DeadReason,
    DeliveryEvent,
    DeliveryKind,
    DeliveryState,
    GivenUp,
    Purpose,
)
from openab.domain.ids import (
    AccountId,
    ConversationId,
    DeliveryId,
    MessageRef,
    PlatformId,
    TurnId,
    snowflake,
)
from openab.domain.outbound import Button, MessageBody
from openab.storage.conversations import Conversation, account_of
from openab.storage.engine import Transaction
from openab.storage.ids import new_id
from openab.storage.schema import deliveries
from openab.storage.transitions import transition
from openab.storage.types import UtcDateTime

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The partial index serves only a condition written word for word as its own.
_IS_OPEN = sa.text("deliveries.state IN ('pending', 'sending', 'unknown')")


@dataclass(frozen=True, slots=True)
class Owed:
    """A delivery to be written. `key` makes it single; `seq` is its place in the conversation."""

    account: AccountId
    conversation: ConversationId
    key: str
    kind: DeliveryKind
    purpose: Purpose
    body: MessageBody
    seq: int
    turn: TurnId | None = None
    part: int = 0
    version: int = 1
    #: The turn waits for this row before it settles.
    is_owed: bool = True
    #: Of an edit, delete or thread: the message.
    target: MessageRef | None = None
    #: Of an edit or delete: the create whose message it is.
    target_delivery: DeliveryId | None = None
    not_before: datetime | None = None


def thread_on(thread: Conversation, anchor: MessageRef, title: str, seq: int) -> Owed:
    """The opening of a thread on a message; by its key it is opened once, whoever wants it."""
    return Owed(
        account=thread.ref.account,
        conversation=thread.id,
        key=f"thread:{thread.ref.account}:{anchor.message_id}:v1",
        kind=DeliveryKind.THREAD,
        purpose=Purpose.THREAD,
        body=MessageBody(content=title),
        seq=seq,
        target=anchor,
        is_owed=False,
    )


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery as it was read."""

    id: DeliveryId
    account: AccountId
    conversation: ConversationId
    turn: TurnId | None
    key: str
    kind: DeliveryKind
    purpose: Purpose
    seq: int
    part: int
    version: int
    state: DeliveryState
    is_owed: bool
    body: MessageBody
    nonce: str
    target: MessageRef | None
    target_delivery: DeliveryId | None
    platform_id: PlatformId | None
    is_gone: bool
    anchor: PlatformId | None
    first_try_at: datetime | None
    last_try_at: datetime | None
    tries: int
    had_doubt: bool
    is_look_only: bool
    not_before: datetime | None
    dead_reason: DeadReason | None
    created_at: datetime


# Statements that run for every message are built once: that costs more than running them.
# PostgreSQL's INSERT class writes the very statement that SQLite takes too.
_OWE = postgresql.insert(deliveries).on_conflict_do_nothing(index_elements=["key"])
_GET = sa.select(deliveries).where(deliveries.c.id == sa.bindparam("id"))
_OF_TURN = (
    sa.select(deliveries)
    .where(deliveries.c.turn_id == sa.bindparam("turn"))
    .order_by(deliveries.c.ordinal, deliveries.c.created_at)
)
_OPEN_HERE = (
    sa.select(deliveries)
    .where(
        deliveries.c.account == account_of(sa.bindparam("here")),
        deliveries.c.conversation == sa.bindparam("here"),
        _IS_OPEN,
    )
    .order_by(deliveries.c.ordinal, deliveries.c.created_at)
)
_WAITS = sa.and_(
    deliveries.c.purpose == Purpose.TASK.value,
    deliveries.c.not_before > sa.bindparam("now", type_=UtcDateTime),
)
_HEAD = (
    _OPEN_HERE.where(deliveries.c.purpose != Purpose.HANDOFF.value)
    .order_by(None)
    .order_by(sa.case((_WAITS, 1), else_=0), deliveries.c.ordinal, deliveries.c.created_at)
    .limit(1)
)
_HANDOFFS = _OPEN_HERE.where(deliveries.c.purpose == Purpose.HANDOFF.value)
_ANSWERING = _OPEN_HERE.where(deliveries.c.purpose == Purpose.FINAL.value).with_only_columns(
    deliveries.c.turn_id
)


async def owe(tx: Transaction, owed: Owed) -> DeliveryId | None:
    """Write what is owed; None if a row with this key was written before."""
    delivery = new_id()
    values = {
        "id": delivery,
        "account": owed.account,
        "conversation": owed.conversation,
        "turn_id": owed.turn,
        "key": owed.key,
        "kind": owed.kind.value,
        "purpose": owed.purpose.value,
        "ordinal": owed.seq,
        "part": owed.part,
        "version": owed.version,
        "state": LIFECYCLE.initial.value,
        "is_owed": owed.is_owed,
        "body": _written(owed.body),
        "digest": owed.body.digest,
        "nonce": delivery,
        "target_conversation_id": owed.target.conversation_id if owed.target else None,
        "target_id": owed.target.message_id if owed.target else None,
        "target_delivery": owed.target_delivery,
        "not_before": owed.not_before,
        "created_at": await tx.now(),
    }
    result = await tx.execute(_OWE, values)
    return DeliveryId(delivery) if result.rowcount == 1 else None


async def get(tx: Transaction, delivery: DeliveryId | str) -> Delivery | None:
    """The delivery of this id, if there is one."""
    result = await tx.execute(_GET, {"id": delivery})
    row = result.one_or_none()
    return _delivery(row) if row else None


async def thread_of(tx: Transaction, conversation: ConversationId) -> DeliveryId | None:
    """The newest delivery that opens this conversation's thread, whatever became of it."""
    result = await tx.execute(
        sa.select(deliveries.c.id)
        .where(
            deliveries.c.conversation == conversation,
            deliveries.c.purpose == Purpose.THREAD.value,
        )
        .order_by(deliveries.c.ordinal.desc())
        .limit(1)
    )
    found = result.scalar_one_or_none()
    return DeliveryId(found) if found else None


async def unopened(
    tx: Transaction, threads: Collection[ConversationId]
) -> frozenset[ConversationId]:
    """Those whose thread is still owed, so that the network does not know it yet."""
    row = deliveries.c
    is_owed = (row.purpose == Purpose.THREAD.value, row.settled_at.is_(None))
    query = sa.select(row.conversation).where(row.conversation.in_(list(threads)), *is_owed)
    rows = await tx.execute(query)
    return frozenset(ConversationId(one) for one in rows.scalars())


async def head(tx: Transaction, conversation: ConversationId) -> Delivery | None:
    """The first open row here but for hand-offs: nothing behind it is sent before it is settled.

    A sub-agent's task that has to wait is only shown, so what stands behind it goes first.
    """
    looked = {"here": conversation, "now": await tx.now()}
    found = (await tx.execute(_HEAD, looked)).one_or_none()
    return _delivery(found) if found else None


async def open_handoffs(tx: Transaction, conversation: ConversationId) -> list[Delivery]:
    """The hand-offs that are owed here, in order: they hold nothing up, and wait for little."""
    return [_delivery(row) for row in await tx.execute(_HANDOFFS, {"here": conversation})]


async def answering(tx: Transaction, conversation: ConversationId) -> frozenset[TurnId]:
    """The turns here whose answers are still on their way."""
    rows = await tx.execute(_ANSWERING, {"here": conversation})
    return frozenset(TurnId(turn) for turn in rows.scalars() if turn)


async def record(
    tx: Transaction, delivery: Delivery, event: DeliveryEvent, **values: object
) -> Delivery:
    """Apply an event of the lifecycle: the only way a delivery's state changes."""
    if isinstance(event, GivenUp):
        values["dead_reason"] = event.reason.value
    if LIFECYCLE.next(delivery.state, event) in LIFECYCLE.terminal:
        values["settled_at"] = await tx.now()
    await transition(tx, deliveries, delivery.id, LIFECYCLE, delivery.state, event, **values)
    written = await get(tx, delivery.id)
    assert written is not None
    return written


async def of_turn(tx: Transaction, turn: TurnId) -> list[Delivery]:
    """Everything that was owed for a turn, in order."""
    result = await tx.execute(_OF_TURN, {"turn": turn})
    return [_delivery(row) for row in result]


async def open_of(tx: Transaction, conversation: ConversationId) -> list[Delivery]:
    """The open rows of a conversation, in order."""
    result = await tx.execute(_OPEN_HERE, {"here": conversation})
    return [_delivery(row) for row in result]


async def by_nonce(tx: Transaction, account: AccountId, nonce: str) -> Delivery | None:
    """The delivery that carries this nonce: our own echo names it."""
    # `owe` makes the nonce of the row's id, and the id has an index.
    found = await get(tx, nonce)
    return found if found and found.account == account and found.nonce == nonce else None


async def in_doubt(
    tx: Transaction,
    conversation: ConversationId,
    digest: str,
    message: PlatformId,
    *,
    is_task: bool = False,
) -> Delivery | None:
    """The first create here that may be this later message: tried, said the same, not seen yet.

    A webhook's message can be a sub-agent's task only, and the bot's own can be none.
    """
    for delivery in await open_of(tx, conversation):
        is_tried = delivery.state in {DeliveryState.SENDING, DeliveryState.UNKNOWN}
        is_create = delivery.kind is DeliveryKind.CREATE and not delivery.platform_id
        is_said_so = is_task is (delivery.purpose is Purpose.TASK)
        anchor = delivery.anchor
        is_later = anchor is not None and snowflake(anchor) < snowflake(message)
        if is_tried and is_create and is_said_so and is_later and delivery.body.digest == digest:
            return delivery
    return None


async def postpone(tx: Transaction, delivery: DeliveryId, until: datetime) -> None:
    """Nothing is tried for this row before `until`, unless its message has been seen meanwhile."""
    await tx.execute(
        sa.update(deliveries)
        .where(deliveries.c.id == delivery, deliveries.c.platform_id.is_(None))
        .values(not_before=until)
    )


async def move_back(tx: Transaction, delivery: DeliveryId, seq: int) -> None:
    """Let the rows behind it go first: `seq` is its new place."""
    await tx.execute(sa.update(deliveries).where(deliveries.c.id == delivery).values(ordinal=seq))


async def note_platform_id(tx: Transaction, delivery: DeliveryId, message: PlatformId) -> None:
    """The network showed us the message of a create: its owner settles it now, not later."""
    await tx.execute(
        sa.update(deliveries)
        .where(deliveries.c.id == delivery, deliveries.c.platform_id.is_(None))
        .values(platform_id=message, not_before=None)
    )


async def is_claimed(tx: Transaction, account: AccountId, message: PlatformId) -> bool:
    """Whether some create row is known to be this message."""
    result = await tx.execute(
        sa.select(sa.literal(1)).where(
            deliveries.c.account == account, deliveries.c.platform_id == message
        )
    )
    return result.one_or_none() is not None


async def listed(
    tx: Transaction, *, only_open: bool = False, limit: int = 200
) -> list[dict[str, Any]]:
    """Deliveries for people, the newest first."""
    query = sa.select(deliveries).order_by(deliveries.c.created_at.desc()).limit(limit)
    if only_open:
        query = query.where(_IS_OPEN)
    result = await tx.execute(query)
    return [dict(row) for row in result.mappings()]


def stem_of(delivery: Delivery) -> str:
    """What all versions of a delivery have in common."""
    return re.sub(r":v\d+$", "", delivery.key)


def superseding(delivery: Delivery, **changes: object) -> Owed:
    """The next version of a delivery, in its place: a new key and nonce, since the body differs."""
    version = delivery.version + 1
    stem = stem_of(delivery)
    owed = Owed(
        account=delivery.account,
        conversation=delivery.conversation,
        key=f"{stem}:v{version}",
        kind=delivery.kind,
        purpose=delivery.purpose,
        body=delivery.body,
        seq=delivery.seq,
        turn=delivery.turn,
        part=delivery.part,
        version=version,
        is_owed=delivery.is_owed,
        target=delivery.target,
        target_delivery=delivery.target_delivery,
    )
    return replace(owed, **changes)  # type: ignore[arg-type]


def _written(body: MessageBody) -> str:
    document: Mapping[str, object] = {
        "content": body.content,
        "mention": body.mention,
        "reply_to": body.reply_to,
        "silent": body.silent,
        "buttons": [[b.custom_id, b.label, b.style] for b in body.buttons],
        "pings_author": body.pings_author,
        "is_bare": body.is_bare,
        "persona": body.persona,
    }
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))


def _read(text: str) -> MessageBody:
    document = json.loads(text)
    return MessageBody(
        content=document["content"],
        mention=document["mention"],
        reply_to=document["reply_to"],
        silent=document["silent"],
        buttons=tuple(Button(*item) for item in document["buttons"]),
        pings_author=document["pings_author"],
        is_bare=document["is_bare"],
        persona=document["persona"],
    )


def _delivery(row: Any) -> Delivery:
    target = (
        MessageRef(PlatformId(row.target_conversation_id), PlatformId(row.target_id))
        if row.target_id
        else None
    )
    return Delivery(
        id=DeliveryId(row.id),
        account=AccountId(row.account),
        conversation=ConversationId(row.conversation),
        turn=TurnId(row.turn_id) if row.turn_id else None,
        key=row.key,
        kind=DeliveryKind(row.kind),
        purpose=Purpose(row.purpose),
        seq=row.ordinal,
        part=row.part,
        version=row.version,
        state=DeliveryState(row.state),
        is_owed=row.is_owed,
        body=_read(row.body),
        nonce=row.nonce,
        target=target,
        target_delivery=DeliveryId(row.target_delivery) if row.target_delivery else None,
        platform_id=PlatformId(row.platform_id) if row.platform_id else None,
        is_gone=row.is_gone,
        anchor=PlatformId(row.anchor) if row.anchor else None,
        first_try_at=row.first_try_at,
        last_try_at=row.last_try_at,
        tries=row.tries,
        had_doubt=row.had_doubt,
        is_look_only=row.is_look_only,
        not_before=row.not_before,
        dead_reason=DeadReason(row.dead_reason) if row.dead_reason else None,
        created_at=row.created_at,
    )
