"""Ends a run: outcome, raw text and every owed row in one transaction."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from openab.control.completions import Completion, completion_of, conclude, ended_otherwise
from openab.control.cuts import Cut, cut, is_blank
from openab.control.finals import Ending, plan, rooms
from openab.control.handoff_owing import owe_intent
from openab.control.retire import owe_delete, placeholders_of, questions_of
from openab.control.settings import Settings
from openab.control.settling import settle_turn
from openab.control.spawning import without_task
from openab.domain.agent_events import AgentFailure, EndKind, FailureKind, PromptEnded
from openab.domain.delivery import DeliveryKind, DeliveryState, Purpose
from openab.domain.ids import PlatformId, snowflake
from openab.domain.outbound import MessageBody
from openab.domain.turn import Ended, Outcome, TurnState
from openab.ports.feed import Shown
from openab.storage import conversations, deliveries, streams, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Delivery, Owed
from openab.storage.engine import Transaction
from openab.storage.turns import Turn
from openab.text import notices, spawn_words
from openab.text.output import Intent
from openab.text.tools import ToolCall, final_text

#: Cutting a longer text takes longer than the loop may stand still.
_SHORT = 4000
_OUTCOMES = {
    EndKind.COMPLETED: Outcome.COMPLETED,
    EndKind.CANCELLED: Outcome.CANCELLED,
    EndKind.FAILED: Outcome.FAILED,
}


@dataclass(frozen=True, slots=True)
class Run:
    """What a run left: the raw text, the answer as it is delivered, its tool calls, its end."""

    raw: str
    answer: str
    tools: tuple[ToolCall, ...]
    end: PromptEnded | None
    shown: Shown = field(default_factory=Shown)
    #: Told in front of the answer, for instance that the context was lost.
    preface: str = ""
    #: What earlier attempts said, and that they were cut off; stands before the answer.
    earlier: str = ""
    #: What is told of a run that was cut off.
    interruption: str = field(default_factory=notices.interrupted_by_restart)
    #: Its final's text cut into messages beforehand; see `prepared`.
    cut: Cut | None = None
    #: What the complete output asks for; counts only for a run that was completed.
    intent: Intent = field(default_factory=Intent)


def redacted(end: PromptEnded, redact: Callable[[str], str]) -> PromptEnded:
    """The same end; what the agent said of its failure may have held a secret of its environment."""
    failure = end.failure
    if failure is None:
        return end
    told = replace(
        failure, message=redact(failure.message), stderr_tail=redact(failure.stderr_tail)
    )
    return replace(end, failure=told)


def outcome_of(run: Run) -> Outcome:
    """No end event means that the run was cut off."""
    return _OUTCOMES[run.end.kind] if run.end else Outcome.INTERRUPTED


async def prepared(settings: Settings, turn: Turn, run: Run) -> Run:
    """The run with its final's text cut into messages: outside of any transaction, a long one in a thread.

    It serves if the run ends as this one says; otherwise `finish` cuts once more.
    """
    step = partial(_cut, settings, turn, run)
    is_short = len(run.answer) + len(run.earlier) <= _SHORT
    return replace(run, cut=step() if is_short else await asyncio.to_thread(step))


def _cut(settings: Settings, turn: Turn, run: Run) -> Cut:
    text, after = _told(turn, run, settings)
    # The room is less where the trigger stands elsewhere; there is no harm in having both.
    ending = _without_placeholder(turn, text, trigger_in_place=False)
    return cut(text, after, rooms(ending, settings.replies()))


def _without_placeholder(turn: Turn, text: str, *, trigger_in_place: bool) -> Ending:
    return Ending(
        text=text,
        human=_human(turn),
        trigger_in_place=trigger_in_place,
        trigger_message_id=turn.trigger.message_id,
        took=timedelta(0),
        has_other_bot=True,
        has_placeholder=False,
        placeholder_is_newest=False,
    )


async def finish(
    tx: Transaction, settings: Settings, where: Conversation, turn: Turn, run: Run
) -> None:
    """Record the end of a running turn, with everything that is owed for it.

    The caller has locked the conversation. `where` and `turn` must have been read in `tx`.
    """
    outcome = outcome_of(run)
    completion = await completion_of(tx, settings, turn)
    shown_in = await _shown_in(tx, where, completion)
    if completion and completion.fallback:
        told = spawn_words.reported(completion.spawn.agent, outcome)
        run = replace(run, preface="\n\n".join(filter(None, (told, run.preface))))
    parts = await _owe_final(tx, settings, shown_in, where, turn, run)
    await _log_troubles(tx, turn, run)
    now = await tx.now()
    await turns.record(
        tx,
        turn,
        Ended(outcome),
        outcome=outcome.value,
        raw=run.raw,
        stop_reason=run.end.stop_reason if run.end else None,
        error=_error(run.end.failure if run.end else None),
        answered_at=now,
    )
    await turns.log(tx, turn.id, "answer_owed", {"parts": parts})
    trouble_told = _failure_notice(run.end) if outcome is Outcome.FAILED else ""
    await conclude(tx, settings, turn, completion, outcome, _said(run), trouble_told)
    if outcome is Outcome.COMPLETED:
        # Behind the answer's own messages.
        await owe_intent(tx, settings, where, turn, run.intent)
    await streams.forget_text(tx, turn.id)
    if not parts:
        # Whatever is settled last settles the turn; where nothing is owed, nothing ever would.
        await settle_turn(tx, settings, turn.id)


def trouble(failure: AgentFailure) -> str:
    """The log's word for what went wrong with the agent."""
    is_late = failure.kind is FailureKind.HARD_TIMEOUT
    return "turn_timed_out" if is_late else "agent_failed"


async def _log_troubles(tx: Transaction, turn: Turn, run: Run) -> None:
    if run.shown.placeholder_lost:
        await turns.log(tx, turn.id, "presentation_failed")
    failure = run.end.failure if run.end else None
    if failure:
        await turns.log(tx, turn.id, trouble(failure), {"kind": failure.kind.value})


async def _shown_in(
    tx: Transaction, where: Conversation, completion: Completion | None
) -> Conversation | None:
    """Where the answer is shown: here, unless it is a task's completion that was routed elsewhere."""
    if completion is None or completion.shown_in == where.id:
        return where
    return await conversations.get(tx, completion.shown_in) if completion.shown_in else None


async def _owe_final(
    tx: Transaction,
    settings: Settings,
    shown_in: Conversation | None,
    where: Conversation,
    turn: Turn,
    run: Run,
) -> int:
    """The answer's messages, and that nothing else of the turn is left here; how many there are."""
    placeholders = await placeholders_of(tx, turn)
    last = placeholders[-1] if placeholders and shown_in is where else None
    parts: tuple[MessageBody, ...] = ()
    kept = None
    if shown_in is not None:
        ending = await _ending(tx, settings, shown_in, turn, run, last)
        final = plan(ending, settings.replies(), run.cut)
        parts, kept = final.parts, last if final.edits_placeholder else None
        await _owe_parts(tx, turn, shown_in, parts, kept)
    for placeholder in placeholders:
        if placeholder is not kept:
            await owe_delete(tx, turn, placeholder)
    for question in await questions_of(tx, turn):
        await owe_delete(tx, turn, question)
    return len(parts)


async def _owe_parts(
    tx: Transaction,
    turn: Turn,
    shown_in: Conversation,
    parts: Sequence[MessageBody],
    edited: Delivery | None,
) -> None:
    """`edited`: the placeholder that becomes the first part."""
    for number, body in enumerate(parts, 1):
        target = edited if number == 1 else None
        await deliveries.owe(
            tx,
            Owed(
                account=turn.account,
                conversation=shown_in.id,
                key=f"turn:{turn.id}:final:{number}:v1",
                kind=DeliveryKind.EDIT if target else DeliveryKind.CREATE,
                purpose=Purpose.FINAL,
                body=body,
                seq=await conversations.take_seq(tx, shown_in.id),
                turn=turn.id,
                part=number,
                target_delivery=target.id if target else None,
            ),
        )


async def _ending(
    tx: Transaction,
    settings: Settings,
    where: Conversation,
    turn: Turn,
    run: Run,
    placeholder: Delivery | None,
) -> Ending:
    now = await tx.now()
    shown = placeholder.platform_id if placeholder and _is_sent(placeholder) else None
    newest = where.last_message_id
    text, after = _told(turn, run, settings)
    return Ending(
        text=text,
        after=after,
        human=_human(turn),
        trigger_in_place=turn.trigger.conversation_id == where.ref.conversation_id,
        trigger_message_id=turn.trigger.message_id,
        took=now - (turn.started_at or now),
        has_other_bot=where.has_other_bot,
        has_placeholder=shown is not None,
        placeholder_is_newest=shown is not None
        and (newest is None or snowflake(newest) <= snowflake(shown))
        and not await _is_more_owed(tx, turn),
        is_doubtful=run.end is None or run.shown.edit_unknown or run.shown.placeholder_lost,
        reply_to=run.intent.reply_to if outcome_of(run) is Outcome.COMPLETED else None,
    )


async def _is_more_owed(tx: Transaction, turn: Turn) -> bool:
    """Whether messages of earlier turns are on their way: they will stand below the placeholder."""
    return any(
        row.kind is DeliveryKind.CREATE and row.turn != turn.id
        for row in await deliveries.open_of(tx, turn.conversation)
    )


def _is_sent(placeholder: Delivery) -> bool:
    return placeholder.state is DeliveryState.SENT and not placeholder.is_gone


def _human(turn: Turn) -> PlatformId | None:
    return None if turn.requester_is_bot else turn.requester_id


def _told(turn: Turn, run: Run, settings: Settings) -> tuple[str, str]:
    """The final: a notice where there is something to tell with what the agent said, and its last word."""
    answer = final_text(_said(run), run.tools, settings.replies().tool_display)
    outcome = outcome_of(run)
    before, after = run.preface, ""
    if outcome is Outcome.FAILED:
        before = "\n\n".join(filter(None, (before, _failure_notice(run.end))))
    elif outcome is Outcome.INTERRUPTED:
        before = "\n\n".join(filter(None, (before, run.interruption)))
    elif outcome is Outcome.CANCELLED:
        after = notices.cancelled_by(turn.cancelled_by or "")
    elif is_blank(run.answer):
        after = _nothing_said(run, settings)
    return "\n\n".join(text for text in (before, answer) if text), after


def _nothing_said(run: Run, settings: Settings) -> str:
    agent = run.intent.sub_agent
    if agent and not run.intent.task.strip():
        return spawn_words.refused(agent, without_task(settings, agent))
    return notices.empty_answer(run.end)


def _said(run: Run) -> str:
    return "\n\n".join(text for text in (run.earlier, run.answer) if text.strip())


def _failure_notice(end: PromptEnded | None) -> str:
    failure = end.failure if end and end.failure else AgentFailure(FailureKind.ERROR, "")
    return notices.agent_failed(failure)


def _error(failure: AgentFailure | None) -> dict[str, object] | None:
    if failure is None:
        return None
    return {
        "kind": failure.kind.value,
        "message": failure.message,
        "code": failure.code,
        "exit_code": failure.exit_code,
        "stderr_tail": failure.stderr_tail,
    }


async def end_unprompted(
    tx: Transaction, settings: Settings, turn: Turn, text: str, told_in: Conversation
) -> None:
    """End a turn that never reached its agent; `text` is told in another conversation."""
    assert turn.state is TurnState.RUNNING
    for placeholder in await placeholders_of(tx, turn):
        await owe_delete(tx, turn, placeholder)
    ending = _without_placeholder(turn, text, trigger_in_place=True)
    await _owe_parts(tx, turn, told_in, plan(ending, settings.replies()).parts[:1], None)
    now = await tx.now()
    await turns.record(
        tx, turn, Ended(Outcome.FAILED), outcome=Outcome.FAILED.value, raw="", answered_at=now
    )
    await ended_otherwise(tx, settings, turn, Outcome.FAILED, text)
