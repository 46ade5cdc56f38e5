"""What to do about a turn, a delivery or a spawn that is not as it should be, in one sentence each (pure)."""

from collections.abc import Iterator

from openab.domain.agent_events import FailureKind
from openab.domain.delivery import DeadReason, DeliveryState
from openab.domain.recovery import Verdict
from openab.domain.spawn import SpawnRefusal, SpawnState
from openab.domain.turn import TurnState
from openab.storage.inspection import DeliveryLine, TurnStory
from openab.storage.spawn_stories import SpawnStory

FAILURES: dict[FailureKind, str] = {
    FailureKind.NOT_FOUND: "install the agent, or correct [agent].command; then: openab doctor",
    FailureKind.NOT_CONFIGURED: "write [agents.NAME] for it again, or type /unfocus in the thread",
    FailureKind.NOT_ACP: "[agent].command and args must start an agent that speaks ACP on stdio",
    FailureKind.SETUP_TIMEOUT: "start the agent by hand and see what it waits for",
    FailureKind.AUTH_REQUIRED: "log in to the agent once as the user that runs openab",
    FailureKind.ERROR: "the agent says why; ask again once that is mended",
    FailureKind.EXITED: "see what the agent wrote last, mend that, and ask again",
    FailureKind.TRANSPORT: "ask again; the agent is started anew",
    FailureKind.HARD_TIMEOUT: "ask for less at once, or raise [pool].prompt_hard_timeout_secs",
    FailureKind.WORKSPACE: "correct [workspace] or the folder, or ask for another one; then ask again",
    FailureKind.LOST: "ask again; it was tried as often as [recovery].max_attempts allows",
    FailureKind.OUTPUT_TOO_LARGE: "ask for less output, for instance a file instead of an answer",
}
DEAD: dict[DeadReason, str] = {
    DeadReason.REFUSED: "Discord refused it; the detail says why",
    DeadReason.FORBIDDEN: "give the bot the permission that openab doctor names",
    DeadReason.CONVERSATION_GONE: "the channel or thread was deleted; nothing can be sent there",
    DeadReason.MESSAGE_GONE: "the message was deleted; nothing is left to change",
    DeadReason.LOCKED: "unlock the thread, or ask in another one",
    DeadReason.UNCLEAR: "look whether it is there; if not: openab deliveries resend ID",
    DeadReason.NOT_SENT: "the detail says why; docs/handoff.md explains each word",
    DeadReason.SUPERSEDED: "nothing: what it was for has ended otherwise",
}
SPAWNS: dict[SpawnRefusal, str] = {
    SpawnRefusal.SWITCHED_OFF: "set spawn_subagent_sessions = true in [discord.thread_bindings]",
    SpawnRefusal.UNKNOWN_AGENT: "write [agents.NAME] for this agent, and ask again",
    SpawnRefusal.NO_TASK: "ask again with a task",
    SpawnRefusal.NO_THREADS_HERE: "ask in an allowed channel of a server where the bot may open threads",
    SpawnRefusal.TOO_DEEP: "ask in the thread that started it, or raise max_subagent_depth",
    SpawnRefusal.TOO_MANY: "wait until one has finished, or raise max_subagents",
    SpawnRefusal.TOO_MANY_IN_A_ROW: "write a message there, and ask again",
    SpawnRefusal.NO_STARTER: "see that the bot may write in the channel, and ask again",
}
_NO_BROKER = "no living broker serves this conversation: start it with openab run"


def turn_remedies(story: TurnStory) -> tuple[str, ...]:
    """What a person can do, the most important first; empty when all is well."""
    found = dict.fromkeys([*_of_turn(story), *_of_deliveries(story.deliveries)])
    return tuple(found)


def delivery_remedy(delivery: DeliveryLine) -> str | None:
    """What to do about one delivery; None: nothing is wrong with it."""
    if delivery.state == DeliveryState.DEAD and delivery.dead_reason:
        if delivery.dead_reason == DeadReason.SUPERSEDED:
            return None
        return DEAD[DeadReason(delivery.dead_reason)]
    return None


def spawn_remedies(spawn: SpawnStory) -> tuple[str, ...]:
    """What a person can do about a spawn; empty when all is well."""
    return tuple(_of_spawn(spawn))


def _of_spawn(spawn: SpawnStory) -> Iterator[str]:
    if spawn.state == SpawnState.OWED:
        yield f"wait until its first message is posted; if nothing happens, {_NO_BROKER}"
    elif spawn.state == SpawnState.OPENED:
        yield f"wait, or type !cancel in its thread; openab turns shows its turn {spawn.turn_id}"
    elif spawn.state == SpawnState.HELD:
        yield (
            "let exactly one conversation be bound to its session, or the one that asked: "
            "/unfocus in the others, or /focus there"
        )
    elif spawn.state == SpawnState.REFUSED and spawn.reason:
        yield SPAWNS[SpawnRefusal(spawn.reason)]
    elif not spawn.answered_in:
        yield f"its answer is shown nowhere: turns.raw of {spawn.turn_id} in the database has it"


def _of_turn(story: TurnStory) -> Iterator[str]:
    turn = story.turn
    if turn.state == TurnState.QUEUED:
        yield from _of_waiting(story)
    elif turn.state == TurnState.RUNNING and not story.is_owned:
        yield f"{_NO_BROKER}; it goes on with the turn, or asks there whether to"
    elif turn.state == TurnState.RUNNING and _is_in_question(story):
        yield "answer the question in the thread: Continue or Stop (!continue or !cancel)"
    elif turn.state == TurnState.RUNNING:
        yield "wait, or type !cancel in the thread"
    elif turn.state == TurnState.ANSWERED and not story.is_owned and _owes(story):
        yield f"the answer is stored, but not all of it is delivered and {_NO_BROKER}"
    elif turn.state == TurnState.INTERRUPTED:
        yield "ask again: openab was stopped in the middle of it"
    if kind := (turn.error or {}).get("kind"):
        yield _of_failure(str(kind))


def _is_in_question(story: TurnStory) -> bool:
    verdicts = [line.detail.get("verdict") for line in story.log if line.event == "turn_recovered"]
    return verdicts[-1:] == [Verdict.ASK]


def _of_waiting(story: TurnStory) -> Iterator[str]:
    if story.turns_before:
        count = story.turns_before
        yield f"wait: {count} earlier {'turn is' if count == 1 else 'turns are'} not over"
        if not story.is_owned:
            yield _NO_BROKER
    elif story.turn.not_before:
        yield "wait: Discord's rate limit holds its thread back"
    else:
        yield f"wait for a free agent ([pool].max_sessions); if nothing happens, {_NO_BROKER}"


def _of_failure(kind: str) -> str:
    try:
        return FAILURES[FailureKind(kind)]
    except ValueError:
        # Written by another release.
        return f"the failure {kind!r} is unknown to this openab"


def _of_deliveries(deliveries: tuple[DeliveryLine, ...]) -> Iterator[str]:
    for each in deliveries:
        if remedy := delivery_remedy(each):
            yield remedy


def _owes(story: TurnStory) -> bool:
    settled = (DeliveryState.SENT, DeliveryState.DEAD)
    return any(each.state not in settled for each in story.deliveries)
