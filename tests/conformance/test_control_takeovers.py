"""Nothing is lost or prompted twice, between whichever two transactions a recovery is cut off."""

import asyncio
from functools import partial

import pytest

from openab.control import owner, persist
from openab.domain.ids import AcpSessionId
from openab.domain.message import InboundMessage
from openab.domain.outbound import is_presentation
from openab.domain.turn import TurnState
from openab.ports.agent import AgentSession, AgentSpec, Opened, Prompt
from openab.storage import conversations, sessions
from openab.storage.engine import CommitUnknown, Database, DatabaseUnavailable, Transaction
from openab.text import notices
from tests.builders import ACCOUNT, Offset, the_claim
from tests.conformance.control_stage import Stage, gone, on_stage
from tests.conformance.lives import ContinuingAgents, lives, recovering
from tests.fakes.channel import RecordingChannel

LINE = notices.went_on_after_restart()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persist, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(owner, "RETRY_SECONDS", 0.01)


class Breaker:
    """Breaks the nth commit of one database from now on; `is_done`: it happens all the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.breaks_at = 0
        self.is_done = False
        self.dies: Stage | None = None
        self.broken = asyncio.Event()
        original = Transaction.commit

        async def commit(tx: Transaction) -> None:
            self.count += 1
            if self.count != self.breaks_at:
                await original(tx)
                return
            if self.is_done:
                await original(tx)
            raise self._how()

        monkeypatch.setattr(Transaction, "commit", commit)

    def arm(self, nth: int, *, is_done: bool, dies: Stage | None = None) -> None:
        """Break the nth commit of a life that is about to start; with `dies` it writes nothing more."""
        # Before anything else the account's row is made sure of.
        self.count, self.breaks_at, self.is_done, self.dies = 0, nth + 1, is_done, dies
        self.broken.clear()

    def _how(self) -> Exception:
        self.broken.set()
        if self.dies is None:
            return CommitUnknown("the connection broke")
        self.dies.database.transaction = gone  # type: ignore[method-assign]
        self.dies.database.read = gone  # type: ignore[method-assign]
        return DatabaseUnavailable("this process is dead")


def breaks(address: str, last: int) -> list[tuple[int, bool]]:
    """Which commit breaks, and whether it happens all the same: one way here, the other way there.

    Connecting to PostgreSQL takes longer, so every second one has to do there.
    """
    if address.startswith("postgres"):
        return [(nth, True) for nth in range(2, last + 1, 2)]
    return [(nth, nth % 2 == 1) for nth in range(1, last + 1)]


async def test_a_kill_at_any_commit_of_a_recovery_costs_no_answer_and_doubles_none(
    migrated_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker, channel = Breaker(monkeypatch), RecordingChannel(account=ACCOUNT)
    settings = recovering("resume", 9)
    for nth, is_done in breaks(migrated_address, 7):
        async with lives(migrated_address, settings, channel) as all_lives:
            message = await all_lives.hanging(f"half {nth}")
            await all_lives.kill()
            stage = await all_lives.prepare(further=f"[[say=rest {nth}]]")
            breaker.arm(nth, is_done=is_done, dies=stage)
            await stage.start()
            await stage.until(partial(broken_or_over, breaker, stage, message))
            breaker.arm(-1, is_done=False)
            stage = await all_lives.again(further=f"[[say=rest {nth}]]")
            turn = await stage.settled(message, within=20)
            await stage.quiet()
            thread = message.message_id
            shown = [one for one in stage.channel.posted(thread) if not one.deleted]
        texts = [one.body.content for one in shown if one.author_id == stage.channel.account]
        assert turn.state is TurnState.DONE, nth
        assert len(texts) == 1, (nth, texts)
        assert not is_presentation(texts[0], silent=True), nth
        assert f"half {nth}" in texts[0], nth
        assert f"{LINE}\n\n" in texts[0], nth
        attempts = [one.attempt for life in all_lives.all for one in life.agents.prompts]
        assert attempts == sorted(set(attempts)), "each attempt was prompted once, in order"


async def broken_or_over(breaker: Breaker, stage: Stage, message: InboundMessage) -> bool:
    """Whether the commit was broken, or there were not so many until the turn had ended."""
    if breaker.broken.is_set():
        return True
    try:
        turn = await stage.turn_of(message)
    except DatabaseUnavailable:
        return True
    return turn is not None and turn.state is TurnState.DONE


async def test_a_commit_in_doubt_during_a_recovery_does_not(
    migrated_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker, channel = Breaker(monkeypatch), RecordingChannel(account=ACCOUNT)
    for nth, is_done in breaks(migrated_address, 5):
        async with lives(migrated_address, recovering("resume", 9), channel) as all_lives:
            message = await all_lives.hanging(f"half {nth}")
            await all_lives.kill()
            stage = await all_lives.prepare()
            breaker.arm(nth, is_done=is_done)
            Offset(stage.database).pass_by(60)
            await stage.start()
            turn = await stage.settled(message, within=20)
            await stage.quiet()
        assert turn.state is TurnState.DONE, nth
        prompts = [one.attempt for one in stage.agents.prompts]
        assert len(prompts) == 1, nth
        assert "you may know it already" in stage.agents.prompts[0].content[0].text


class SlowAgents(ContinuingAgents):
    """Agents of which a test can hold back an opening or a prompt."""

    def __init__(self, *args: str, **named: object) -> None:
        super().__init__(*args, **named)
        self.may_open, self.may_prompt = asyncio.Event(), asyncio.Event()
        self.opening, self.prompting = asyncio.Event(), asyncio.Event()
        self.may_open.set()
        self.may_prompt.set()

    async def open(
        self, session: AgentSession, spec: AgentSpec, acp_session_id: AcpSessionId | None
    ) -> Opened:
        opened = await super().open(session, spec, acp_session_id)
        self.opening.set()
        await self.may_open.wait()
        return opened

    async def prompt(self, session: AgentSession, prompt: Prompt) -> None:
        self.prompting.set()
        await self.may_prompt.wait()
        await super().prompt(session, prompt)


class TestALeaseThatIsTakenAgainInTheSameLife:
    async def test_gives_the_original_unchanged_where_it_was_never_written(
        self, database: Database
    ) -> None:
        agents = SlowAgents("fake-1")
        agents.may_open.clear()
        async with on_stage(database, recovering("fail"), agents=agents) as stage:
            message = stage.say("[[say=once]]")
            async with asyncio.timeout(10):
                await agents.opening.wait()
            async with taken_away(stage):
                await stage.quiet()
            agents.may_open.set()
            turn = await stage.settled(message)
        assert (turn.state, turn.attempt) == (TurnState.DONE, 1)
        (prompt,) = agents.prompts
        assert prompt.content[0].text.startswith("<sender_context>")
        assert "once" in stage.channel.shown(message.message_id)[0]

    async def test_goes_on_where_it_may_have_been_written(self, database: Database) -> None:
        async with on_stage(
            database, recovering("careful"), agents=ContinuingAgents("fake-1")
        ) as stage:
            message = stage.say("[[say=half]] [[hang]]")
            await stage.signals.wait("streams_committed")
            async with taken_away(stage):
                await stage.quiet()
            turn = await stage.settled(message)
        assert (turn.state, turn.attempt) == (TurnState.DONE, 2)
        assert [one.attempt for one in stage.agents.prompts] == [1, 2]
        assert turn.raw == "halfthe rest"


class taken_away:  # noqa: N801 - reads as a statement
    """Another worker claims the one conversation; it gives it back at the end of the block."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._clock = Offset(stage.database)

    async def __aenter__(self) -> None:
        self._clock.pass_by(30)
        _, self._ownership = await the_claim(self._stage.database, "another")
        for held in self._stage.dispatcher._held.values():
            held.owner.lose()

    async def __aexit__(self, *_: object) -> None:
        async with self._stage.database.transaction() as tx:
            await conversations.release(tx, self._ownership)


class TestAnAgentThatForgot:
    async def test_is_given_the_transcript_although_a_kill_came_between(
        self, migrated_address: str
    ) -> None:
        async with lives(migrated_address, recovering("careful")) as all_lives:
            first = all_lives.now.say("[[say=hello]]")
            await all_lives.now.settled(first)
            await all_lives.now.quiet()
            await all_lives.kill()
            all_lives.memory.clear()
            slow = SlowAgents("slow", memory=all_lives.memory)
            slow.may_prompt.clear()
            await all_lives.begin(agents=slow)
            second = all_lives.now.say("[[say=again]]", thread=first.message_id, mention=False)
            async with asyncio.timeout(10):
                await slow.prompting.wait()
            stage = await all_lives.again(further="[[say=known]]")
            await stage.settled(second)
            third = stage.say("[[say=more]]", thread=first.message_id, mention=False)
            await stage.settled(third)
            key = (await all_lives.turn(third)).session_key
            async with stage.database.read() as tx:
                session = await sessions.get(tx, key)
            told, later = stage.agents.prompts
            shown = stage.channel.shown(first.message_id)
        assert "This is its transcript" in told.content[0].text
        assert "hello" in told.content[0].text
        assert "This is its transcript" not in later.content[0].text
        assert session is not None
        assert not session.context_owed
        assert sum(notices.context_lost() in text for text in shown) == 1
