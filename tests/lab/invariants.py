"""What must hold of every run, whatever was killed, stopped or cut off: pure, over an observation.

Each function yields a sentence for each violation. Nothing here knows how openab works inside; what it
promises is written in docs/operations.md.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from openab.text.neutralize import neutralize
from tests.lab import delegation
from tests.lab.observation import WORD, MessageSeen, Observation, TurnSeen

#: How each end shows on the message that asked.
_FACES = {"done": "🆗", "failed": "😱", "interrupted": "😱", "cancelled": "🛑"}
#: A presentation message that begins so shows a turn that goes on.
_LIVE = re.compile(r"-# (?:⏳|📥|🔄|🔐|📡)")
_FENCE = re.compile(r"^ {0,3}```.*$", re.MULTILINE)
#: Stays beside the face on a hand-off that was accepted.
_TAKEN = "📥"
_SPACE = re.compile(r"\s+")


def one_turn_for_each_message(seen: Observation) -> Iterator[str]:
    """Each accepted message is in one turn, once."""
    taken = Counter(message for turn in seen.turns for message in turn.messages)
    for said in seen.said:
        if taken[said.message_id] != 1:
            yield f"{said.tag} is in {taken[said.message_id]} places of turns"
    strangers = set(taken) - {said.message_id for said in seen.said}
    yield from (f"a turn holds {message}, which nobody said" for message in sorted(strangers))


def every_turn_ends(seen: Observation) -> Iterator[str]:
    """Nothing is left open."""
    for turn in seen.turns:
        if turn.state not in _FACES:
            yield f"turn {turn.id} {turn.tags} stays {turn.state}"


def one_prompt_for_each_attempt(seen: Observation) -> Iterator[str]:
    """An agent is never asked more often than was counted before, and asked for each answer."""
    for turn in seen.turns:
        asked = seen.prompts_of(turn)
        if len(asked) > turn.attempt:
            yield f"turn {turn.id} {turn.tags}: {turn.attempt} attempts, {len(asked)} prompts"
        if turn.outcome == "completed" and not asked:
            yield f"turn {turn.id} {turn.tags} has an answer, but no agent was asked"
    for prompt in seen.prompts:
        owners = [turn for turn in seen.turns if set(turn.tags) & set(prompt.tags)]
        if len(owners) != 1 or set(owners[0].tags) != set(prompt.tags):
            yield f"a prompt of {prompt.tags} is of {[turn.tags for turn in owners]}"


def no_overlap(seen: Observation) -> Iterator[str]:
    """No session works on two prompts at once."""
    for session in {prompt.session for prompt in seen.prompts}:
        mine = [prompt for prompt in seen.prompts if prompt.session == session]
        for one, other in pairwise(sorted(mine, key=lambda prompt: prompt.at)):
            if other.at < one.until:
                yield f"prompts of {one.tags} and {other.tags} overlap in session {session}"


def raw_is_what_agents_said(seen: Observation) -> Iterator[str]:
    """What is kept of an answer is the agents' own text, byte for byte."""
    for turn in seen.turns:
        if turn.outcome and seen.pieces_of(turn) is None:
            told = [prompt.text for prompt in seen.prompts_of(turn)]
            yield f"turn {turn.id} {turn.tags} ({turn.outcome}) keeps {turn.raw!r} of {told!r}"


def interrupted_only_by_death(seen: Observation) -> Iterator[str]:
    """No answer is cut off while the broker that follows it lives."""
    for turn in seen.turns:
        if turn.outcome != "interrupted":
            continue
        if not any(turn.started_at <= death <= turn.answered_at for death in seen.deaths):
            yield f"turn {turn.id} {turn.tags} was interrupted, but nobody died"


def one_final_answer(seen: Observation) -> Iterator[str]:
    """Every ended turn has one answer, whole, once, and the answers come in the turns' order."""
    for conversation in sorted({turn.conversation for turn in seen.turns}):
        ended = [turn for turn in seen.turns if turn.outcome and seen.home_of(turn) == conversation]
        yield from _answers(seen, conversation, ended)


def _answers(seen: Observation, conversation: str, ended: list[TurnSeen]) -> Iterator[str]:
    groups = _groups(seen.answers_in(conversation))
    speaking = {tag: turn for turn in ended if WORD.search(turn.raw) for tag in turn.tags}
    silent = [turn for turn in ended if turn not in speaking.values()]
    order = [speaking[tag] for tag, _ in groups if tag in speaking]
    for turn in dict.fromkeys(speaking.values()):
        if order.count(turn) != 1:
            yield f"turn {turn.id} {turn.tags} has {order.count(turn)} answers"
    wordless = sum(len(messages) for tag, messages in groups if not tag)
    if wordless != len(silent):
        yield f"{conversation}: {wordless} answers without text, {len(silent)} turns without"
    # A result that has no thread any more comes when it comes.
    mine = [turn.order for turn in order if turn.conversation == conversation]
    if mine != sorted(mine):
        yield f"{conversation}: answers in the order {[turn.tags for turn in order]}"
    for tag, messages in groups:
        if tag and tag not in speaking:
            yield f"{conversation}: an answer to {tag}, which has none"
        elif tag:
            yield from _whole(seen, speaking[tag], messages)


def _groups(answers: list[MessageSeen]) -> list[tuple[str, list[MessageSeen]]]:
    """Neighbours of one turn together; an answer without the agent's words stands alone."""
    groups: list[tuple[str, list[MessageSeen]]] = []
    for message in answers:
        found = WORD.search(message.content)
        tag = found[1] if found else ""
        if tag and groups and groups[-1][0] == tag:
            groups[-1][1].append(message)
        else:
            groups.append((tag, [message]))
    return groups


def _whole(seen: Observation, turn: TurnSeen, messages: list[MessageSeen]) -> Iterator[str]:
    """The joined parts are the neutralised text; between attempts, or before what was cut off, a notice."""
    shown = _bare("\n".join(message.content for message in messages))
    shown = re.sub(r"^<@\d+>", "", shown)
    said = seen.pieces_of(turn) or [turn.raw]
    rest = []
    for piece in (_bare(neutralize(one)) for one in said if one):
        before, found, shown = shown.partition(piece)
        if not found:
            yield f"turn {turn.id} {turn.tags}: {piece[-60:]!r} is not shown whole"
        rest.append(before)
    notice = "".join([*rest, shown])
    is_at_home = seen.home_of(turn) == turn.conversation
    is_plain = turn.outcome == "completed" and turn.attempt <= 1 and is_at_home
    if WORD.search(notice) or (is_plain and notice):
        yield f"turn {turn.id} {turn.tags} shows more than was said: {notice[:200]!r}"
    if turn.outcome in {"interrupted", "cancelled", "failed"} and not notice:
        yield f"turn {turn.id} {turn.tags} does not say that it was {turn.outcome}"


def _bare(text: str) -> str:
    """Without what cutting may take away or put in: white space and fence lines."""
    return _SPACE.sub("", _FENCE.sub("", text))


def prompts_in_order(seen: Observation) -> Iterator[str]:
    """A conversation's turns begin in the order of what was said."""
    for conversation in sorted({turn.conversation for turn in seen.turns}):
        asked = [(seen.prompts_of(turn), turn) for turn in seen.turns_in(conversation)]
        begun = [(prompts[0].at, turn.tags) for prompts, turn in asked if prompts]
        if begun != sorted(begun, key=lambda one: one[0]):
            yield f"{conversation}: prompts in the order {begun}"


def nothing_is_left(seen: Observation) -> Iterator[str]:
    """No live message, no button and no wrong face stays behind."""
    for message in seen.messages:
        if message.is_presentation and (message.has_buttons or _LIVE.match(message.content)):
            yield f"{message.conversation}: left over: {message.content[:80]!r}"
    asked = [turn for turn in seen.turns if turn.source != "completion"]
    faces = {turn.trigger: _FACES.get(turn.state) for turn in asked}
    for said in seen.said:
        wanted = faces.get(said.message_id)
        shown = [one for one in seen.reactions.get(said.message_id, ()) if one != _TAKEN]
        if shown != ([wanted] if wanted else []):
            yield f"{said.tag} shows {shown} instead of {wanted}"
    for spawn in seen.spawns:
        wanted = faces.get(spawn.starter)
        shown = list(seen.reactions.get(spawn.starter, ()))
        if spawn.turn and shown != [wanted]:
            yield f"the starter {spawn.starter} shows {shown} instead of {wanted}"


def no_mistake_in_the_log(seen: Observation) -> Iterator[str]:
    """No broker stumbled over its own code."""
    yield from seen.mistakes


INVARIANTS: tuple[Callable[[Observation], Iterator[str]], ...] = (
    one_turn_for_each_message,
    every_turn_ends,
    one_prompt_for_each_attempt,
    no_overlap,
    raw_is_what_agents_said,
    interrupted_only_by_death,
    one_final_answer,
    prompts_in_order,
    nothing_is_left,
    delegation.each_task_is_given_once,
    delegation.each_sub_agent_is_started_once,
    delegation.each_result_is_in_one_place,
    delegation.each_parent_is_told_once,
    delegation.each_binding_comes_to_its_end,
    delegation.each_handoff_is_sent_once,
    delegation.each_handoff_is_taken_once,
    no_mistake_in_the_log,
)


def judge(seen: Observation) -> list[str]:
    """Every violation, with the name of what it violates."""
    return [f"{law.__name__}: {told}" for law in INVARIANTS for told in law(seen)]
