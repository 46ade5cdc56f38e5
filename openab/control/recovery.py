"""Gives each running turn that nobody runs its verdict: it goes on, people are asked, or it ends."""

from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from openab.control.answers import with_tables
from openab.control.completions import hold_places
from openab.control.cuts import Cut
from openab.control.left_behind import LeftBehind, left_behind, written_calls
from openab.control.outcome import Run, finish, prepared
from openab.control.retire import (
    continue_key,
    owe_delete,
    owe_notice,
    placeholders_of,
    questions_of,
)
from openab.control.services import Services
from openab.domain.agent_events import AgentFailure, EndKind, FailureKind, Position, PromptEnded
from openab.domain.errors import Rejected
from openab.domain.ids import TurnId
from openab.domain.recovery import Decision, LostTurn, Question, Reason, Verdict, decide
from openab.domain.turn import AgentLost, TurnState
from openab.ports.agent import AgentSession
from openab.ports.feed import Shown
from openab.storage import conversations, sessions, streams, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.engine import Transaction
from openab.storage.turns import Turn
from openab.text import notices
from openab.text.buttons import continue_button, stop_button
from openab.text.continuation import over_attempts
from openab.text.output import Intent, body_of, intent_of

log = structlog.get_logger()
#: The log's word for the end of a turn, where that is no interruption.
_ENDED = {
    Reason.CANCELLED: "turn_cancelled",
    Reason.REQUEST_DONE: "turn_completed",
    Reason.ATTEMPTS_USED_UP: "turn_failed",
}


@dataclass(frozen=True, slots=True)
class _Lost:
    """A turn as it was found, with what is known outside of the transaction that decides."""

    turn: Turn
    left: LeftBehind
    #: What all attempts said, as it is delivered if the turn ends here.
    told: str
    is_unwritten: bool
    #: What its output asks for, if that is complete.
    intent: Intent
    #: Its final's text cut into messages, where it ends by all that is known now.
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a look for lost turns came to."""

    #: The turn that is to be run again.
    again: TurnId | None = None
    #: Whether any turn got its verdict.
    has_decided: bool = False


def is_lost(turn: Turn, now: datetime) -> bool:
    """Whether a running turn that nobody runs needs a verdict now; not while people are asked."""
    is_answered = turn.continued_by is not None or turn.cancel_requested_at is not None
    if turn.asked_at is None or is_answered:
        return True
    return turn.not_before is None or turn.not_before <= now


class Recovery:
    """Decides for one conversation's present owner; the caller makes sure that nobody runs its turns.

    Nothing is read from the rows that a former owner could still change: its epoch is over.
    """

    def __init__(self, services: Services, ownership: Ownership) -> None:
        self._services = services
        self._ownership = ownership

    async def recover(self) -> Recovered:
        """Give each lost turn here its verdict."""
        async with self._services.database.read() as tx:
            now = await tx.now()
            running = [turn for turn in await self._running(tx) if is_lost(turn, now)]
            found = [(turn, await left_behind(tx, turn)) for turn in running]
        if not found:
            return Recovered()
        lost = [await self._seen(turn, left) for turn, left in found]
        return await self._decide_all(lost)

    async def _running(self, tx: Transaction) -> list[Turn]:
        waiting = await turns.open_of(tx, self._ownership.conversation)
        return [turn for turn in waiting if turn.state is TurnState.RUNNING]

    async def _seen(self, turn: Turn, left: LeftBehind) -> _Lost:
        is_unwritten = await self._fence(turn)
        # Whether anybody watched is not known any more, so nothing that was said is left out.
        outputs = left.parts(turn.attempt)
        told = over_attempts([body_of(output) for output in outputs])
        told = await with_tables(told, self._services.settings.replies())
        return await self._cut(_Lost(turn, left, told, is_unwritten, intent_of(outputs)))

    async def _cut(self, lost: _Lost) -> _Lost:
        """A long text is not cut in the transaction that decides, which is going to decide the same."""
        async with self._services.database.read() as tx:
            decision = decide(self._known(lost.turn, lost, await tx.now()))
        if decision.verdict is not Verdict.END:
            return lost
        run = self._run(lost.turn, lost, decision)
        return replace(lost, cut=(await prepared(self._services.settings, lost.turn, run)).cut)

    async def _fence(self, turn: Turn) -> bool:
        """Whether its prompt was certainly never written.

        In this very life of the host a former run of it may still command the agent: that ends first.
        """
        agents = self._services.agents
        if turn.incarnation != agents.incarnation:
            return False
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            session = await sessions.take(tx, turn.session_key, agents.incarnation)
        name = AgentSession(
            self._services.database.id, session.key, session.generation, session.epoch
        )
        try:
            await agents.close(name)
        except Rejected as error:
            log.info("lost_agent_not_closed", turn_id=turn.id, told=str(error))
            return False
        await agents.ack(turn.id, Position(agents.incarnation, 0), outcome=True)
        return agents.unwritten(name, turn.id, turn.attempt, turn.step, agents.incarnation)

    async def _decide_all(self, lost: list[_Lost]) -> Recovered:
        again: TurnId | None = None
        decided: list[tuple[Turn, Decision]] = []
        async with self._services.database.transaction() as tx:
            # A conversation runs one turn at a time, so there is one pair to lock at the most.
            for one in lost:
                await hold_places(tx, one.turn)
            where = await conversations.lock(tx, self._ownership)
            for one in lost:
                turn = await turns.locked(tx, one.turn.id)
                if turn is None or not _is_same(turn, one.turn):
                    continue
                decision = decide(self._known(turn, one, await tx.now()))
                decided.append((turn, decision))
                if await self._follow(tx, where, turn, one, decision):
                    again = turn.id
        for turn, decision in decided:
            self._tell(turn, decision)
        return Recovered(again, bool(decided))

    def _known(self, turn: Turn, lost: _Lost, now: datetime) -> LostTurn:
        settings = self._services.settings.recovery
        return LostTurn(
            policy=settings.policy,
            attempts=turn.counted_attempts,
            max_attempts=settings.max_attempts,
            calls=lost.left.seen_calls,
            is_cancelled=turn.cancel_requested_at is not None,
            is_request_done=turn.step > 1,
            is_unwritten=lost.is_unwritten,
            question=_question(turn, now),
        )

    async def _follow(
        self, tx: Transaction, where: Conversation, turn: Turn, lost: _Lost, decision: Decision
    ) -> bool:
        """Write what the verdict means; whether the turn is to be run again."""
        if decision.verdict is Verdict.END:
            await turns.log(tx, turn.id, "turn_recovered", self._detail(turn, decision))
            await finish(tx, self._services.settings, where, turn, self._run(turn, lost, decision))
        elif decision.verdict is Verdict.ASK:
            await self._ask(tx, turn, lost, decision)
        else:
            await self._go_on(tx, turn, lost, decision)
        return decision.verdict in {Verdict.CONTINUE, Verdict.UNCHANGED}

    async def _go_on(self, tx: Transaction, turn: Turn, lost: _Lost, decision: Decision) -> None:
        """Another attempt is committed before anybody prompts; an unwritten one is begun once more."""
        is_another = decision.verdict is Verdict.CONTINUE
        await turns.record(
            tx,
            turn,
            AgentLost(),
            detail=self._detail(turn, decision),
            attempt=turn.attempt + is_another,
            step=1,
            incarnation=self._services.agents.incarnation,
            asked_at=None,
            continued_by=None,
            not_before=None,
        )
        await streams.begin_attempt(tx, turn.id, written_calls(lost.left.cut_off().tools))
        for question in await questions_of(tx, turn):
            await owe_delete(tx, turn, question)

    async def _ask(self, tx: Transaction, turn: Turn, lost: _Lost, decision: Decision) -> None:
        """A durable question; its answer is a change of the turn's row, whoever owns the turn then."""
        if turn.asked_at is not None:
            return
        until = await tx.now() + self._services.settings.recovery.patience
        await turns.ask(tx, turn.id, until)
        await turns.log(tx, turn.id, "turn_recovered", self._detail(turn, decision))
        await streams.note_phase(tx, turn.id, "waiting_for_people")
        for row in (*await placeholders_of(tx, turn), *await questions_of(tx, turn)):
            await owe_delete(tx, turn, row)
        unfinished = [call.label for call in lost.left.tools if not call.is_finished]
        text = notices.asked_whether_to_go_on(unfinished)
        buttons = (continue_button(turn.id, turn.attempt), stop_button(turn.id))
        await owe_notice(tx, turn, continue_key(turn), text, buttons=buttons)

    def _run(self, turn: Turn, lost: _Lost, decision: Decision) -> Run:
        """How the turn ends here, with what was committed of it."""
        end, told, is_done = None, notices.interrupted_by_restart(), False
        if decision.reason is Reason.CANCELLED:
            # Whoever asked for its end has got it; only the agent's word for it is missing.
            end = PromptEnded(EndKind.CANCELLED)
        elif decision.reason is Reason.REQUEST_DONE:
            # Only a shorter hand-off is missing; that there is none is told.
            end, is_done = PromptEnded(EndKind.COMPLETED), True
        elif decision.reason is Reason.ATTEMPTS_USED_UP:
            said = notices.given_up(turn.counted_attempts)
            end = PromptEnded(EndKind.FAILED, failure=AgentFailure(FailureKind.LOST, said))
        elif decision.reason is Reason.NOBODY_ANSWERED:
            patience = self._services.settings.recovery.patience
            told = notices.nobody_said_to_go_on(round(patience.total_seconds() / 3600))
        return Run(
            raw=lost.left.raw,
            answer=lost.told if is_done else "",
            tools=lost.left.cut_off().tools,
            end=end,
            shown=Shown(edit_unknown=True),
            earlier="" if is_done else lost.told,
            interruption=told,
            intent=lost.intent,
            cut=lost.cut,
        )

    def _detail(self, turn: Turn, decision: Decision) -> dict[str, object]:
        return {
            "attempt": turn.attempt,
            "policy": self._services.settings.recovery.policy.value,
            "verdict": decision.verdict.value,
            "reason": decision.reason.value,
        }

    def _tell(self, turn: Turn, decision: Decision) -> None:
        log.warning("turn_recovered", turn_id=turn.id, **self._detail(turn, decision))
        if decision.verdict is Verdict.END:
            log.warning(_ENDED.get(decision.reason, "turn_interrupted"), turn_id=turn.id)
        self._services.counters.recovery(decision.verdict.value, decision.reason.value)
        self._services.signals.tell("turn_recovered")


def _is_same(fresh: Turn, seen: Turn) -> bool:
    return fresh.state is TurnState.RUNNING and fresh.attempt == seen.attempt


def _question(turn: Turn, now: datetime) -> Question | None:
    if turn.asked_at is None:
        return None
    if turn.continued_by is not None:
        return Question.CONTINUE
    is_over = turn.not_before is None or turn.not_before <= now
    return Question.EXPIRED if is_over else Question.OPEN
