"""What the demo proves, each claim computed from evidence; nothing is taken on trust."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from openab.cli.demo import scripts
from openab.cli.demo.agent_log import Prompted
from openab.cli.demo.brokers import EDIT_INTERVAL_SECONDS, HEARTBEAT_SECONDS
from openab.cli.demo.evidence import Evidence, Finding, Missing
from openab.cli.demo.handoff_proofs import HANDOFF_CLAIMS
from openab.cli.demo.play import reactions_of
from openab.cli.demo.sightings import PRESENTATION, Change, live_messages
from openab.simulator.discord.errors import Json
from openab.text.neutralize import live_mentions, neutralize
from openab.text.notices import went_on_after_restart

_PLACEHOLDER_SECONDS = 2.0
_MOST_WRITES, _WRITE_SECONDS = 5, 5.0
_FENCE = re.compile(r"^```", re.MULTILINE)
_OPENER = re.compile(r"```\w*\n")


@dataclass(frozen=True, slots=True)
class Proof:
    """One line of the demo's end."""

    claim: str
    holds: bool
    found: str


def prove(evidence: Evidence) -> list[Proof]:
    """Judge every claim; one that cannot be judged does not hold."""
    return [_judge(evidence, claim, check) for claim, check in CLAIMS]


def _judge(evidence: Evidence, claim: str, check: Callable[[Evidence], Finding]) -> Proof:
    try:
        finding = check(evidence)
    except Missing as missing:
        finding = Finding(holds=False, found=str(missing))
    return Proof(claim, finding.holds, finding.found)


def _placeholder_soon(evidence: Evidence) -> Finding:
    mention = evidence.moment(evidence.asked(scripts.RED_BUILD).message)
    for seen in evidence.by_bots():
        if seen.channel_id == evidence.thread and seen.content.startswith(PRESENTATION):
            took = seen.at - mention
            return Finding(took <= _PLACEHOLDER_SECONDS + evidence.grace, f"it took {took:.2f} s")
    raise Missing("there was none")


def _never_silent(evidence: Evidence) -> Finding:
    """From Ann's message to the last part of the answer, by messages alone: reactions do not count."""
    asked = evidence.asked(scripts.RED_BUILD).message
    answers = evidence.answers(evidence.cast.sol, scripts.RED_BUILD)
    if not answers:
        raise Missing("there was no answer")
    start, last = evidence.moment(asked), answers[-1].id
    stop = max(seen.at for seen in evidence.by_bots() if seen.message_id == last)
    moments = [seen.at for seen in evidence.sightings if seen.is_text and start <= seen.at <= stop]
    longest = max(after - before for before, after in pairwise(moments))
    limit = HEARTBEAT_SECONDS + EDIT_INTERVAL_SECONDS + evidence.grace
    return Finding(longest <= limit, f"longest silence {longest:.1f} s in {stop - start:.0f} s")


def _few_writes(evidence: Evidence) -> Finding:
    busiest = {
        broker.bot.name: evidence.cast.discord.journal.busiest(
            evidence.thread, _WRITE_SECONDS, broker.bot.id
        )
        for broker in evidence.cast.brokers
    }
    told = ", ".join(f"{name} {count}" for name, count in busiest.items())
    return Finding(0 < max(busiest.values()) <= _MOST_WRITES, f"at most: {told}")


def _explicit_mentions(evidence: Evidence) -> Finding:
    ann, luna = evidence.cast.ann.id, evidence.cast.luna.bot
    bodies = evidence.cast.discord.journal.content_bodies()
    wrong = [
        one
        for one, body in bodies
        if not _names_only(
            body.get("allowed_mentions"), luna.id if _hands_over(body, luna.mention) else ann
        )
    ]
    if wrong:
        return Finding(holds=False, found=f"{wrong[0].method} {wrong[0].path} does not")
    named = sum(ann in body["allowed_mentions"]["users"] for _, body in bodies)
    return Finding(bool(bodies), f"{len(bodies)} bodies, {named} of them name Ann")


def _hands_over(body: Json, mention: str) -> bool:
    return str(body["content"]).startswith(f"{mention}\n{{")


def _names_only(allowed: Json | None, user: str) -> bool:
    if allowed is None or allowed.get("parse") != [] or allowed.get("roles"):
        return False
    return set(allowed.get("users") or ()) <= {user}


def _inert(evidence: Evidence) -> Finding:
    ann, luna = evidence.cast.ann.mention, evidence.cast.luna.bot.mention
    texts = (seen.content.removeprefix(ann) for seen in evidence.by_bots())
    shown = [text.removeprefix(luna) if text.startswith(f"{luna}\n{{") else text for text in texts]
    live = [mention for text in shown for mention in live_mentions(text)]
    logs = [evidence.log_of(broker) for broker in evidence.cast.brokers]
    tried = sum(len(live_mentions(one.said)) for log in logs for one in log.prompts)
    if live:
        return Finding(holds=False, found=f"{len(live)} were alive, for instance {live[0]}")
    return Finding(tried > 0, f"{tried} tried by the agents, none in {len(shown)} shown texts")


def _dropped_part_once(evidence: Evidence) -> Finding:
    dropped = evidence.story.dropped
    if dropped is None or not dropped.requests:
        raise Missing("no connection was dropped")
    content = dropped.requests[0].fields["content"]
    tries = evidence.cast.discord.journal.select(
        "create_message", where=lambda one: one.fields.get("content") == content
    )
    nonces = {str(one.fields.get("nonce")) for one in tries}
    stands = sum(one.content == content for one in evidence.standing())
    told = f"{len(tries)} requests, nonces: {len(nonces)}, messages: {stands}"
    return Finding(len(tries) > 1 and len(nonces) == 1 and stands == 1, told)


def _lossless(evidence: Evidence) -> Finding:
    sol = evidence.cast.sol
    parts = [one.content for one in evidence.answers(sol, scripts.RED_BUILD)]
    prompts = evidence.log_of(sol).prompts
    if not parts or not prompts:
        raise Missing("there was no answer")
    expected = neutralize(f"{_tool_lines(prompts[0])}\n\n{prompts[0].said}")
    shown = joined(parts).removeprefix(f"{evidence.cast.ann.mention} ")
    uneven = [part for part in parts if len(_FENCE.findall(part)) % 2]
    told = f"{len(parts)} parts, {len(shown)} of {len(expected)} characters"
    holds = len(parts) > 1 and shown == expected and not uneven
    return Finding(holds, told + (f", {len(uneven)} with an open fence" if uneven else ""))


def joined(parts: list[str]) -> str:
    """The text whose parts these are: a fence closed at an end and opened anew is taken out."""
    text = parts[0]
    for part in parts[1:]:
        opener = _OPENER.match(part)
        if text.endswith("```") and opener:
            text = text.removesuffix("```") + part[opener.end() :]
        else:
            text += part
    return text


def _only_anns_prompts(evidence: Evidence) -> Finding:
    told, holds = [], True
    for broker in evidence.cast.brokers:
        prompts = evidence.log_of(broker).prompts
        got = [_cue(one.text) for one in prompts if not one.is_continued]
        meant = [
            asked.cue for asked in evidence.story.asked.values() if broker.bot.id in asked.endings
        ]
        if broker is evidence.cast.luna:
            meant.append(evidence.handed_over)
        holds = holds and bool(meant) and got == meant
        told.append(f"{broker.bot.name} {len(got)} of {len(meant)}")
    return Finding(holds, ", ".join(told))


def _cue(prompt: str) -> str:
    """Which of Ann's sentences it is; anything else stands for itself."""
    return next((cue for cue in scripts.CUES if prompt.endswith(cue)), prompt)


def _orphan_goes_on(evidence: Evidence) -> Finding:
    orphan, killed_at = evidence.story.orphan, evidence.story.killed_at
    if orphan is None or killed_at is None:
        raise Missing("no broker was killed")
    left = live_messages(evidence.standing())
    after = [
        seen for seen in evidence.sightings if seen.message_id == orphan.id and seen.at > killed_at
    ]
    edits = [seen.at for seen in after if seen.change is Change.EDITED]
    is_gone = any(seen.change is Change.DELETED for seen in after)
    if not edits or not is_gone or left:
        told = f"edited {len(edits)} times, {len(left)} live messages are left over"
        return Finding(holds=False, found=told)
    return Finding(holds=True, found=f"it moves again {edits[0] - killed_at:.1f} s after")


def _goes_on(evidence: Evidence) -> Finding:
    if evidence.story.killed_at is None:
        raise Missing("no broker was killed")
    sol = evidence.cast.sol
    endings = evidence.answers(sol, scripts.MIGRATION)
    if len(endings) != 1:
        return Finding(holds=False, found=f"it has {len(endings)} endings")
    asked = [one for one in evidence.log_of(sol).prompts if _cue(one.text) == scripts.MIGRATION]
    if [one.is_continued for one in asked] != [False, True]:
        return Finding(holds=False, found=f"the agent was asked {len(asked)} times")
    head = "\n".join(map(_tool_lines, asked))
    before, _, after = endings[0].content.partition(f"\n\n{went_on_after_restart()}\n\n")
    first = before.removeprefix(f"{head}\n\n")
    holds = first != before and bool(first) and asked[0].said.startswith(first)
    told = f"one, with {len(first)} characters from before and {len(after)} from after"
    return Finding(holds and bool(after) and after == asked[1].said, told)


def _tool_lines(prompted: Prompted) -> str:
    return "\n".join(f"✅ `{title}`" for title in prompted.tools)


def _one_reaction_each(evidence: Evidence) -> Finding:
    wrong = [
        f"{asked.cue[:20]}… has {' '.join(reactions_of(asked.message, bot)) or 'none'}"
        for asked in evidence.story.asked.values()
        for bot, emoji in asked.endings.items()
        if reactions_of(asked.message, bot) != [emoji]
    ]
    everything = [asked.endings for asked in evidence.story.asked.values()]
    told = [emoji for endings in everything for emoji in endings.values()]
    complete = len(everything) == len(scripts.CUES)
    return Finding(complete and not wrong, "; ".join(wrong) or " ".join(told))


def _same_session(evidence: Evidence) -> Finding:
    if evidence.story.killed_at is None:
        raise Missing("no broker was killed")
    sol = evidence.cast.sol
    log, answers = evidence.log_of(sol), evidence.answers(sol, scripts.STILL_THERE)
    if not answers:
        raise Missing("it was not answered")
    sessions = {one.session_id for one in log.prompts}
    one_session = sessions == set(log.opened) == set(log.resumed) and len(sessions) == 1
    earlier = [scripts.RED_BUILD, scripts.SECOND_OPINION, scripts.MIGRATION]
    known = [cue for cue in earlier if cue in answers[0].content]
    told = f"sessions: {len(sessions)}, requests remembered: {len(known)}"
    return Finding(one_session and known == earlier, told)


def _separate_sessions(evidence: Evidence) -> Finding:
    luna = evidence.cast.luna
    answers = evidence.answers(luna, scripts.STILL_THERE)
    if not answers:
        raise Missing("it was not answered")
    own = {one.session_id for one in evidence.log_of(luna).prompts}
    sols = {one.session_id for one in evidence.log_of(evidence.cast.sol).prompts}
    told = answers[0].content
    knows = scripts.SECOND_OPINION in told and scripts.MIGRATION in told
    holds = len(own) == 1 and not own & sols and knows and scripts.RED_BUILD not in told
    before = told.count(scripts.SECOND_OPINION) + told.count(scripts.MIGRATION)
    return Finding(holds, f"Luna's has {before} requests before")


#: Every claim, in the order in which a reader meets the facts.
CLAIMS: tuple[tuple[str, Callable[[Evidence], Finding]], ...] = (
    ("A mention is answered by a live message within 2 s", _placeholder_soon),
    (
        f"A turn is never silent for longer than {HEARTBEAT_SECONDS + EDIT_INTERVAL_SECONDS} s",
        _never_silent,
    ),
    ("No bot writes more than 5 times in 5 s in the thread", _few_writes),
    (
        "Every text says who may be pinged: nobody, Ann who asked, or who gets work",
        _explicit_mentions,
    ),
    ("No live mention is ever shown, but for Ann's and the hand-off's", _inert),
    ("The part whose connection was dropped stands exactly once", _dropped_part_once),
    ("The parts are the agent's answer, complete, every fence closed", _lossless),
    ("Each agent got exactly what Ann asked and what was handed to it", _only_anns_prompts),
    ("The live message of the killed broker goes on, and is gone at the end", _orphan_goes_on),
    ("The killed turn goes on: one answer with both halves, marked where", _goes_on),
    ("Each message ends with one reaction of each bot, the true one", _one_reaction_each),
    ("After the restart Sol goes on in the same session and remembers", _same_session),
    ("Two bots in one thread keep separate sessions", _separate_sessions),
    *HANDOFF_CLAIMS,
)
