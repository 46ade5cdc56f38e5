"""Turns: one prompt to one outcome, in their order per conversation, with the log of their life."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from openab.domain.ids import (
    AccountId,
    ConversationId,
    Incarnation,
    MessageRef,
    PlatformId,
    SessionKey,
    TurnId,
    snowflake,
)
from openab.domain.turn import (
    LIFECYCLE,
    CancelledQueued,
    Ended,
    Outcome,
    TurnEvent,
    TurnSource,
    TurnState,
)
from openab.storage.bindings import touch_of
from openab.storage.conversations import account_of
from openab.storage.dialect import locking
from openab.storage.engine import Transaction
from openab.storage.ids import new_id
from openab.storage.schema import sessions, turn_log, turns
from openab.storage.transitions import transition

#: The log's word for each event of the lifecycle.
_LOGGED = {
    "Claimed": "turn_started",
    "CancelledQueued": "turn_cancelled",
    "AgentLost": "turn_recovered",
    "SettledDone": "turn_settled",
    "SettledFailed": "turn_settled",
    "SettledCancelled": "turn_settled",
    "SettledInterrupted": "turn_settled",
    "OwedAnew": "answer_owed_anew",
    "RowDead": "turn_settled",
}
_ENDED = {
    Outcome.COMPLETED: "turn_completed",
    Outcome.FAILED: "turn_failed",
    Outcome.CANCELLED: "turn_cancelled",
    Outcome.INTERRUPTED: "turn_interrupted",
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message of a batch, as the prompt will hold it."""

    record: Mapping[str, object]
    text: str
    #: Name, type and size of each attachment.
    attachments: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as it was read."""

    id: TurnId
    account: AccountId
    conversation: ConversationId
    session_key: SessionKey
    seq: int
    state: TurnState
    outcome: Outcome | None
    batch: tuple[Arrival, ...]
    requester_id: PlatformId
    requester_name: str
    requester_is_bot: bool
    trigger: MessageRef
    thread_delivery: str | None
    attempt: int
    step: int
    incarnation: Incarnation | None
    cancel_requested_at: datetime | None
    cancelled_by: str | None
    raw: str | None
    not_before: datetime | None
    created_at: datetime
    started_at: datetime | None
    orderly_stops: int
    #: People are asked whether the interrupted turn goes on, since then.
    asked_at: datetime | None
    #: Who said that it goes on.
    continued_by: str | None
    source: TurnSource
    idempotency_key: str

    @property
    def counted_attempts(self) -> int:
        """How often it was begun, but for what an orderly stop ended or the agent never got."""
        return self.attempt - self.orderly_stops

    def is_asked_by(self, author: str) -> bool:
        """Whether a message of theirs is in the batch: then the turn is theirs, too."""
        senders = (arrival.record.get("sender_id") for arrival in self.batch)
        return author == self.requester_id or author in senders


@dataclass(frozen=True, slots=True)
class NewTurn:
    """What intake knows of a turn that it accepts."""

    account: AccountId
    conversation: ConversationId
    session_key: SessionKey
    seq: int
    order_key: int
    idempotency_key: str
    arrival: Arrival
    requester_id: PlatformId
    requester_name: str
    requester_is_bot: bool
    trigger: MessageRef
    thread_delivery: str | None = None
    source: TurnSource = TurnSource.MESSAGE
    #: What its one arrival weighs in a batch.
    tokens: int = 0


# Statements that run for every message are built once: that costs more than running them.
_ENQUEUE = sa.insert(turns)
_GET = sa.select(turns).where(turns.c.id == sa.bindparam("id"))
_LOCKED = locking(_GET)
_OPEN = (
    sa.select(turns)
    .where(
        # The partial index serves only a condition written word for word as its own.
        sa.text("turns.state IN ('queued', 'running', 'answered')"),
        turns.c.state.in_(("queued", "running")),
    )
    .order_by(turns.c.order_key, turns.c.seq)
)
_OPEN_HERE = _OPEN.where(
    turns.c.account == account_of(sa.bindparam("conversation")),
    turns.c.conversation == sa.bindparam("conversation"),
)
_RUNS_ELSEWHERE = sa.select(sa.literal(1)).where(
    # The partial index serves only a condition written word for word as its own.
    sa.text("turns.state = 'running'"),
    turns.c.session_key == sa.bindparam("session"),
    turns.c.id != sa.bindparam("turn"),
)
_FOLLOWING = (
    sa.select(sa.func.coalesce(sa.func.max(turn_log.c.n), 0) + 1)
    .where(turn_log.c.turn_id == sa.bindparam("of"))
    .scalar_subquery()
)
_LOG = sa.insert(turn_log).values(turn_id=sa.bindparam("of"), n=_FOLLOWING)


async def enqueue(tx: Transaction, new: NewTurn, planned: TurnId | None = None) -> TurnId:
    """Add a queued turn; a second one with its idempotency key is refused by the database."""
    turn = planned or TurnId(new_id())
    await tx.execute(
        _ENQUEUE,
        {
            "id": turn,
            "account": new.account,
            "conversation": new.conversation,
            "session_key": new.session_key,
            "seq": new.seq,
            "order_key": new.order_key,
            "idempotency_key": new.idempotency_key,
            "state": LIFECYCLE.initial.value,
            "source": new.source.value,
            "batch": [written(new.arrival)],
            "batch_tokens": new.tokens,
            "lane": new.requester_id if new.source is TurnSource.MESSAGE else None,
            "requester_id": new.requester_id,
            "requester_name": new.requester_name,
            "requester_is_bot": new.requester_is_bot,
            "trigger_conversation_id": new.trigger.conversation_id,
            "trigger_message_id": new.trigger.message_id,
            "thread_delivery": new.thread_delivery,
            "created_at": await tx.now(),
        },
    )
    return turn


async def get(tx: Transaction, turn: TurnId) -> Turn | None:
    """The turn of this id, if there is one."""
    result = await tx.execute(_GET, {"id": turn})
    row = result.one_or_none()
    return _turn(row) if row else None


async def locked(tx: Transaction, turn: TurnId) -> Turn | None:
    """The same, and nobody else can change it before this transaction ends."""
    row = (await tx.execute(_LOCKED, {"id": turn})).one_or_none()
    if row is None:
        return None
    tx.heard(row.clock)
    return _turn(row)


async def open_of(tx: Transaction, conversation: ConversationId) -> list[Turn]:
    """The queued and running turns here, in the order in which they run."""
    result = await tx.execute(_OPEN_HERE, {"conversation": conversation})
    return sorted((_turn(row) for row in result), key=lambda turn: turn.state != TurnState.RUNNING)


async def open_for(tx: Transaction, session: SessionKey) -> list[Turn]:
    """The queued and running turns of a session, in whatever conversation that is bound to it."""
    account = sa.select(sessions.c.account).where(sessions.c.session_key == session)
    result = await tx.execute(
        _OPEN.where(turns.c.account == account.scalar_subquery(), turns.c.session_key == session)
    )
    return sorted((_turn(row) for row in result), key=lambda turn: turn.state != TurnState.RUNNING)


async def is_running_elsewhere(tx: Transaction, turn: Turn) -> bool:
    """Whether another turn of the same session runs now: in another conversation that is bound to it."""
    other = {"session": turn.session_key, "turn": turn.id}
    result = await tx.execute(_RUNS_ELSEWHERE, other)
    return result.one_or_none() is not None


async def record(
    tx: Transaction,
    turn: Turn,
    event: TurnEvent,
    *,
    detail: Mapping[str, object] | None = None,
    **values: object,
) -> TurnState:
    """Apply an event of the lifecycle: the only way a turn's state changes; logs it, too.

    While a turn is open, what is bound to its session is not idle; its end is the last use.
    """
    if isinstance(event, Ended | CancelledQueued):
        await touch_of(tx, turn.session_key)
    after = await transition(tx, turns, turn.id, LIFECYCLE, turn.state, event, **values)
    word = _ENDED[event.outcome] if isinstance(event, Ended) else _LOGGED[type(event).__name__]
    await log(tx, turn.id, word, {"state": after.value, **(detail or {})})
    return after


async def postpone(
    tx: Transaction, conversation: ConversationId, thread_delivery: str, until: datetime
) -> None:
    """The queued turns here that wait for this thread do not start before `until`."""
    await tx.execute(
        sa.update(turns)
        .where(
            turns.c.conversation == conversation,
            turns.c.thread_delivery == thread_delivery,
            turns.c.state == TurnState.QUEUED,
        )
        .values(not_before=until)
    )


async def request_cancel(tx: Transaction, turn: TurnId, by: str) -> bool:
    """Note once that somebody wants an open turn cancelled; False: it was noted before, or has ended."""
    result = await tx.execute(
        sa.update(turns)
        .where(
            turns.c.id == turn,
            turns.c.state.in_(("queued", "running")),
            turns.c.cancel_requested_at.is_(None),
        )
        # Whatever it waited for, it is seen to now.
        .values(cancel_requested_at=await tx.now(), cancelled_by=by, not_before=None)
    )
    return bool(result.rowcount == 1)


async def ask(tx: Transaction, turn: TurnId, until: datetime) -> None:
    """From now on people are asked whether this running turn goes on; nobody looks before `until`."""
    await tx.execute(
        sa.update(turns)
        .where(turns.c.id == turn, turns.c.state == TurnState.RUNNING)
        .values(asked_at=await tx.now(), not_before=until)
    )


async def go_on(tx: Transaction, turn: Turn, by: str) -> bool:
    """Note once that the turn goes on, if that is asked of this very attempt; False: it is not."""
    result = await tx.execute(
        sa.update(turns)
        .where(
            turns.c.id == turn.id,
            turns.c.state == TurnState.RUNNING,
            turns.c.attempt == turn.attempt,
            turns.c.asked_at.is_not(None),
            turns.c.continued_by.is_(None),
            turns.c.cancel_requested_at.is_(None),
        )
        .values(continued_by=by, not_before=None)
    )
    return bool(result.rowcount == 1)


async def begin_step(tx: Transaction, turn: Turn, step: int) -> bool:
    """The running attempt's next prompt is going to be given; False: the turn has ended, or is to end."""
    result = await tx.execute(
        sa.update(turns)
        .where(
            turns.c.id == turn.id,
            turns.c.state == TurnState.RUNNING,
            turns.c.attempt == turn.attempt,
            turns.c.cancel_requested_at.is_(None),
        )
        .values(step=step)
    )
    return bool(result.rowcount == 1)


async def note_orderly_stop(tx: Transaction, turn: Turn) -> None:
    """The running attempt was stopped in order, so it does not count; twice changes nothing more."""
    await tx.execute(
        sa.update(turns)
        .where(
            turns.c.id == turn.id,
            turns.c.state == TurnState.RUNNING,
            turns.c.attempt == turn.attempt,
            turns.c.orderly_stops == turn.orderly_stops,
        )
        .values(orderly_stops=turn.orderly_stops + 1)
    )


async def log(
    tx: Transaction, turn: TurnId, event: str, detail: Mapping[str, object] | None = None
) -> None:
    """Add a line to the turn's log; the event is the constant word that the process logs use too."""
    line = {"of": turn, "event": event, "detail": dict(detail or {}), "at": await tx.now()}
    await tx.execute(_LOG, line)


async def log_of(tx: Transaction, turn: TurnId) -> list[dict[str, Any]]:
    """The turn's log, oldest line first."""
    result = await tx.execute(
        sa.select(turn_log).where(turn_log.c.turn_id == turn).order_by(turn_log.c.n)
    )
    return [dict(row) for row in result.mappings()]


async def listed(
    tx: Transaction, *, only_open: bool = False, limit: int = 200
) -> list[dict[str, Any]]:
    """Turns for people, the newest first."""
    query = sa.select(turns).order_by(turns.c.created_at.desc()).limit(limit)
    if only_open:
        query = query.where(turns.c.state.in_([state.value for state in LIFECYCLE.open]))
    result = await tx.execute(query)
    return [dict(row) for row in result.mappings()]


async def transcript(
    tx: Transaction, session: SessionKey, limit: int = 20, *, since: datetime | None = None
) -> Sequence[tuple[tuple[Arrival, ...], str]]:
    """What was asked and answered in a session, oldest first: the last `limit` turns that ended.

    With `since`, only what was asked after it: a reset is not undone by a transcript.
    """
    wanted = [turns.c.session_key == session, turns.c.outcome.is_not(None)]
    if since is not None:
        wanted.append(turns.c.created_at > since)
    result = await tx.execute(
        sa.select(turns.c.batch, turns.c.raw)
        .where(*wanted)
        .order_by(turns.c.order_key.desc(), turns.c.seq.desc())
        .limit(limit)
    )
    return [(_read(row.batch), row.raw or "") for row in reversed(result.all())]


def written(arrival: Arrival) -> dict[str, object]:
    """An arrival as the batch's column holds it."""
    return {
        "record": dict(arrival.record),
        "text": arrival.text,
        "attachments": [dict(item) for item in arrival.attachments],
    }


def _read(batch: list[dict[str, Any]]) -> tuple[Arrival, ...]:
    arrivals = [
        Arrival(item["record"], item["text"], tuple(item.get("attachments", ()))) for item in batch
    ]
    # One that was found late stands where it was said.
    return tuple(sorted(arrivals, key=_said))


def _said(arrival: Arrival) -> int:
    message = str(arrival.record.get("message_id", ""))
    return snowflake(message) if message.isdecimal() else 0


def _turn(row: Any) -> Turn:
    return Turn(
        id=TurnId(row.id),
        account=AccountId(row.account),
        conversation=ConversationId(row.conversation),
        session_key=SessionKey(row.session_key),
        seq=row.seq,
        state=TurnState(row.state),
        outcome=Outcome(row.outcome) if row.outcome else None,
        batch=_read(row.batch),
        requester_id=PlatformId(row.requester_id),
        requester_name=row.requester_name,
        requester_is_bot=row.requester_is_bot,
        trigger=MessageRef(
            PlatformId(row.trigger_conversation_id), PlatformId(row.trigger_message_id)
        ),
        thread_delivery=row.thread_delivery,
        attempt=row.attempt,
        step=row.step,
        incarnation=Incarnation(row.incarnation) if row.incarnation else None,
        cancel_requested_at=row.cancel_requested_at,
        cancelled_by=row.cancelled_by,
        raw=row.raw,
        not_before=row.not_before,
        created_at=row.created_at,
        started_at=row.started_at,
        orderly_stops=row.orderly_stops,
        asked_at=row.asked_at,
        continued_by=row.continued_by,
        source=TurnSource(row.source),
        idempotency_key=row.idempotency_key,
    )
