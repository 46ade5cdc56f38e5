"""The journal: numbers that never change, joined deltas, and its two limits."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.agents.host.journal import Journal, merged
from openab.agents.limits import Sizes
from openab.domain.agent_events import (
    AgentEvent,
    EndKind,
    Numbered,
    PromptEnded,
    SessionChanged,
    TextDelta,
    Thought,
    ToolChanged,
    ToolKind,
    ToolStatus,
)
from openab.domain.ids import Incarnation
from openab.ports.agent import PromptLost

END = PromptEnded(EndKind.COMPLETED, "end_turn")
EVENTS = st.one_of(
    st.builds(TextDelta, st.text(min_size=1), st.none() | st.sampled_from(["m1", "m2"])),
    st.builds(Thought, st.text(min_size=1)),
    st.builds(ToolChanged, st.sampled_from(["a", "b"]), st.none() | st.text()),
    st.builds(SessionChanged, st.just("mode")),
)


def a_journal(sizes: Sizes | None = None) -> Journal:
    journal = Journal(Incarnation("life"), sizes or Sizes())
    journal.begin()
    return journal


async def told(journal: Journal, after: int = 0) -> list[Numbered]:
    async with asyncio.timeout(5):
        return [numbered async for numbered in journal.read(after)]


def joined(events: list[AgentEvent]) -> list[AgentEvent]:
    """The events with neighbouring deltas of one kind and message joined: what must be kept."""
    whole: list[AgentEvent] = []
    for event in events:
        last = whole[-1] if whole else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            if event.message_id == last.message_id:
                whole[-1] = TextDelta(last.text + event.text, last.message_id)
                continue
        elif isinstance(event, Thought) and isinstance(last, Thought):
            whole[-1] = Thought(last.text + event.text)
            continue
        whole.append(event)
    return whole


@given(st.lists(EVENTS), st.sets(st.integers(0, 30)))
def test_nothing_is_lost_whenever_it_is_read(events: list[AgentEvent], stops: set[int]) -> None:
    async def play() -> None:
        journal = a_journal()
        seen: list[Numbered] = []
        reader = journal.read(0)
        for at, event in enumerate(events):
            journal.add(event)
            if at in stops:
                seen.append(await anext(reader))
        journal.add(END)
        seen += [numbered async for numbered in reader]
        assert joined([n.event for n in seen[:-1]]) == joined(events)
        assert await told(journal) == seen
        assert [n.position.n for n in seen] == list(range(1, len(seen) + 1))

    asyncio.run(play())


async def test_unread_pieces_become_one_and_read_ones_stay_as_they_were() -> None:
    journal = a_journal()
    reader = journal.read(0)
    journal.add(TextDelta("a"))
    assert (await anext(reader)).event == TextDelta("a")
    for piece in "bcd":
        journal.add(TextDelta(piece))
    journal.add(END)
    assert [n.event for n in await told(journal, 1)] == [TextDelta("bcd"), END]
    await reader.aclose()


async def test_another_message_or_kind_is_another_event() -> None:
    journal = a_journal()
    pieces: list[AgentEvent] = [
        TextDelta("a", "m1"),
        TextDelta("b", "m2"),
        Thought("c"),
        TextDelta("d", "m2"),
    ]
    for piece in pieces:
        journal.add(piece)
    journal.add(END)
    assert [n.event for n in await told(journal)] == [*pieces, END]


async def test_two_readers_see_the_same() -> None:
    journal = a_journal()
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(told(journal)) for _ in range(2)]
        for n in range(50):
            journal.add(TextDelta(str(n)))
            await asyncio.sleep(0)
        journal.add(END)
    assert readers[0].result() == readers[1].result()


async def test_a_further_step_counts_on() -> None:
    journal = a_journal()
    journal.add(END)
    assert not await told(journal, 1)
    journal.begin()
    journal.add(TextDelta("more"))
    journal.add(END)
    assert [n.position.n for n in await told(journal, 1)] == [2, 3]


async def test_after_the_end_nothing_is_taken() -> None:
    journal = a_journal()
    journal.add(END)
    journal.add(TextDelta("late"))
    assert [n.event for n in await told(journal)] == [END]


async def test_a_stopped_host_gives_no_end() -> None:
    journal = a_journal()
    journal.add(TextDelta("a"))
    journal.close()
    with pytest.raises(PromptLost):
        await told(journal)


async def test_tool_updates_collapse_and_text_does_not() -> None:
    journal = a_journal(Sizes(collapse=1000))
    journal.add(TextDelta("x" * 2000))
    for n in range(100):
        journal.add(ToolChanged("a", f"title {n}", ToolKind.EXECUTE if n == 0 else None))
    journal.add(ToolChanged("a", status=ToolStatus.COMPLETED))
    journal.add(END)
    assert [n.event for n in await told(journal)] == [
        TextDelta("x" * 2000),
        ToolChanged("a", "title 99", ToolKind.EXECUTE, ToolStatus.COMPLETED),
        END,
    ]


async def test_below_the_limit_every_tool_update_is_kept() -> None:
    journal = a_journal()
    for n in range(100):
        journal.add(ToolChanged("a", f"title {n}"))
    journal.add(END)
    assert len(await told(journal)) == 101


async def test_a_full_journal_says_so_and_still_takes_the_end() -> None:
    journal = a_journal(Sizes(journal=1000))
    assert journal.add(TextDelta("x" * 900))
    assert not journal.add(TextDelta("x" * 900))
    assert not journal.add(TextDelta("lost"))
    journal.add(END)
    events = [n.event for n in await told(journal)]
    assert events == [TextDelta("x" * 1800), END]


def test_merging_keeps_what_the_newer_one_leaves_open() -> None:
    older = ToolChanged("a", "make", ToolKind.EXECUTE, ToolStatus.PENDING)
    newer = ToolChanged("a", status=ToolStatus.FAILED)
    assert merged(older, newer) == ToolChanged("a", "make", ToolKind.EXECUTE, ToolStatus.FAILED)
