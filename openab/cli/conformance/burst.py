"""Eleven hand-offs in a minute: ten are accepted, and the eleventh once the minute is over."""

from collections.abc import Sequence

from openab.cli.conformance.bench import WINDOW_SECONDS, Bench, Sent, Tried
from openab.cli.conformance.envelopes import envelope, new_probe

_COUNT, _MOST = 11, 10
_TEN = "accepts ten of eleven in a minute"
_AGAIN = "accepts the eleventh after the minute"
#: They have to be this close together, by Discord's own clock.
_SPAN_SECONDS = 50.0
_MOMENT_SECONDS = 5.0
_SLOW = "Discord did not let eleven messages pass within a minute"


async def burst(bench: Bench, threads: Sequence[str]) -> None:
    """Say eleven, in several threads since Discord takes five in five seconds in each; then one again."""
    await bench.empty_window()
    places = [threads[number % len(threads)] for number in range(_COUNT)]
    sent = [await bench.send(place, envelope(bench.setting(place))) for place in places]
    if _span(sent) > _SPAN_SECONDS:
        bench.claim(_TEN, lambda: "", _SLOW)
        bench.claim(_AGAIN, lambda: "", _SLOW)
        return
    await bench.watch.until(lambda: len(_answered(bench, sent)) >= _MOST, bench.patience)
    await _pass_by(bench, threads)
    answered = _answered(bench, sent)
    wrong = "" if len(answered) == _MOST else f"{len(answered)} were answered"
    bench.claim(_TEN, lambda: wrong)
    bench.accepted += [Tried(one, bench.answered_once(one)) for one in answered]
    left = [one for one in sent if one not in answered]
    bench.refused += [Tried(one, lambda: wrong) for one in left]
    await _again(bench, left, "" if len(left) == 1 else "there was no eleventh")


def _span(sent: Sequence[Sent]) -> float:
    """Seconds between first and last; an id's upper bits are its time in milliseconds."""
    return ((int(sent[-1].message) >> 22) - (int(sent[0].message) >> 22)) / 1000


def _answered(bench: Bench, sent: Sequence[Sent]) -> list[Sent]:
    return [one for one in sent if bench.watch.answers(one.draft.probe)]


async def _pass_by(bench: Bench, threads: Sequence[str]) -> None:
    """Until ordinary mentions behind them are answered; where none ever is, for a moment only."""
    mentions = [(thread, new_probe()) for thread in threads]
    said = [(probe, await bench.say(at, f"<@{bench.target}> {probe}")) for at, probe in mentions]
    if bench.takes_mentions:
        for probe, message in said:
            await bench.is_heard(probe, message)
    else:
        await bench.watch.until(lambda: False, min(bench.patience, _MOMENT_SECONDS))


async def _again(bench: Bench, left: Sequence[Sent], unfounded: str) -> None:
    if unfounded:
        bench.claim(_AGAIN, lambda: "", unfounded)
        return
    await bench.pace.wait(WINDOW_SECONDS)
    again = await bench.submit(left[0].thread, left[0].draft)
    await bench.is_answered(again)
    bench.claim(_AGAIN, bench.answered_once(again))
