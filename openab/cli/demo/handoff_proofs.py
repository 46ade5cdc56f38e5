"""What the demo proves of the hand-off: one message, Sol's words as they are, everything to be seen."""

from collections.abc import Callable

from openab.cli.demo import scripts
from openab.cli.demo.evidence import Evidence, Finding, Missing
from openab.cli.demo.play import DONE, TAKEN, is_handoff, reactions_of
from openab.text.neutralize import live_mentions, neutralize

_DIRECTIVE = "[[handoff"


def _one_message(evidence: Evidence) -> Finding:
    sol, luna, handoff = evidence.cast.sol.bot, evidence.cast.luna.bot, evidence.handoff
    standing = [one for one in evidence.standing() if is_handoff(one, luna.id)]
    bodies = [
        body
        for _, body in evidence.cast.discord.journal.content_bodies(sol.id)
        if body["content"] == handoff.content
    ]
    if not bodies:
        raise Missing("nobody sent it")
    allowed = [body.get("allowed_mentions") or {} for body in bodies]
    names_luna = all(one.get("users") == [luna.id] and one.get("parse") == [] for one in allowed)
    mentions = live_mentions(handoff.content)
    pinged = sorted(handoff.pings)
    holds = len(standing) == 1 and names_luna and pinged == [luna.id] and len(mentions) == 1
    told = (
        f"messages: {len(standing)}, pinged: {len(pinged)}, mentions on the wire: {len(mentions)}"
    )
    return Finding(holds, told)


def _byte_for_byte(evidence: Evidence) -> Finding:
    payload = evidence.handed_over
    asked = [one for one in evidence.log_of(evidence.cast.sol).prompts if _is_asked(one.text)]
    if not asked:
        raise Missing("Sol's agent was not asked")
    directive, _, said = asked[-1].said.partition("\n")
    got = [one for one in evidence.log_of(evidence.cast.luna).prompts if one.text == payload]
    holds = directive.startswith(_DIRECTIVE) and said == payload and len(got) == 1
    return Finding(holds, f"{len(payload)} characters, prompted {len(got)} times")


def _is_asked(prompt: str) -> bool:
    return prompt.endswith(scripts.HAND_OVER)


def _seen(evidence: Evidence) -> Finding:
    sol, luna, handoff = evidence.cast.sol, evidence.cast.luna, evidence.handoff
    shown = [one.content for one in evidence.answers(sol, scripts.HAND_OVER) if one != handoff]
    is_read = any(neutralize(evidence.handed_over) in content for content in shown)
    leaked = sum(_DIRECTIVE in seen.content for seen in evidence.by_bots())
    receipts = sorted(reactions_of(handoff, luna.bot.id))
    answers = [
        one.content
        for one in evidence.answers(luna, scripts.HAND_OVER)
        if int(one.id) > int(handoff.id)
    ]
    is_done = len(answers) == 1 and scripts.LAST_WORDS[scripts.HAND_OVER] in answers[0]
    holds = is_read and not leaked and receipts == sorted((TAKEN, DONE)) and is_done
    told = f"{' '.join(receipts) or 'no receipt'}, answers: {len(answers)}"
    return Finding(holds, told + (f", directives shown: {leaked}" if leaked else ""))


#: In the order in which it happens.
HANDOFF_CLAIMS: tuple[tuple[str, Callable[[Evidence], Finding]], ...] = (
    ("Sol gives Luna work by one message, which pings her alone", _one_message),
    ("Luna's agent gets Sol's words byte for byte, once", _byte_for_byte),
    ("People see the request, the hand-off with its receipt, and the answer", _seen),
)
