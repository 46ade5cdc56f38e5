"""A turn whose broker died goes on, is asked about, or ends: each verdict, from the rows alone."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from openab.control import owner, persist
from openab.control.settings import PoolSettings
from openab.domain.delivery import Purpose
from openab.domain.message import CommandKind
from openab.domain.outbound import is_presentation
from openab.domain.turn import TurnState
from openab.ports.feed import Phase
from openab.storage import conversations, turns
from openab.storage.schema import deliveries
from openab.text import notices
from tests.builders import ACCOUNT, ASKER, Offset, an_author
from tests.conformance.control_stage import Stage
from tests.conformance.lives import lives, recovering

LINE = notices.went_on_after_restart()
PUBLISH = "execute:cargo publish"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persist, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(owner, "RETRY_SECONDS", 0.01)


def finals(stage: Stage, thread: str) -> list[str]:
    """Our answers that stand in a thread now."""
    return [text for text in ours(stage, thread) if not is_presentation(text, silent=True)]


def ours(stage: Stage, thread: str) -> list[str]:
    """All our messages that stand in a thread now."""
    posted = stage.channel.posted(thread)
    texts = [one.body.content for one in posted if one.author_id == stage.channel.account]
    return [text.removeprefix(f"<@{ASKER}>\n") for text in texts]


class TestATurnThatOnlySpoke:
    async def test_goes_on_by_itself_in_the_same_placeholder(self, migrated_address: str) -> None:
        async with lives(migrated_address, recovering("careful")) as all_lives:
            message = await all_lives.hanging("half of it")
            placeholder = all_lives.now.feeds.opened[-1].placeholders[-1]
            stage = await all_lives.again()
            turn = await stage.settled(message)
            await stage.quiet()
            feed, prompts = stage.feeds.opened[-1], stage.agents.prompts
            known = await all_lives.recoveries(message)
        assert (turn.state, turn.attempt) == (TurnState.DONE, 2)
        assert finals(stage, message.message_id) == [f"half of it\n\n{LINE}\n\nthe rest"]
        assert ours(stage, message.message_id) == finals(stage, message.message_id)
        assert turn.raw == "half of itthe rest"
        assert feed.placeholders == [placeholder]
        assert feed.phases[:2] == [Phase.RECOVERING, Phase.WORKING]
        assert feed.opening.said == f"half of it\n\n{LINE}"
        assert [(one.attempt, one.step) for one in prompts] == [(2, 1)]
        assert [line["reason"] for line in known] == ["only_reading"]
        assert (known[0]["attempt"], known[0]["policy"]) == (1, "careful")
        assert stage.channel.message(message.message_id).reactions == {"🆗"}

    async def test_has_its_request_told_once_more_in_full(self, migrated_address: str) -> None:
        async with lives(migrated_address, recovering("careful")) as all_lives:
            message = await all_lives.hanging("half", "read:a.txt")
            stage = await all_lives.again()
            await stage.settled(message)
            first, again = all_lives.all[0].agents.prompts, stage.agents.prompts
        assert again[0].content[1:] == first[0].content
        assert "- read: a.txt (interrupted)" in again[0].content[0].text
        assert "you may know it already" in again[0].content[0].text

    async def test_goes_on_in_a_new_placeholder_where_the_old_one_is_gone(
        self, migrated_address: str
    ) -> None:
        async with lives(migrated_address, recovering("resume")) as all_lives:
            message = await all_lives.hanging("half")
            turn = await all_lives.turn(message)
            await all_lives.kill()
            async with all_lives.elsewhere() as tx:
                await tx.execute(
                    sa.update(deliveries)
                    .where(deliveries.c.turn_id == turn.id, deliveries.c.purpose == "placeholder")
                    .values(is_gone=True)
                )
            stage = await all_lives.begin(further="[[say=more]] [[hang]]")
            await stage.until(lambda: shown(stage))
            rows = await stage.rows(turn.id)
            await stage.press(message.message_id)
            await stage.settled(message)
        versions = [row.version for row in rows if row.purpose is Purpose.PLACEHOLDER]
        assert versions == [1, 2]

    async def test_in_mode_final_has_no_placeholder_in_any_life(
        self, migrated_address: str
    ) -> None:
        settings = recovering("careful", mode=lambda _ref, _bots: "final")
        async with lives(migrated_address, settings) as all_lives:
            message = all_lives.now.say("[[say=half]] [[hang]]")
            await all_lives.now.signals.wait("streams_committed")
            stage = await all_lives.again()
            turn = await stage.settled(message)
            rows = await stage.rows(turn.id)
        assert not [row for row in rows if row.purpose is Purpose.PLACEHOLDER]
        assert finals(stage, message.message_id) == [f"half\n\n{LINE}\n\nthe rest"]

    async def test_loses_its_placeholder_where_nothing_is_shown_any_more(
        self, migrated_address: str
    ) -> None:
        async with lives(migrated_address, recovering("careful")) as all_lives:
            message = await all_lives.hanging("half")
            await all_lives.kill()
            silent = recovering("careful", mode=lambda _ref, _bots: "final")
            stage = await all_lives.begin(silent, further="[[say=more]] [[hang]]")
            await stage.until(lambda: nothing_of(stage, message.message_id))
            await stage.press(message.message_id)
            await stage.settled(message)


async def shown(stage: Stage) -> bool:
    """Whether the present run has a placeholder on the network."""
    return bool(stage.feeds.opened and stage.feeds.opened[-1].placeholders)


async def nothing_of(stage: Stage, thread: str) -> bool:
    """Whether nothing of ours stands in a thread while a run goes on there."""
    return bool(stage.feeds.opened) and not ours(stage, thread)


class TestATurnWithAnUnfinishedCall:
    async def test_asks_and_goes_on_when_it_is_told_to(self, migrated_address: str) -> None:
        async with lives(migrated_address, recovering("careful")) as all_lives:
            message = await all_lives.hanging("half", PUBLISH)
            stage = await all_lives.again()
            thread = message.message_id
            question = await asked(stage, thread)
            later = stage.say("[[say=later]]", thread=thread, mention=False)
            turn = await all_lives.turn(message)
            assert turn.state is TurnState.RUNNING
            assert not stage.agents.prompts
            told = [await self.go_on(stage, turn.id, thread, str(n)) for n in (1, 2)]
            stranger = an_author("77")
            turn = await stage.settled(message)
            await stage.settled(later)
            closed = await stage.press(
                thread, f"{turn.id}:1", kind=CommandKind.CONTINUE, author=stranger, interaction="3"
            )
            await stage.quiet()
        assert "`cargo publish`" in question
        assert told[0] == notices.going_on()
        assert closed == notices.nothing_to_continue()
        assert len([one for one in stage.agents.prompts if one.turn == turn.id]) == 1
        assert finals(stage, thread) == [
            f"✂️ `cargo publish` (interrupted)\n\nhalf\n\n{LINE}\n\nthe rest",
            "later",
        ]
        assert ours(stage, thread) == finals(stage, thread)

    async def go_on(self, stage: Stage, turn: str, thread: str, interaction: str) -> str:
        argument = f"{turn}:1"
        kind = CommandKind.CONTINUE
        return await stage.press(thread, argument, kind=kind, interaction=interaction)

    async def test_is_answered_only_by_who_asked_and_stays_asked_over_another_kill(
        self, migrated_address: str
    ) -> None:
        async with lives(migrated_address, recovering("ask")) as all_lives:
            message = await all_lives.hanging("half")
            thread = message.message_id
            await asked(await all_lives.again(), thread)
            stage = await all_lives.again()
            await asked(stage, thread)
            refused = await stage.press(
                thread, kind=CommandKind.CONTINUE, author=an_author("77"), interaction="1"
            )
            stage.say("!continue", thread=thread)
            turn = await stage.settled(message)
            known = await all_lives.recoveries(message)
        assert refused == notices.not_yours_to_continue(turn.requester_name)
        assert [line["verdict"] for line in known] == ["ask", "continue"]
        assert [line["reason"] for line in known] == ["policy", "told_to"]
        assert finals(stage, thread) == [f"half\n\n{LINE}\n\nthe rest"]

    async def test_goes_on_in_a_later_life_when_it_was_answered_before(
        self, migrated_address: str
    ) -> None:
        async with lives(migrated_address, recovering("ask")) as all_lives:
            message = await all_lives.hanging("half")
            await asked(await all_lives.again(), message.message_id)
            turn = await all_lives.turn(message)
            await all_lives.kill()
            async with all_lives.elsewhere() as tx:
                assert await turns.go_on(tx, turn, "Ann")
                assert not await turns.go_on(tx, turn, "Bob")
            stage = await all_lives.begin()
            turn = await stage.settled(message)
            await stage.quiet()
        assert turn.state is TurnState.DONE
        assert ours(stage, message.message_id) == [f"half\n\n{LINE}\n\nthe rest"]

    async def test_ends_cancelled_when_it_is_stopped(self, migrated_address: str) -> None:
        async with lives(migrated_address, recovering("careful")) as all_lives:
            message = await all_lives.hanging("half", PUBLISH)
            stage = await all_lives.again()
            await asked(stage, message.message_id)
            turn = await all_lives.turn(message)
            await stage.press(message.message_id, turn.id)
            turn = await stage.settled(message)
            await stage.quiet()
        assert turn.state is TurnState.CANCELLED
        (text,) = ours(stage, message.message_id)
        assert "half" in text
        assert "Cancelled by" in text
        assert not stage.agents.prompts

    async def test_that_nobody_answers_for_a_day_ends_interrupted(
        self, migrated_address: str
    ) -> None:
        async with lives(migrated_address, recovering("careful")) as all_lives:
            message = await all_lives.hanging("half", PUBLISH)
            stage = await all_lives.again()
            await asked(stage, message.message_id)
            await stage.quiet()
            clock = Offset(stage.database)
            clock.pass_by(timedelta(hours=23).total_seconds())
            assert not await is_any_work(stage)
            clock.pass_by(timedelta(hours=2).total_seconds())
            turn = await stage.settled(message)
            await stage.quiet()
        assert turn.state is TurnState.INTERRUPTED
        (text,) = ours(stage, message.message_id)
        assert text.startswith(notices.nobody_said_to_go_on(24))
        assert "half" in text


async def is_any_work(stage: Stage) -> bool:
    """Whether any conversation would be claimed now."""
    async with stage.database.read() as tx:
        return await conversations.is_any_claimable(tx, [ACCOUNT], stage.settings.call)


async def asked(stage: Stage, thread: str) -> str:
    """Wait until the question stands alone in the thread, with its buttons; returns its text."""

    async def is_asked() -> bool:
        return len(ours(stage, thread)) == 1 and "Is the agent to go on?" in ours(stage, thread)[0]

    await stage.until(is_asked)
    (posted,) = [one for one in stage.channel.posted(thread) if "go on?" in one.body.content]
    assert [button.label for button in posted.body.buttons] == ["Continue", "Stop"]
    return posted.body.content


class TestAttempts:
    async def test_a_poison_message_ends_in_one_visible_failure(
        self, migrated_address: str
    ) -> None:
        async with lives(migrated_address, recovering("resume")) as all_lives:
            message = await all_lives.hanging("one half")
            await all_lives.again(further="[[say=two]] [[hang]]")
            await all_lives.is_stored("two")
            stage = await all_lives.again()
            turn = await stage.settled(message)
            await stage.quiet()
            after = await all_lives.again()
            await after.quiet()
            prompts = [one.attempt for life in all_lives.all for one in life.agents.prompts]
        assert turn.state is TurnState.FAILED
        (text,) = ours(after, message.message_id)
        assert text.startswith(f"⚠️ {notices.given_up(2)}")
        assert text.endswith(f"one half\n\n{LINE}\n\ntwo")
        assert prompts == [1, 2]

    async def test_an_orderly_stop_counts_as_none(self, migrated_address: str) -> None:
        async with lives(migrated_address, recovering("resume")) as all_lives:
            message = await all_lives.hanging("one half")
            for said in ("more", "and more"):
                await all_lives.now.stop()
                await all_lives.begin(further=f"[[say={said}]] [[hang]]")
                await all_lives.is_stored(said)
            turn = await all_lives.turn(message)
            stage = await all_lives.again()
            ended = await stage.settled(message)
        assert (turn.attempt, turn.orderly_stops, turn.counted_attempts) == (3, 2, 1)
        assert ended.state is TurnState.DONE
        assert ended.raw == "one halfmoreand morethe rest"

    async def test_a_wish_to_cancel_ends_it_whatever_the_policy(
        self, migrated_address: str
    ) -> None:
        async with lives(migrated_address, recovering("resume")) as all_lives:
            message = await all_lives.hanging("half")
            turn = await all_lives.turn(message)
            await all_lives.kill()
            async with all_lives.elsewhere() as tx:
                assert await turns.request_cancel(tx, turn.id, "Ann")
            stage = await all_lives.begin()
            turn = await stage.settled(message)
        assert turn.state is TurnState.CANCELLED
        assert not stage.agents.prompts


class TestMoreTurnsThanPlaces:
    async def test_go_on_one_after_the_other(self, migrated_address: str) -> None:
        settings = recovering("careful", pool=PoolSettings(max_sessions=2))
        async with lives(migrated_address, settings) as all_lives:
            messages = [await all_lives.hanging(f"{n} half") for n in range(2)]
            await all_lives.kill()
            small = recovering("careful", pool=PoolSettings(max_sessions=1))
            stage = await all_lives.begin(small)
            ended = [await stage.settled(message) for message in messages]
        assert [turn.state for turn in ended] == [TurnState.DONE] * 2
        for message in messages:
            assert finals(stage, message.message_id)[0].endswith(f"{LINE}\n\nthe rest")
