"""Rate limits and the nonce memory, with Discord's headers (documented; numbers observed)."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from openab.simulator.discord.clock import Clock
from openab.simulator.discord.errors import Json
from openab.simulator.discord.records import Message

#: discord.py 2.7.1 takes a 429 without `Via` for a Cloudflare ban.
VIA = {"Via": "1.1 google"}


@dataclass
class Rule:
    """So many requests per window; routes with one `name` share a counter.

    `bucket` is the hash that the headers show, by default the name: Discord has been seen to give
    two counters one hash (discord-api-docs#1442).
    """

    name: str
    limit: int
    seconds: float
    bucket: str = ""


@dataclass(frozen=True)
class TooMany:
    """A 429: how long to wait, whom it concerns, and its headers."""

    retry_after: float
    scope: str = "user"
    is_global: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Json:
        """What the answer says."""
        text = "You are being rate limited."
        return {"message": text, "retry_after": self.retry_after, "global": self.is_global}


@dataclass
class _Window:
    started: float
    used: int = 0


class Limited(Exception):
    """A sub-limit inside a route is used up, such as renames: 429 though its bucket has room."""

    def __init__(self, answer: TooMany) -> None:
        super().__init__(f"retry after {answer.retry_after} s")
        self.answer = answer


def default_rules() -> dict[str, Rule]:
    """Route kind → rule. Creates and edits share 5 per 5 s per channel (observed)."""
    writes = Rule("message-writes", 5, 5.0)
    reactions = Rule("reactions", 1, 0.25)
    return {
        "create_message": writes,
        "edit_message": writes,
        "delete_message": Rule("message-deletes", 5, 1.0),
        "add_reaction": reactions,
        "remove_reaction": reactions,
        "typing": Rule("typing", 5, 5.0),
        "rename_channel": Rule("renames", 2, 600.0),
    }


class Limits:
    """Counts per bot, rule and channel; `enabled = False` lets everything pass."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.enabled = True
        self.rules = default_rules()
        self.global_per_second = 50
        #: Edits of a message older than an hour before 30046; Discord does not tell its number.
        self.old_message_edits = 5
        self.old_message_seconds = 3600.0
        self._windows: dict[tuple[str, str, str], _Window] = {}
        self._recent: dict[str, deque[float]] = {}

    def take(self, bot_id: str, kind: str, major: str) -> TooMany | Mapping[str, str]:
        """Spend one request: the headers to answer with, or the refusal."""
        if not self.enabled:
            return {}
        if (blocked := self._global(bot_id)) is not None:
            return blocked
        rule = self.rules.get(kind)
        return {} if rule is None else self._spend(bot_id, rule, major)

    def take_inner(self, bot_id: str, kind: str, major: str) -> None:
        """Spend one of a limit that no header announces; raises `Limited`."""
        if not self.enabled:
            return
        spent = self._spend(bot_id, self.rules[kind], major)
        if isinstance(spent, TooMany):
            raise Limited(TooMany(spent.retry_after, "shared"))

    def _global(self, bot_id: str) -> TooMany | None:
        now = self._clock.monotonic()
        recent = self._recent.setdefault(bot_id, deque())
        while recent and recent[0] <= now - 1:
            recent.popleft()
        if len(recent) >= self.global_per_second:
            wait = round(recent[0] + 1 - now, 3)
            return TooMany(wait, "global", is_global=True, headers={"X-RateLimit-Global": "true"})
        recent.append(now)
        return None

    def _spend(self, bot_id: str, rule: Rule, major: str) -> TooMany | Mapping[str, str]:
        now = self._clock.monotonic()
        key = (bot_id, rule.name, major)
        window = self._windows.get(key)
        if window is None or now >= window.started + rule.seconds:
            window = self._windows[key] = _Window(now)
        left = window.started + rule.seconds - now
        if window.used >= rule.limit:
            return TooMany(round(left + 0.001, 3), headers=self._headers(rule, 0, left))
        window.used += 1
        return self._headers(rule, rule.limit - window.used, left)

    def _headers(self, rule: Rule, remaining: int, left: float) -> dict[str, str]:
        reset = self._clock.wall().timestamp() + left
        return {
            "X-RateLimit-Limit": str(rule.limit),
            "X-RateLimit-Remaining": str(remaining),
            "X-RateLimit-Reset": f"{reset:.3f}",
            "X-RateLimit-Reset-After": f"{left:.3f}",
            "X-RateLimit-Bucket": rule.bucket or rule.name,
        }


@dataclass(frozen=True)
class _Seen:
    message: Message
    at: float


class Nonces:
    """`enforce_nonce`: within the window an author's nonce names one message (documented)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.enabled = True
        #: "The last few minutes"; Discord does not tell the number.
        self.window_seconds = 180.0
        #: What makes two nonces the same; by default author and nonce, whatever the channel.
        self.scope: Callable[[str, str], tuple[str, ...]] = lambda author, _: (author,)
        self._seen: dict[tuple[str, ...], _Seen] = {}

    def find(self, author_id: str, channel_id: str, nonce: str | int | None) -> Message | None:
        """The message this nonce made within the window, deleted or not."""
        if not self.enabled or nonce is None:
            return None
        seen = self._seen.get((*self.scope(author_id, channel_id), str(nonce)))
        fresh = seen and self._clock.monotonic() - seen.at <= self.window_seconds
        return seen.message if seen and fresh else None

    def remember(self, message: Message) -> None:
        """Enter a message that was just made."""
        if message.nonce is not None:
            key = (*self.scope(message.author.id, message.channel_id), str(message.nonce))
            self._seen[key] = _Seen(message, self._clock.monotonic())
