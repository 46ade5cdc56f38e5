"""A sub-agent's task is over: where its answer goes, and what the session that gave the task is told."""

from dataclasses import dataclass

import structlog

from openab.control.cuts import pieces
from openab.control.elsewhere import owe_in
from openab.control.settings import Settings
from openab.control.spawning import completion_key
from openab.domain.binding import SessionBinding
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.destination import Destination, EventKind, Fallback, Reason, resolve
from openab.domain.ids import ConversationId, MessageRef, PlatformId, SessionKey, TurnId, snowflake
from openab.domain.message import Author, AuthorKind, InboundMessage, sender_record
from openab.domain.outbound import answer_body, presentation_body
from openab.domain.spawn import Finished, Held, SpawnState
from openab.domain.turn import Outcome, TurnSource
from openab.routing.router import resolve_destination
from openab.storage import bindings, conversations, deliveries, sessions, spawns, streams, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery, Owed
from openab.storage.engine import Transaction
from openab.storage.spawns import Spawn
from openab.storage.transitions import StateChanged
from openab.storage.turns import Arrival, NewTurn, Turn
from openab.text import notices, spawn_words
from openab.text.split import MESSAGE_LIMIT

log = structlog.get_logger()
#: In the key of each part of an answer that was held.
_HELD = ":held:"
#: What is done where nothing is bound that the completion could go to: chosen here, and nowhere else.
_FALLBACKS = {
    # The thread was given up while the agent worked: whoever asked still wants the answer.
    Reason.NO_ACTIVE_BINDING: Fallback.REPORT_TO_REQUESTER,
    # It is bound in several places, its own no more among them, and none of them is nearer.
    Reason.NO_REQUESTER_MATCH: Fallback.HOLD,
    Reason.MISSING_REQUESTER: Fallback.DROP_WITH_NOTICE,
    Reason.INVALID_REQUESTER: Fallback.DROP_WITH_NOTICE,
    Reason.MISSING_TARGET_SESSION: Fallback.DROP_WITH_NOTICE,
}


@dataclass(frozen=True, slots=True)
class Completion:
    """A task's end on its way: its spawn, and what was decided about it."""

    spawn: Spawn
    destination: Destination
    #: Chosen where there is no destination.
    fallback: Fallback | None
    #: Where the answer is shown; None: nowhere.
    shown_in: ConversationId | None


async def hold_places(tx: Transaction, turn: Turn) -> None:
    """Lock what the end of a sub-agent's task writes to, before anything else is locked.

    Whoever commits several turns' streams locks the same two, in this order.
    """
    spawn = await spawns.of_turn(tx, turn.id) if turn.source is TurnSource.SPAWN else None
    if spawn is not None:
        places = (turn.conversation, spawn.requester_conversation)
        await conversations.hold_several(tx, places)


async def completion_of(tx: Transaction, settings: Settings, turn: Turn) -> Completion | None:
    """Decide where the answer of a sub-agent's task goes; None for every other turn, which stays here."""
    if turn.source is not TurnSource.SPAWN:
        return None
    spawn = await spawns.of_turn(tx, turn.id)
    if spawn is None or spawn.state is not SpawnState.OPENED:
        return None
    requester = await conversations.get(tx, spawn.requester_conversation)
    destination = await _routed(tx, settings, turn.session_key, requester)
    if destination.reason is Reason.NO_REQUESTER_MATCH:
        # Somebody brought the session elsewhere as well: the task's own conversation is the nearest.
        own = await conversations.get(tx, turn.conversation)
        nearest = await _routed(tx, settings, turn.session_key, own)
        destination = nearest if nearest.binding else destination
    if destination.binding is not None:
        return Completion(spawn, destination, None, await _place_of(tx, destination.binding))
    fallback = _FALLBACKS[destination.reason]
    is_shown = fallback is Fallback.REPORT_TO_REQUESTER
    tx.after_commit(
        lambda: log.warning(
            "completion_fell_back",
            turn_id=turn.id,
            spawn=spawn.id,
            reason=destination.reason.value,
            action=fallback.value,
        )
    )
    return Completion(spawn, destination, fallback, requester.id if is_shown else None)


async def _routed(
    tx: Transaction, settings: Settings, session: SessionKey, requester: Conversation
) -> Destination:
    destination = await resolve_destination(
        tx, settings.bindings, EventKind.TASK_COMPLETION, session, requester.ref
    )
    mode, reason = destination.mode.value, destination.reason.value
    tx.after_commit(lambda: settings.count_routed(mode, reason))
    return destination


async def conclude(
    tx: Transaction,
    settings: Settings,
    turn: Turn,
    completion: Completion | None,
    outcome: Outcome,
    answer: str,
    trouble: str = "",
) -> None:
    """Settle the spawn and tell the parent, in the transaction that ends the turn; once for each turn.

    `trouble`: what people are told of why it failed.
    """
    if completion is None:
        return
    spawn, fallback = completion.spawn, completion.fallback
    values = {"answer": answer, "settled_at": await tx.now()}
    is_held = fallback is Fallback.HOLD
    await spawns.record(tx, spawn, Held() if is_held else Finished(), **values)
    requester = await conversations.get(tx, spawn.requester_conversation)
    if fallback is not None and completion.shown_in is None:
        reason = completion.destination.reason
        text = spawn_words.kept_back(spawn.agent, outcome, reason, fallback)
        await owe_in(
            tx, settings, requester, f"spawn:{spawn.id}:kept_back:v1", presentation_body(text)
        )
    shown_in = await conversations.get(tx, completion.shown_in) if completion.shown_in else None
    seen = shown_in.ref.conversation_id if shown_in else None
    text = spawn_words.finished(spawn.agent, outcome, seen, answer, trouble)
    await _inform_parent(tx, settings, spawn, turn, requester, text)


async def release_held(tx: Transaction, settings: Settings) -> int:
    """Show every completion for which there is a conversation by now; how many.

    Decided anew by the router, so that it goes to a bound conversation or is held on, for as long
    as finished rows are kept at all.
    """
    released = 0
    for spawn in await spawns.held_of(tx, settings.account):
        try:
            async with tx.savepoint():
                released += await _release(tx, settings, spawn)
        except StateChanged:
            # Somebody else showed it at this moment; the caller's own work goes on.
            continue
    return released


async def _release(tx: Transaction, settings: Settings, spawn: Spawn) -> bool:
    assert spawn.session is not None
    requester = await conversations.get(tx, spawn.requester_conversation)
    known = await settings.bindings.list_by_session(tx, spawn.session)
    if resolve(spawn.session, known, requester.ref).binding is None:
        await _drop_if_old(tx, settings, spawn, requester)
        return False
    destination = await _routed(tx, settings, spawn.session, requester)
    assert destination.binding is not None
    await _show(tx, settings, spawn, await _place_of(tx, destination.binding))
    await spawns.record(tx, spawn, Finished())
    return True


async def _place_of(tx: Transaction, binding: SessionBinding) -> ConversationId:
    found = await bindings.get(tx, binding.binding_id)
    assert found is not None
    return found.conversation


async def _drop_if_old(
    tx: Transaction, settings: Settings, spawn: Spawn, requester: Conversation
) -> None:
    """What waits for longer than finished rows are kept waits for nothing, and people are told so."""
    now = await tx.now()
    if not settings.keep or now - (spawn.settled_at or now) <= settings.keep:
        return
    await spawns.record(tx, spawn, Finished())
    told = presentation_body(spawn_words.dropped(spawn.agent, settings.keep.days))
    await owe_in(tx, settings, requester, f"spawn:{spawn.id}:dropped:v1", told)
    tx.after_commit(lambda: log.warning("held_completion_dropped", spawn=spawn.id))


async def held_lost(tx: Transaction, settings: Settings, dead: Delivery, reason: str) -> bool:
    """Say where it was asked for that a part of a held answer could not be shown; False: it is none."""
    stem, _, part = dead.key.partition(_HELD)
    spawn = await spawns.get(tx, stem.removeprefix("spawn:")) if part else None
    if spawn is None:
        return False
    where = await conversations.get(tx, spawn.requester_conversation)
    shown_in = await conversations.get(tx, dead.conversation)
    trouble = notices.answer_undelivered(reason)
    text = spawn_words.undelivered(spawn.agent, shown_in.ref.conversation_id, trouble)
    await owe_in(tx, settings, where, f"{dead.key}:lost", presentation_body(text))
    return True


async def _show(tx: Transaction, settings: Settings, spawn: Spawn, where: ConversationId) -> None:
    for number, text in enumerate(pieces(spawn.answer or "", "", MESSAGE_LIMIT), 1):
        await deliveries.owe(
            tx,
            Owed(
                account=settings.account,
                conversation=where,
                key=f"spawn:{spawn.id}{_HELD}{number}:v1",
                kind=DeliveryKind.CREATE,
                purpose=Purpose.NOTICE,
                body=answer_body(text),
                seq=await conversations.take_seq(tx, where),
            ),
        )


async def ended_otherwise(
    tx: Transaction, settings: Settings, turn: Turn, outcome: Outcome, trouble: str = ""
) -> None:
    """The same for a task that ended without an answer of its own: it never ran, or could not be stored."""
    completion = await completion_of(tx, settings, turn)
    await conclude(tx, settings, turn, completion, outcome, "", trouble)


async def _inform_parent(
    tx: Transaction,
    settings: Settings,
    spawn: Spawn,
    turn: Turn,
    where: Conversation,
    text: str,
) -> None:
    """One marked message to the session that gave the task, as a turn of its own."""
    parent = await sessions.get(tx, spawn.parent_session) if spawn.parent_session else None
    if parent is None or where.is_closed:
        tx.after_commit(lambda: log.info("completion_told_nobody", turn_id=turn.id, spawn=spawn.id))
        return
    child = await conversations.get(tx, turn.conversation)
    trigger = MessageRef(child.ref.conversation_id, turn.trigger.message_id)
    newest = max(
        (where.last_message_id or "0", child.last_message_id or "0", trigger.message_id),
        key=snowflake,
    )
    told = InboundMessage(
        conversation=where.ref,
        place=where.place,
        message_id=trigger.message_id,
        author=_agent(settings, spawn),
        text=text,
        sent_at=await tx.now(),
    )
    seq = await conversations.take_part(tx, where.id)
    informing = await turns.enqueue(
        tx,
        NewTurn(
            account=settings.account,
            conversation=where.id,
            session_key=parent.key,
            seq=seq,
            order_key=snowflake(newest),
            idempotency_key=completion_key(turn.id),
            arrival=Arrival(sender_record(told), text, ()),
            requester_id=spawn.requester_id,
            requester_name=spawn.requester_name,
            requester_is_bot=spawn.requester_is_bot,
            trigger=trigger,
            source=TurnSource.COMPLETION,
        ),
    )
    await streams.ensure(tx, informing, settings.account, "queued")
    tx.after_commit(lambda: _told(informing, turn.id, spawn))


def _told(informing: TurnId, turn: TurnId, spawn: Spawn) -> None:
    log.info("completion_told", turn_id=informing, of=turn, spawn=spawn.id)


def _agent(settings: Settings, spawn: Spawn) -> Author:
    return Author(
        id=PlatformId(settings.account),
        name=spawn.agent,
        display_name=spawn.agent,
        kind=AuthorKind.BOT,
    )
