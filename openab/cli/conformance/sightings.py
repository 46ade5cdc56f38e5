"""What can be seen of the bot under test: its messages, what they ever said, and its reactions."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_HEARD = re.compile(r"heard (probe-[0-9a-f]{12}|nothing) ([0-9a-f]{64})")
#: What the echo agent says of a prompt without a probe.
NOTHING = "nothing"
#: A live message or a notice, never an answer.
_PRESENTATION = "-# "
ACCEPTED, REFUSED = "📥", "⛔"
_RECEIPTS = frozenset({ACCEPTED, REFUSED})


@dataclass
class Seen:
    """One message of the bot under test; `contents` are all it ever said."""

    message: str
    channel: str
    #: When it was seen first, by the watch's clock.
    at: float
    contents: list[str] = field(default_factory=list)
    is_gone: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether it stands, and is neither a live message nor a notice."""
        return not self.is_gone and not self.contents[-1].startswith(_PRESENTATION)


class Watch:
    """Takes the gateway's events, and what history adds; taking one twice changes nothing."""

    def __init__(self, target: str, now: Callable[[], float]) -> None:
        self._target = target
        self._now = now
        self._seen: dict[str, Seen] = {}
        #: By the message that they stand on: each, and when it was seen first.
        self._receipts: dict[str, dict[str, float]] = {}
        self._changed = asyncio.Event()

    def take(self, name: str, body: dict[str, Any]) -> None:
        """One event of the gateway."""
        if name in {"MESSAGE_CREATE", "MESSAGE_UPDATE"}:
            self.take_message(body)
        elif name == "MESSAGE_DELETE" and body["id"] in self._seen:
            self._seen[body["id"]].is_gone = True
        elif name == "MESSAGE_REACTION_ADD" and body["user_id"] == self._target:
            self.take_receipt(body["message_id"], body["emoji"]["name"])
        self._changed.set()

    def take_message(self, body: dict[str, Any]) -> None:
        """A message as it is now; others' are let pass."""
        if body.get("author", {}).get("id") != self._target or "content" not in body:
            return
        seen = self._seen.setdefault(body["id"], Seen(body["id"], body["channel_id"], self._now()))
        if not seen.contents or seen.contents[-1] != body["content"]:
            seen.contents.append(body["content"])
        self._changed.set()

    def take_receipt(self, message: str, emoji: str) -> None:
        """A reaction of the bot under test."""
        if emoji in _RECEIPTS:
            self._receipts.setdefault(message, {}).setdefault(emoji, self._now())
            self._changed.set()

    def take_history(self, channel: str, newest: list[dict[str, Any]]) -> None:
        """The newest messages of a channel, all without a gap, after a time in which nothing was heard."""
        for body in newest:
            self.take_message(body)
            for reaction in body.get("reactions", ()):
                self.take_receipt(body["id"], reaction["emoji"]["name"])
        standing = {body["id"] for body in newest}
        since = min(map(int, standing), default=0)
        for seen in self._seen.values():
            if seen.channel == channel and int(seen.message) >= since:
                seen.is_gone = seen.message not in standing

    async def until(self, probe: Callable[[], bool], seconds: float) -> bool:
        """Wait until that is so; False: it did not become so in time."""
        try:
            async with asyncio.timeout(seconds):
                while not probe():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def answers(self, probe: str) -> list[Seen]:
        """The messages that stand and answer this probe."""
        return [one for one in self._seen.values() if one.is_answer and probe in _heard(one)]

    def digests(self, probe: str) -> set[str]:
        """The digests of the texts in which the agent was given this probe."""
        said = (text for one in self._seen.values() for text in one.contents)
        return {found[1] for text in said for found in _HEARD.findall(text) if found[0] == probe}

    def nothings(self, channel: str) -> int:
        """How many prompts without a probe the agent was given in a channel."""
        here = (one for one in self._seen.values() if one.channel == channel)
        return sum(
            NOTHING in {found[0] for found in _HEARD.findall(one.contents[-1])} for one in here
        )

    def bundled(self) -> list[list[str]]:
        """The answers that answer several probes at once."""
        heard = (_heard(one) for one in self._seen.values() if one.is_answer)
        return [probes for probes in heard if len(probes) > 1]

    def receipts(self, message: str) -> set[str]:
        """Which receipts the bot ever put on a message."""
        return set(self._receipts.get(message, ()))

    def taken_at(self, probe: str, message: str) -> float | None:
        """By when the bot had taken a hand-off: it gave its receipt, or answered; None: neither yet."""
        receipt = self._receipts.get(message, {}).get(ACCEPTED)
        signs = [one.at for one in self._seen.values() if probe in _heard(one)]
        return min([*signs, *([] if receipt is None else [receipt])], default=None)

    @property
    def gives_receipts(self) -> bool:
        """Whether it gives any."""
        return bool(self._receipts)


def _heard(seen: Seen) -> list[str]:
    return [found[0] for found in _HEARD.findall(seen.contents[-1])]
