"""A running turn is visibly alive: told with a writer that records and a clock that jumps from timer to timer."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from openab.domain.agent_events import (
    EndKind,
    PermissionAsked,
    PermissionSettled,
    PromptEnded,
    TextDelta,
    ToolChanged,
    ToolStatus,
    UsageChanged,
)
from openab.domain.ids import (
    AccountId,
    ChannelName,
    ConversationRef,
    MessageRef,
    PlatformId,
    TurnId,
)
from openab.domain.outbound import MessageBody, is_presentation
from openab.ports.feed import FeedSource, Phase, Shown, TurnFeed, TurnOpening
from openab.ports.writer import EditOutcome
from openab.presentation.stream import PresentationSettings, Stream, Streams

THREAD = ConversationRef(ChannelName("discord"), AccountId("1"), PlatformId("100"))
INTERVAL, HEARTBEAT = 1.5, 20.0


class JumpingSelector(selectors.DefaultSelector):
    """Never blocks: waiting until a timer moves the clock there."""

    moment = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Jump to the next timer; without one the test would hang for ever."""
        assert timeout is not None, "everything waits and no timer runs"
        self.moment += max(0.0, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the selector's."""

    def __init__(self) -> None:
        self.jumping = JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        """The moment that was jumped to."""
        return self.jumping.moment


def play(story: Callable[[], Awaitable[None]]) -> None:
    """Run a story in jumping time; nothing but the story's own task may be left at its end."""

    async def whole() -> None:
        await story()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(whole())


def now() -> float:
    """The clock of the loop that runs."""
    return asyncio.get_running_loop().time()


async def until(moment: float) -> None:
    """Let the story go on at this moment."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    loop.call_at(moment, reached.set_result, None)
    await reached


@dataclass(frozen=True, slots=True)
class Edit:
    """One call of the writer."""

    at: float
    ref: MessageRef
    body: MessageBody


@dataclass
class RecordingWriter:
    """Shows every edit after `latency`, or answers by script; `hangs` never answers."""

    edits: list[Edit] = field(default_factory=list)
    outcomes: list[EditOutcome] = field(default_factory=list)
    latency: float = 0.1
    hangs: bool = False
    error: Exception | None = None

    async def edit(
        self, ref: MessageRef, body: MessageBody, given_up: asyncio.Event | None = None
    ) -> EditOutcome:
        self.edits.append(Edit(now(), ref, body))
        if self.error:
            raise self.error
        if self.hangs:
            await asyncio.Event().wait()
        await until(now() + self.latency)
        return self.outcomes.pop(0) if self.outcomes else EditOutcome.SHOWN

    @property
    def texts(self) -> list[str]:
        return [edit.body.content for edit in self.edits]


@dataclass
class Stage:
    """The plane with one writer for every conversation."""

    mode: str = "stream"
    edit_interval: float = INTERVAL
    writer: RecordingWriter = field(default_factory=RecordingWriter)
    reactions: list[tuple[float, str]] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = PresentationSettings(edit_interval=self.edit_interval, heartbeat=HEARTBEAT)
        self.streams = Streams(
            lambda _: self.writer,
            settings,
            clock=now,
            reaction=lambda _, emoji: self.reactions.append((now(), emoji)),
        )

    def open(self, turn: str = "t1", placeholder: str | None = "500") -> Stream:
        trigger = MessageRef(PlatformId("100"), PlatformId("99"))
        on_lost = lambda: self.lost.append(now())  # noqa: E731 - a listener
        stream = self.streams.open(
            TurnOpening(TurnId(turn), THREAD, trigger, "Sol", mode=self.mode, on_lost=on_lost)
        )
        stream.phase(Phase.WORKING)
        if placeholder:
            stream.placeholder(PlatformId(placeholder))
        return stream


def longest_gap(edits: list[Edit], start: float, stop: float) -> float:
    moments = [start, *(edit.at for edit in edits), stop]
    return max(later - earlier for earlier, later in pairwise(moments))


def test_the_plane_implements_the_feed_port() -> None:
    async def story() -> None:
        source: FeedSource = Stage().streams
        feed: TurnFeed = source.open(
            TurnOpening(TurnId("t"), THREAD, MessageRef(PlatformId("1"), PlatformId("2")), "Sol")
        )
        assert await feed.close(1) == Shown()

    play(story)


def test_text_is_shown_within_twice_the_interval_and_five_writes_in_five_seconds() -> None:
    async def story() -> None:
        stage = Stage()
        stream = stage.open()
        for n in range(600):
            stream.event(TextDelta(f" w{n}."))
            await until((n + 1) * 0.2)
        edits = stage.writer.edits
        for n in range(580):
            first = next(edit.at for edit in edits if f" w{n}." in edit.body.content)
            assert first - n * 0.2 <= 2 * INTERVAL
        times = [edit.at for edit in edits]
        assert all(later - first >= 5 for first, later in zip(times, times[5:], strict=False))
        await stream.close(1)

    play(story)


@pytest.mark.parametrize("mode", ["stream", "heartbeat"])
def test_without_text_the_status_moves_at_every_heartbeat(mode: str) -> None:
    async def story() -> None:
        stage = Stage(mode)
        stream = stage.open()
        stream.event(ToolChanged("1", "cargo test", status=ToolStatus.IN_PROGRESS))
        await until(4000)
        assert longest_gap(stage.writer.edits, 0, 4000) <= HEARTBEAT + INTERVAL
        assert all(earlier != later for earlier, later in pairwise(stage.writer.texts))
        assert len(stage.writer.edits) <= 4000 / HEARTBEAT + 2
        assert "running cargo test · quiet for 1h 06m" in stage.writer.texts[-1]
        await stream.close(1)

    play(story)


def test_every_edit_is_a_silent_presentation_message_with_a_stop_button() -> None:
    async def story() -> None:
        stage = Stage()
        stream = stage.open()
        stream.event(TextDelta("ask <@"))
        stream.event(TextDelta("42> and @everyone"))
        await until(3)
        (edit,) = stage.writer.edits
        assert edit.ref == MessageRef(PlatformId("100"), PlatformId("500"))
        assert edit.body.mention is None
        assert is_presentation(edit.body.content, silent=edit.body.silent)
        (button,) = edit.body.buttons
        assert (button.custom_id, button.label, button.style) == (
            "openab:stop:t1",
            "Stop",
            "danger",
        )
        assert "<\u200b@42> and @\u200beveryone" in edit.body.content
        await stream.close(1)

    play(story)


def test_one_edit_at_a_time_and_only_the_newest_state_is_shown() -> None:
    async def story() -> None:
        stage = Stage(writer=RecordingWriter(latency=6))
        stream = stage.open()
        for n in range(100):
            stream.event(TextDelta(f" w{n}."))
            await until((n + 1) * 0.1)
        first, second = stage.writer.edits
        assert second.at >= first.at + 6
        assert " w70." in second.body.content
        await stream.close(10)

    play(story)


def test_a_replaced_edit_is_made_up_for_by_the_newest_state() -> None:
    async def story() -> None:
        stage = Stage(writer=RecordingWriter(outcomes=[EditOutcome.REPLACED]))
        stream = stage.open()
        stream.event(TextDelta("hello"))
        await until(4)
        assert [text.split("\n")[-1] for text in stage.writer.texts] == ["hello", "hello"]
        await stream.close(1)

    play(story)


def test_a_text_that_is_shown_already_is_not_sent_again() -> None:
    async def story() -> None:
        stage = Stage(edit_interval=0.2)
        stream = stage.open()
        stream.event(TextDelta("hello"))
        await until(0.35)
        assert len(stage.writer.edits) == 1
        stream.phase(Phase.CANCELLING)
        stream.phase(Phase.WORKING)
        await until(0.9)
        assert len(stage.writer.edits) == 1
        await stream.close(1)

    play(story)


def test_usage_and_the_like_are_no_reason_to_edit() -> None:
    async def story() -> None:
        stage = Stage()
        stream = stage.open()
        await until(3)
        before = len(stage.writer.edits)
        stream.event(UsageChanged(1, 2))
        await until(10)
        assert len(stage.writer.edits) == before == 1
        await stream.close(1)

    play(story)


def test_the_status_tells_tool_permission_and_phase() -> None:
    async def story() -> None:
        stage = Stage()
        stream = stage.open()
        rm = ToolChanged("1", "rm -r build")
        told = []
        acts: list[Callable[[], None]] = [
            lambda: stream.event(rm),
            lambda: stream.event(PermissionAsked("p", rm, ())),
            lambda: stream.event(PermissionSettled("p", None)),
            lambda: stream.phase(Phase.WAITING_DISCORD, "until <t:5:T>"),
            lambda: stream.phase(Phase.QUEUED, "1"),
            lambda: stream.phase(Phase.CANCELLING, "Ann"),
        ]
        for step, act in enumerate(acts):
            act()
            await until((step + 1) * 4)
            told.append(stage.writer.texts[-1].split(" · ")[1])
        assert told == [
            "running rm -r build",
            "waiting for permission: rm -r build",
            "running rm -r build",
            "waiting for Discord until <t:5:T>",
            "queued behind 1",
            "cancelling for Ann",
        ]
        await stream.close(1)

    play(story)


def test_heartbeat_mode_shows_no_answer_and_final_mode_nothing() -> None:
    async def story() -> None:
        for mode in ("heartbeat", "final"):
            stage = Stage(mode)
            stream = stage.open()
            start = now()
            stream.event(ToolChanged("1", "ls"))
            stream.event(TextDelta("secret"))
            await until(start + 60)
            assert all("secret" not in text for text in stage.writer.texts)
            assert bool(stage.writer.edits) is (mode == "heartbeat")
            await stream.close(1)

    play(story)


def test_nothing_is_edited_before_the_placeholder_is_there_or_after_the_end() -> None:
    async def story() -> None:
        stage = Stage()
        stream = stage.open(placeholder=None)
        stream.event(TextDelta("early"))
        await until(5)
        assert stage.writer.edits == []
        stream.placeholder(PlatformId("500"))
        await until(8)
        assert [text.split("\n")[-1] for text in stage.writer.texts] == ["early"]
        stream.event(PromptEnded(EndKind.COMPLETED))
        await until(60)
        assert len(stage.writer.edits) == 1
        budget = stage.streams.budget
        assert budget.reserve(now()) == now(), "an ended turn goes on using the budget"
        assert await stream.close(1) == Shown()

    play(story)


def test_a_lost_placeholder_is_told_and_left_alone_until_there_is_another() -> None:
    async def story() -> None:
        stage = Stage(writer=RecordingWriter(outcomes=[EditOutcome.LOST]))
        stream = stage.open()
        stream.event(TextDelta("hello"))
        await until(100)
        assert len(stage.writer.edits) == len(stage.lost) == 1
        stream.placeholder(PlatformId("501"))
        await until(103)
        assert stage.writer.edits[-1].ref.message_id == "501"
        stage.writer.outcomes = [EditOutcome.LOST]
        stream.event(TextDelta("more"))
        await until(110)
        assert await stream.close(1) == Shown(placeholder_lost=True)
        assert await stream.close(1) == Shown(placeholder_lost=True)

    play(story)


def test_after_a_loss_the_next_placeholder_is_doubted_until_it_was_edited() -> None:
    async def story(*, edited: bool) -> Shown:
        stage = Stage(writer=RecordingWriter(outcomes=[EditOutcome.LOST]))
        stream = stage.open()
        stream.event(TextDelta("hello"))
        await until(5)
        stream.placeholder(PlatformId("501"))
        await until(10 if edited else 5.1)
        return await stream.close(1)

    for edited in (False, True):
        seen: list[Shown] = []

        async def told(edited: bool = edited, seen: list[Shown] = seen) -> None:
            seen.append(await story(edited=edited))

        play(told)
        assert seen == [Shown(placeholder_lost=not edited)]


def test_an_edit_of_a_placeholder_that_was_replaced_meanwhile_says_nothing_of_the_new_one() -> None:
    async def story() -> None:
        outcomes = [EditOutcome.LOST]
        stage = Stage(writer=RecordingWriter(outcomes=outcomes, latency=2))
        stream = stage.open()
        stream.event(TextDelta("hello"))
        await until(2)
        stream.placeholder(PlatformId("501"))
        await until(8)
        assert [edit.ref.message_id for edit in stage.writer.edits] == ["500", "501"]
        assert await stream.close(3) == Shown()

    play(story)


def test_a_turn_that_ends_while_its_edit_waits_for_a_slot_is_not_edited() -> None:
    async def story() -> None:
        stage = Stage()
        stage.streams.budget.rate = 0.5
        first, second = stage.open("t1", "501"), stage.open("t2", "502")
        for _ in range(10):
            stage.streams.budget.reserve(now())
        for stream in (first, second):
            stream.event(TextDelta("hello"))
        await until(4.5)
        first.event(PromptEnded(EndKind.COMPLETED))
        assert await second.close(1) == Shown()
        await until(60)
        assert stage.writer.edits == []
        await first.close(1)

    play(story)


def test_failing_edits_back_off_and_an_unknown_one_is_remembered() -> None:
    async def story() -> None:
        outcomes = [EditOutcome.LATER, EditOutcome.LATER, EditOutcome.UNKNOWN]
        stage = Stage(writer=RecordingWriter(outcomes=outcomes))
        stream = stage.open()
        stream.event(TextDelta("hello"))
        await until(60)
        gaps = [later.at - earlier.at for earlier, later in pairwise(stage.writer.edits)]
        assert gaps[:3] == pytest.approx([3.1, 6.1, 12.1])
        assert await stream.close(1) == Shown(edit_unknown=True)

    play(story)


def test_close_waits_for_the_edit_in_flight() -> None:
    async def story() -> None:
        stage = Stage(writer=RecordingWriter(latency=2))
        stream = stage.open()
        stream.event(TextDelta("hello"))
        await until(2)
        assert await stream.close(5) == Shown()
        assert now() == pytest.approx(3.5)

    play(story)


def test_close_gives_a_hanging_edit_up_at_its_deadline_and_says_so() -> None:
    async def story() -> None:
        stage = Stage(writer=RecordingWriter(hangs=True))
        stream = stage.open()
        stream.event(TextDelta("hello"))
        await until(2)
        assert await stream.close(5) == Shown(edit_unknown=True)
        assert now() == pytest.approx(7)
        stream.event(TextDelta("late"))

    play(story)


def test_a_defect_in_the_plane_never_reaches_the_turn() -> None:
    async def story() -> None:
        stage = Stage(writer=RecordingWriter(error=RuntimeError("defect")))
        stream = stage.open()
        stream.event(TextDelta("hello"))
        stream.event(TextDelta(5))  # type: ignore[arg-type]
        await until(30)
        stream.event(TextDelta("more"))
        await stream.close(1)

    play(story)


def test_three_hundred_turns_share_the_budget_fairly() -> None:
    async def story() -> None:
        stage = Stage(writer=RecordingWriter(latency=0.05))
        streams = [stage.open(f"t{n}", str(1000 + n)) for n in range(300)]
        for second in range(120):
            for stream in streams:
                stream.event(TextDelta(f" {second}"))
            await until(second + 1)
        edits = [edit for edit in stage.writer.edits if edit.at >= 15]
        assert len(edits) <= 40 * (120 - 15) + 10
        assert len(edits) >= 35 * (120 - 15)
        by_turn = [
            [edit.at for edit in edits if edit.ref.message_id == str(1000 + n)] for n in range(300)
        ]
        gaps = [later - earlier for times in by_turn for earlier, later in pairwise(times)]
        assert max(gaps) <= 2 * sum(gaps) / len(gaps)
        for start in range(15, 119):
            assert sum(start <= edit.at < start + 1 for edit in edits) <= 44
        await stage.streams.close(1)

    play(story)


def test_the_share_grows_again_when_turns_end() -> None:
    async def story() -> None:
        stage = Stage()
        streams = [stage.open(f"t{n}", str(1000 + n)) for n in range(200)]
        for stream in streams[1:]:
            await stream.close(1)
        start = now()
        for n in range(60):
            streams[0].event(TextDelta(f" {n}"))
            await until(start + (n + 1) * 0.5)
        assert len([edit for edit in stage.writer.edits if edit.at >= start]) >= 15
        await streams[0].close(1)

    play(story)


def test_reactions_follow_the_turn_debounced_and_leave_the_last_one_to_others() -> None:
    async def story() -> None:
        stage = Stage("final")
        stream = stage.open()
        await until(1)
        stream.event(ToolChanged("1", "bash ls"))
        await until(2)
        stream.event(ToolChanged("1", status=ToolStatus.COMPLETED))
        stream.event(ToolChanged("2", "web_search"))
        await until(2.5)
        stream.event(ToolChanged("2", status=ToolStatus.COMPLETED))
        await until(35)
        stream.event(TextDelta("back"))
        await until(36)
        stream.event(PromptEnded(EndKind.COMPLETED))
        await until(50)
        given = [emoji for _, emoji in stage.reactions]
        assert given == ["🤔", "👨‍💻", "🤔", "🥱", "😨", "🤔"]
        times = [at for at, _ in stage.reactions]
        assert times == pytest.approx([0, 1.7, 3.2, 13.2, 33.2, 35.7], abs=0.01)
        await stream.close(1)

    play(story)
