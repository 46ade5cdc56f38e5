"""Status emoji: which one a turn wishes for, when the wish has settled, and the steps to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from openab.domain.agent_events import EndKind
from openab.domain.emojis import Emojis
from openab.ports.feed import Phase
from openab.presentation.transcript import TurnView

_WAITING = frozenset({Phase.WAITING_PERMISSION, Phase.WAITING_DISCORD, Phase.UNREACHABLE})
_WEB = ("web_search", "web_fetch", "web-search", "web-fetch", "browser")
_CODING = ("exec", "process", "read", "write", "edit", "bash", "shell")


class Mood(StrEnum):
    """What a turn's reaction says."""

    QUEUED = "queued"
    THINKING = "thinking"
    TOOL = "tool"
    CODING = "coding"
    WEB = "web"
    DONE = "done"
    ERROR = "error"
    #: Nothing was heard for a while, and for a long while.
    STALLED = "stalled"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class ReactionTiming:
    """`[reactions.timing]` in seconds, with OpenAB's defaults."""

    debounce: float = 0.7
    stall_soft: float = 10.0
    stall_hard: float = 30.0
    done_hold: float = 1.5
    error_hold: float = 2.5


def classify(title: str) -> Mood:
    """Coding, web or another tool, by OpenAB's words in the title."""
    lowered = title.lower()
    if any(word in lowered for word in _WEB):
        return Mood.WEB
    return Mood.CODING if any(word in lowered for word in _CODING) else Mood.TOOL


def mood(view: TurnView, phase: Phase) -> Mood:
    """What the turn is about now, silence left aside."""
    if view.ended:
        return Mood.ERROR if view.ended.kind is EndKind.FAILED else Mood.DONE
    if phase is Phase.QUEUED:
        return Mood.QUEUED
    running = view.tools.running
    return classify(running.title) if running else Mood.THINKING


def stalled(now_mood: Mood, quiet_seconds: float, timing: ReactionTiming) -> Mood:
    """The mood once silence is counted in; a limit of 0 is none."""
    if now_mood in {Mood.QUEUED, Mood.DONE, Mood.ERROR}:
        return now_mood
    if timing.stall_hard and quiet_seconds >= timing.stall_hard:
        return Mood.SILENT
    is_stalled = timing.stall_soft and quiet_seconds >= timing.stall_soft
    return Mood.STALLED if is_stalled else now_mood


def hold_seconds(end: Mood, timing: ReactionTiming) -> float:
    """How long the last emoji stays, where `remove_after_reply` is set."""
    return timing.error_hold if end is Mood.ERROR else timing.done_hold


@dataclass(slots=True)
class Wish:
    """The wished emoji, debounced: it is given out once it has stood still for a while."""

    debounce: float
    given: str | None = None
    _wanted: str | None = None
    _since: float = 0.0

    def want(self, emoji: str, now: float) -> None:
        """Wish for an emoji; another one than before begins to settle anew."""
        if emoji != self._wanted:
            self._wanted, self._since = emoji, now

    def due(self) -> float | None:
        """When the wish has settled; the first one at once; None while nothing is to change."""
        if self._wanted == self.given:
            return None
        return self._since + (0.0 if self.given is None else self.debounce)

    def give(self) -> str:
        """Give the wished emoji out; an empty one means none."""
        self.given = self._wanted
        return self.given or ""


class ReactionWatch:
    """Follows one turn and says when its emoji is to be another one. Without emojis it says nothing.

    The last emoji is not given here: only who delivers the answer knows how the turn really ended.
    """

    def __init__(self, emojis: Emojis | None, timing: ReactionTiming) -> None:
        self._emojis = emojis
        self._timing = timing
        self._wish = Wish(timing.debounce)

    def look(self, view: TurnView, phase: Phase, heard_at: float, now: float) -> str | None:
        """The emoji to show from now on, once for each change."""
        if self._emojis is None or view.ended:
            return None
        wanted = mood(view, phase)
        # An agent that waits for people, or for the network, is not the one that is silent.
        if phase not in _WAITING:
            wanted = stalled(wanted, now - heard_at, self._timing)
        self._wish.want(_face(self._emojis, wanted), now)
        due = self._wish.due()
        return self._wish.give() if due is not None and due <= now else None

    def next_look(self, view: TurnView, heard_at: float, now: float) -> float | None:
        """When to look again though nothing happens: a wish settles, or silence becomes long."""
        if self._emojis is None or view.ended:
            return None
        moments = [heard_at + self._timing.stall_soft, heard_at + self._timing.stall_hard]
        if (due := self._wish.due()) is not None:
            moments.append(due)
        return min((moment for moment in moments if moment > now), default=None)

    def is_stalled(self, heard_at: float, now: float) -> bool:
        """Whether the next sign of life changes the emoji."""
        limits = [limit for limit in (self._timing.stall_soft, self._timing.stall_hard) if limit]
        return bool(limits) and now - heard_at >= min(limits)


@dataclass(frozen=True, slots=True)
class ReactionStep:
    """One request: add an emoji, or take ours back."""

    emoji: str
    is_add: bool


def steps(shown: Sequence[str], wished: str | None) -> list[ReactionStep]:
    """From what is shown to what is wished (None: nothing); added first, so that there is always one."""
    add = [ReactionStep(wished, is_add=True)] if wished and wished not in shown else []
    return add + [ReactionStep(emoji, is_add=False) for emoji in shown if emoji != wished]


def _face(emojis: Emojis, mood: Mood) -> str:
    """Every mood has an emoji of its name."""
    return str(getattr(emojis, mood.value))
