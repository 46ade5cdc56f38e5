"""An event is good once: copies, other spellings, another text, another order; a refusal spends nothing."""

from openab.cli.conformance.bench import Bench, Sent
from openab.cli.conformance.envelopes import Draft, envelope


async def replays(bench: Bench, thread: str) -> None:
    """What was accepted is not accepted again; what was refused is, once it is right."""
    await _once(bench, thread)
    await _reversed(bench, thread)
    await _nothing_spent(bench, thread)


async def _once(bench: Bench, thread: str) -> None:
    first = envelope(bench.setting(thread))
    sent = await bench.submit(thread, first)
    await bench.is_answered(sent)
    await bench.repeat(thread, sent)
    event = first.event_id
    other_texts = {
        "knows an event id in capital letters": event.upper(),
        "knows an event id in braces": f"{{{event}}}",
        "refuses another text under a known event id": event,
    }
    copies = [
        (rule, await bench.post(thread, _renamed(bench, thread, written)))
        for rule, written in other_texts.items()
    ]
    unfounded = await bench.fence(thread)
    bench.claim("accepts an event only once", bench.answered_once(sent), unfounded)
    for rule, copy in copies:
        bench.claim(rule, bench.passed_over(copy), unfounded)


def _renamed(bench: Bench, thread: str, event: str) -> Draft:
    return envelope(bench.setting(thread)).changed(event_id=event)


async def _reversed(bench: Bench, thread: str) -> None:
    """The later one first; then both again, the other way round."""
    setting = bench.setting(thread)
    earlier, later = envelope(setting), envelope(setting, life=600)
    sent: list[Sent] = []
    for draft in (later, earlier):
        sent.append(await bench.submit(thread, draft))
        await bench.is_answered(sent[-1])
    for one in reversed(sent):
        await bench.repeat(thread, one)
    unfounded = await bench.fence(thread)

    def check() -> str:
        wrong = (bench.answered_once(one)() for one in sent)
        return next(filter(None, wrong), "")

    bench.claim("accepts each once, whatever the order", check, unfounded)


async def _nothing_spent(bench: Bench, thread: str) -> None:
    wrong = envelope(bench.setting(thread)).changed(hop_count=1)
    await bench.post(thread, wrong)
    unfounded = await bench.fence(thread)
    sent = await bench.submit(thread, _renamed(bench, thread, wrong.event_id))
    await bench.is_answered(sent)
    rule = "accepts a refused event once it is right"
    bench.claim(rule, bench.answered_once(sent), unfounded)
