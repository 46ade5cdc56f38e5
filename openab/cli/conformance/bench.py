"""The tester at work: threads of its own, hand-offs at a pace that is allowed, fences, claims."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from openab.cli.conformance.envelopes import Draft, Setting, envelope, new_probe
from openab.cli.conformance.rest import RefusedByDiscord, Rest
from openab.cli.conformance.sightings import REFUSED, Watch

#: A source is heard ten times in a minute; one is kept back.
MOST_IN_WINDOW = 9
WINDOW_SECONDS = 61.0
_PUBLIC_THREAD, _THREAD_CREATED = 11, 18

Check = Callable[[], str]


class Verdict(StrEnum):
    """What is said of a rule."""

    PASS = "pass"
    FAIL = "fail"
    NOT_TESTABLE = "not testable"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    rule: str
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """The clock by which limits are kept, how it is waited for, and the time for expiries."""

    now: Callable[[], float]
    wait: Callable[[float], Awaitable[None]]
    #: Unix seconds.
    wall: Callable[[], float]


@dataclass(slots=True)
class Claim:
    """What has to be true at the end, when everything has been seen; an empty reason means that it is."""

    rule: str
    check: Check
    #: Why nothing can be said; empty: something can.
    unfounded: str = ""

    def judged(self) -> Row:
        """Judge it by what has been seen up to now."""
        wrong = self.check()
        if wrong:
            return Row(self.rule, Verdict.FAIL, wrong)
        if self.unfounded:
            return Row(self.rule, Verdict.NOT_TESTABLE, self.unfounded)
        return Row(self.rule, Verdict.PASS)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the tester posted."""

    draft: Draft
    message: str
    thread: str
    #: When, by the pace's clock.
    at: float


@dataclass(frozen=True, slots=True)
class Tried:
    """A message, and what has to be true of it."""

    sent: Sent
    check: Check


@dataclass
class Bench:
    """What the trials work with, and what they note."""

    rest: Rest
    watch: Watch
    tester: str
    target: str
    #: The channel in which the threads are opened.
    channel: str
    pace: Pace
    patience: float
    tell: Callable[[str], None]
    claims: list[Claim] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)
    accepted: list[Tried] = field(default_factory=list)
    refused: list[Tried] = field(default_factory=list)
    #: What only looks like a hand-off, and gets no receipt.
    strays: list[Tried] = field(default_factory=list)
    #: Whether ordinary mentions are answered, once that is known.
    takes_mentions: bool = False

    def setting(self, thread: str) -> Setting:
        """Who, where, now."""
        return Setting(self.tester, self.target, thread, self.channel, int(self.pace.wall()))

    async def open_thread(self, name: str) -> str:
        """A thread in which the bot under test is."""
        made = await self.rest.call(
            "POST",
            f"/channels/{self.channel}/threads",
            {"name": name, "type": _PUBLIC_THREAD, "auto_archive_duration": 60},
        )
        thread = str(made["id"])
        self.threads.append(thread)
        await self.rest.call("PUT", f"/channels/{thread}/thread-members/{self.target}")
        return thread

    async def post(self, thread: str, draft: Draft, *, has_no_text: bool = False) -> Sent:
        """Post what must not be accepted."""
        sent = await self.send(thread, draft)
        self.refused.append(Tried(sent, self.passed_over(sent, has_no_text=has_no_text)))
        return sent

    async def repeat(self, thread: str, first: Sent) -> None:
        """Post once more what was accepted; it must not be accepted again."""
        sent = await self.send(thread, first.draft)
        self.refused.append(Tried(sent, self.answered_once(first)))

    async def submit(self, thread: str, draft: Draft) -> Sent:
        """Post what must be accepted, as soon as the limit allows it."""
        await self.room()
        sent = await self.send(thread, draft)
        self.accepted.append(Tried(sent, self.answered_once(sent)))
        return sent

    async def send(self, thread: str, draft: Draft) -> Sent:
        """Post it, whatever comes of it."""
        at = self.pace.now()
        return Sent(draft, await self.say(thread, draft.content), thread, at)

    async def say(self, thread: str, text: str) -> str:
        """Post anything else; the message's id."""
        return await self.rest.post_message(thread, text, self.target)

    async def fence(self, thread: str) -> str:
        """A right hand-off whose answer shows that what stands before it was passed over, or why not."""
        sent = await self.submit(thread, envelope(self.setting(thread)))
        return "" if await self.is_answered(sent) else "no later hand-off was answered"

    async def is_answered(self, sent: Sent) -> bool:
        """Wait for the answer; a refusal that is seen ends the wait."""
        return await self.is_heard(sent.draft.probe, sent.message)

    async def is_heard(self, probe: str, message: str) -> bool:
        """The same of any message."""

        def is_settled() -> bool:
            is_refused = REFUSED in self.watch.receipts(message)
            return is_refused or bool(self.watch.answers(probe))

        await self.watch.until(is_settled, self.patience)
        return bool(self.watch.answers(probe))

    async def try_mention(self, thread: str) -> bool:
        """Whether an ordinary message that mentions the bot is answered."""
        probe = new_probe()
        message = await self.say(thread, f"<@{self.target}> {probe}")
        self.takes_mentions = await self.is_heard(probe, message)
        return self.takes_mentions

    async def room(self) -> None:
        """Wait until another hand-off is within the limit: before one is written whose life is short."""
        await self._until_fewer(MOST_IN_WINDOW)

    async def empty_window(self) -> None:
        """Wait until nothing of ours counts against the limit any more."""
        await self._until_fewer(1)

    async def _until_fewer(self, count: int) -> None:
        while len(counting := self._counting()) >= count:
            await self.pace.wait(max(0.1, counting[-count] + WINDOW_SECONDS - self.pace.now()))

    def _counting(self) -> list[float]:
        """When the hand-offs of this minute were taken, with those that were accepted by mistake."""
        since = self.pace.now() - WINDOW_SECONDS
        mistaken = [one for one in (*self.refused, *self.strays) if one.check()]
        moments = map(self._taken_at, (*self.accepted, *mistaken))
        return sorted(moment for moment in moments if moment > since)

    def _taken_at(self, tried: Tried) -> float:
        """A bot counts from its decision, which comes some time after the message."""
        sent = tried.sent
        seen = self.watch.taken_at(sent.draft.probe, sent.message)
        return sent.at if seen is None else max(sent.at, seen)

    def claim(self, rule: str, check: Check, unfounded: str = "") -> None:
        """Note what has to be true at the end."""
        self.claims.append(Claim(rule, check, unfounded))

    def answered_once(self, sent: Sent) -> Check:
        """It was given to the agent byte for byte, and answered by one message."""

        def check() -> str:
            answers = self.watch.answers(sent.draft.probe)
            if not answers:
                is_refused = REFUSED in self.watch.receipts(sent.message)
                return f"{REFUSED}: it was refused" if is_refused else "it was not answered"
            if len(answers) > 1:
                return f"{len(answers)} answers"
            told = self.watch.digests(sent.draft.probe)
            return "" if told == {sent.draft.digest} else "the agent was given another text"

        return check

    def passed_over(self, sent: Sent, *, has_no_text: bool = False) -> Check:
        """It started no turn."""

        def check() -> str:
            is_heard = bool(self.watch.digests(sent.draft.probe))
            if has_no_text:
                is_heard = is_heard or self.watch.nothings(sent.thread) > 0
            return f"message {sent.message} started a turn" if is_heard else ""

        return check

    def no_handoff(self, probe: str, payload: str, message: str) -> Check:
        """It may be an ordinary message, but what it quotes was neither taken nor receipted as a hand-off."""

        def check() -> str:
            if payload in self.watch.digests(probe):
                return f"message {message} was taken for a hand-off"
            return self.without_receipt(message)()

        return check

    def without_receipt(self, message: str) -> Check:
        """Neither 📥 nor ⛔ was put on it."""

        def check() -> str:
            found = " ".join(sorted(self.watch.receipts(message)))
            return f"{found} stands on message {message}" if found else ""

        return check

    async def clean_up(self) -> bool:
        """Delete the threads, or archive them where that is not allowed; whether all are deleted."""
        is_all = all([await self._remove(thread) for thread in self.threads])
        for message in await self.rest.get(f"/channels/{self.channel}/messages?limit=100"):
            # That a thread was opened stands in the channel, as a message of ours.
            opened = (message.get("message_reference") or {}).get("channel_id")
            if message["type"] == _THREAD_CREATED and opened in self.threads:
                path = f"/channels/{self.channel}/messages/{message['id']}"
                await self.rest.call("DELETE", path)
        return is_all

    async def _remove(self, thread: str) -> bool:
        try:
            await self.rest.call("DELETE", f"/channels/{thread}")
        except RefusedByDiscord:
            await self.rest.call("PATCH", f"/channels/{thread}", {"archived": True})
            return False
        return True
