"""The trials, in order: what is said in which thread, what fences it, and what must be true of it."""

from collections.abc import Sequence

from openab.cli.conformance.bench import Bench, Check, Claim, Row, Sent, Tried, Verdict
from openab.cli.conformance.burst import burst
from openab.cli.conformance.envelopes import Draft, envelope
from openab.cli.conformance.faults import FAULTS, NOT_TESTABLE, Fault
from openab.cli.conformance.guises import guises
from openab.cli.conformance.replays import replays
from openab.cli.conformance.rest import Rest
from openab.cli.conformance.sightings import ACCEPTED, REFUSED

FIRST = "accepts a right hand-off, once, and answers it"
_HINT = "Does it run, see the channel, trust this tester, and use the echo agent?"
_NO_HANDOFF_AT_ALL = "no right hand-off was answered"
#: Mentions, mark-up, what cannot be seen, right to left, beyond the basic plane, controls, white space.
_NASTY = (
    "\n<@{target}> <@&1> @everyone @here <#2> </a:3>\n```python\nprint('`')\n```\n| a | b |\n"
    "\u200b\u200d\u2060 \u202eabc\u202c שלום \U0001f469\u200d\U0001f4bb \U000e0041 e\u0301 "
    "\\u0041 \\n \x00 \x07 \x1b[31m \x7f \u2028 \u2029 \t\r\n  end  \n"
)
_SHORT_LIFE, _LONG_LIFE = 20, 3590


async def perform(bench: Bench, stranger: Rest | None) -> list[Row]:
    """Every row of the table."""
    threads = [await bench.open_thread("openab conformance 1")]
    bench.tell("a right hand-off")
    first = await bench.submit(threads[0], envelope(bench.setting(threads[0])))
    bench.claim(FIRST, bench.answered_once(first))
    if not await bench.is_answered(first):
        row = Row(FIRST, Verdict.FAIL, f"{bench.claims[0].check()}. {_HINT}")
        return [row, Row("everything else", Verdict.NOT_TESTABLE, _NO_HANDOFF_AT_ALL)]
    threads += [await bench.open_thread(f"openab conformance {number}") for number in (2, 3, 4)]
    for thread, faults in zip(threads, FAULTS, strict=False):
        bench.tell(f"{len(faults)} hand-offs with one fault each")
        await _with_faults(bench, thread, faults)
    bench.tell("right ones at the edges, and messages that only look like one")
    await _at_the_edges(bench, threads[1])
    await guises(bench, threads[3], stranger)
    bench.tell("replays")
    await replays(bench, threads[2])
    bench.tell("eleven in a minute: this waits for two minutes")
    await burst(bench, threads)
    return await _judged(bench)


async def _with_faults(bench: Bench, thread: str, faults: tuple[Fault, ...]) -> None:
    sent: list[Sent] = []
    for fault in faults:
        setting = bench.setting(thread)
        draft = envelope(setting)
        fault.spoil(draft, setting)
        sent.append(await bench.post(thread, draft, has_no_text=fault.has_no_text))
    unfounded = await bench.fence(thread)
    for fault, one in zip(faults, sent, strict=True):
        check = bench.passed_over(one, has_no_text=fault.has_no_text)
        bench.claim(f"refuses {fault.told}", check, unfounded)


async def _at_the_edges(bench: Bench, thread: str) -> None:
    setting = bench.setting(thread)
    lean = envelope(setting)
    for key in ("origin_thread_id", "origin_message_id"):
        del lean.document[key]
    right: tuple[tuple[str, Draft], ...] = (
        (
            "hands the text on byte for byte",
            envelope(setting, tail=_NASTY.replace("{target}", bench.target)),
        ),
        ("accepts keys that it does not know", envelope(setting).changed(x={"y": [1, None]})),
        ("accepts one without the optional ids", lean),
        (
            f"accepts an expiry {_LONG_LIFE} s ahead",
            envelope(setting, life=_LONG_LIFE),
        ),
    )
    for rule, draft in right:
        await _accepted(bench, thread, rule, draft)
    await bench.room()
    last = envelope(bench.setting(thread), life=_SHORT_LIFE)
    await _accepted(bench, thread, f"accepts an expiry {_SHORT_LIFE} s ahead", last)


async def _accepted(bench: Bench, thread: str, rule: str, draft: Draft) -> None:
    sent = await bench.submit(thread, draft)
    bench.claim(rule, bench.answered_once(sent))
    await bench.is_answered(sent)


async def _judged(bench: Bench) -> list[Row]:
    bench.claim("makes each hand-off a turn of its own", _bundles(bench))
    rows = [claim.judged() for claim in bench.claims]
    rows += [Row(rule, Verdict.NOT_TESTABLE, reason) for rule, reason in NOT_TESTABLE]
    return rows + await _receipts(bench)


def _bundles(bench: Bench) -> Check:
    probes = {tried.sent.draft.probe for tried in bench.accepted}

    def check() -> str:
        together = [one for one in bench.watch.bundled() if probes.intersection(one)]
        return f"one answer answers {len(together[0])} of them" if together else ""

    return check


async def _receipts(bench: Bench) -> list[Row]:
    """They are optional; but one that is given has to be the right one."""
    claims = [
        Claim(f"{ACCEPTED} on each that it accepts", _all_with(bench, bench.accepted, ACCEPTED)),
        Claim(f"{REFUSED} on each that it refuses", _all_with(bench, bench.refused, REFUSED)),
    ]
    if not bench.watch.gives_receipts:
        told = "it gives no receipts, which are optional"
        return [Row(claim.rule, Verdict.NOT_TESTABLE, told) for claim in claims]
    await bench.watch.until(lambda: _are_settled(bench, claims), bench.patience)
    return [claim.judged() for claim in claims]


def _are_settled(bench: Bench, claims: Sequence[Claim]) -> bool:
    """All are there, or one is wrong, which no waiting mends."""
    wrong = [one for one in bench.accepted if REFUSED in bench.watch.receipts(one.sent.message)]
    return bool(wrong) or not any(claim.check() for claim in claims)


def _all_with(bench: Bench, tried: list[Tried], receipt: str) -> Check:
    """Of those that the bot judged as it should: the others have rows of their own."""

    def check() -> str:
        for message in [one.sent.message for one in tried if not one.check()]:
            found = bench.watch.receipts(message)
            if found != {receipt}:
                return f"message {message} has {' '.join(sorted(found)) or 'none'}"
        return ""

    return check
