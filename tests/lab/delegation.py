"""What must hold of work that is given on, to sub-agents and to other bots: pure, over an observation."""

from collections import Counter
from collections.abc import Iterator

from tests.lab.observation import WORD, MessageSeen, Observation

_STARTER, _FAREWELL, _REFUSED = "-# 🧵", "-# 👋", "-# ⚠️ No sub-agent"
_SPAWN, _HANDOFF = "[[spawn:", "[[handoff:"
_TAKEN, _REFUSED_MARK, _NOT_TAKEN = "📥", "⛔", "-# ⛔"


def each_task_is_given_once(seen: Observation) -> Iterator[str]:
    """A complete output that asks for a sub-agent has one spawn, no other has any, and none stays open."""
    asked = [turn.id for turn in seen.turns if _asks(turn.raw, turn.outcome, _SPAWN)]
    given = Counter(spawn.parent_turn for spawn in seen.spawns)
    for turn in asked:
        if given[turn] != 1:
            yield f"turn {turn} asks for a sub-agent and has {given[turn]} spawns"
    yield from (f"turn {turn} asks for no sub-agent" for turn in given.keys() - {*asked})
    for spawn in seen.spawns:
        told = [one for one in seen.messages if _is(one, spawn.parent, _REFUSED)]
        if spawn.state != "finished" and not (spawn.state == "refused" and len(told) == 1):
            yield f"spawn {spawn.id} stays {spawn.state}, told {len(told)} times"


def each_sub_agent_is_started_once(seen: Observation) -> Iterator[str]:
    """One starter, one thread, one session, one turn, and the task is shown once at most."""
    marked = [one for one in seen.messages if _is(one, "", _STARTER)]
    # What begins so in a thread tells of a sub-agent to those who asked for it there.
    starters = {one.message_id for one in marked if one.conversation not in seen.threads}
    opened = {spawn.starter: spawn for spawn in seen.spawns if spawn.turn}
    for stray in starters - {spawn.starter for spawn in seen.spawns}:
        yield f"the starter {stray} is nobody's"
    for stray in _children(seen) - opened.keys():
        yield f"the thread {stray} is nobody's"
    for child, spawn in opened.items():
        counted = {
            "starters": len({child} & starters),
            "threads": len({child} & seen.threads.keys()),
            "sessions": sum(f":{child}:" in key for key in seen.sessions),
            "turns": sum(turn.source == "spawn" for turn in seen.turns_in(child)),
        }
        yield from (f"spawn {spawn.id} has {n} {what}" for what, n in counted.items() if n != 1)
        shown = [
            one for one in seen.messages if one.conversation == child and "tag=" in one.content
        ]
        if len(shown) > 1:
            yield f"the task of spawn {spawn.id} is shown {len(shown)} times"


def each_result_is_in_one_place(seen: Observation) -> Iterator[str]:
    """What a sub-agent says is in its thread alone, or where it was asked for once that is given up."""
    for turn in seen.turns:
        if turn.source != "spawn":
            continue
        mine = [one for one in seen.messages if _is_said(one, turn.tags)]
        places, home = {one.conversation for one in mine}, seen.home_of(turn)
        if places - {home} or (WORD.search(turn.raw) and not places):
            yield f"the result of {turn.tags} stands in {sorted(places)} instead of {home}"


def each_parent_is_told_once(seen: Observation) -> Iterator[str]:
    """A finished task is told to the session that gave it, by one turn."""
    told = Counter(turn.key for turn in seen.turns if turn.source == "completion")
    owed = {f"completion:{spawn.turn}" for spawn in seen.spawns if spawn.turn}
    for key in sorted(owed | told.keys()):
        if told[key] != (key in owed):
            yield f"{key} was told {told[key]} times"


def each_binding_comes_to_its_end(seen: Observation) -> Iterator[str]:
    """None stays half ended, and each that is given up says farewell once."""
    for place in {binding.place for binding in seen.bindings}:
        here = [binding.state for binding in seen.bindings if binding.place == place]
        farewells = sum(_is(one, place, _FAREWELL) for one in seen.messages)
        if "ending" in here:
            yield f"a binding in {place} stays ending"
        if farewells != here.count("ended"):
            yield f"{place}: {farewells} farewells for bindings that are {here}"


def each_handoff_is_sent_once(seen: Observation) -> Iterator[str]:
    """An output that hands work on has one row, settled, and what is sent is one message of one event."""
    asked = [turn.id for turn in seen.turns if _asks(turn.raw, turn.outcome, _HANDOFF)]
    sent = Counter(one.event_id for one in seen.envelopes if one.is_ours)
    out = [one for one in seen.handoffs if one.direction == "out"]
    for turn in asked:
        if (count := sum(one.turn == turn for one in out)) != 1:
            yield f"turn {turn} hands work on and has {count} hand-offs"
    for one in out:
        if one.turn not in asked or one.state != "sent":
            yield f"hand-off {one.event_id} of turn {one.turn} is {one.state}"
        if sent[one.event_id] != 1:
            yield f"hand-off {one.event_id} is on the wire {sent[one.event_id]} times"
    for stray in sent.keys() - {one.event_id for one in out}:
        yield f"{stray} is on the wire and in no row"


def each_handoff_is_taken_once(seen: Observation) -> Iterator[str]:
    """Of each event one message is accepted and becomes one turn; each other one is told to be refused."""
    theirs = [one for one in seen.envelopes if not one.is_ours]
    for event in {one.event_id for one in theirs}:
        messages = {one.message_id for one in theirs if one.event_id == event}
        turns = sum(bool(messages & {*turn.messages}) for turn in seen.turns)
        accepted = sum(_TAKEN in one.marks for one in theirs if one.event_id == event)
        if (turns, accepted) != (1, 1):
            yield f"event {event}: {turns} turns, {accepted} accepted"
    for one in theirs:
        shown = {_TAKEN, _REFUSED_MARK} & {*one.marks}
        # The mark of a refusal is a kindness that a death may take with it; the line is owed.
        is_told = any(_is(line, one.conversation, _NOT_TAKEN) for line in seen.messages)
        if len(shown) == 2 or not (shown or is_told):
            yield f"the envelope {one.message_id} shows {[*one.marks]}"


def _asks(raw: str, outcome: str | None, directive: str) -> bool:
    return outcome == "completed" and raw.startswith(directive)


def _is(message: MessageSeen, place: str, beginning: str) -> bool:
    return message.content.startswith(beginning) and place in {"", message.conversation}


def _is_said(message: MessageSeen, tags: tuple[str, ...]) -> bool:
    is_answer = not message.is_presentation
    return is_answer and any(found[1] in tags for found in WORD.finditer(message.content))


def _children(seen: Observation) -> set[str]:
    """The threads that no request of a person or another bot has opened."""
    return seen.threads.keys() - {said.conversation for said in seen.said}
