"""Which threads are joined: the newest first, once, and never without end."""

import asyncio
from typing import Any

from openab.channels.discord.joining import Joiner
from openab.domain.ids import AccountId, PlatformId
from openab.ports.tasks import end, spawn

US = AccountId("900")


class Rest:
    """Notes which threads are joined."""

    def __init__(self) -> None:
        self.joined: asyncio.Queue[str] = asyncio.Queue()

    async def call(self, route: Any, *, seconds: float) -> None:
        assert route.method == "PUT"
        assert seconds > 0
        self.joined.put_nowait(route.url.split("/channels/")[1].split("/")[0])


def a_thread(number: int, **changes: object) -> dict[str, object]:
    return {"id": str(number), "parent_id": "77", "owner_id": "31", **changes}


async def joined(
    count: int, *seen: list[dict[str, object]], members: tuple[str, ...] = ()
) -> list[str]:
    rest = Rest()
    joiner = Joiner(rest, US, _listed, pause_seconds=0)  # type: ignore[arg-type]
    for threads in seen:
        joiner.see(threads, [{"id": one} for one in members])
    # The last one shows that nothing else comes.
    joiner.see([a_thread(1)])
    task = spawn("joiner", joiner.run())
    try:
        async with asyncio.timeout(5):
            return [await rest.joined.get() for _ in range(count + 1)][:-1]
    finally:
        await end(task)
        assert rest.joined.empty()


def _listed(_thread: PlatformId, parent: PlatformId | None) -> bool:
    return parent == "77"


async def test_the_newest_first_and_each_once() -> None:
    threads = [a_thread(number) for number in (5, 7, 6)]
    assert await joined(3, threads, threads) == ["7", "6", "5"]


async def test_only_what_we_listen_in_and_are_no_members_of() -> None:
    threads = [
        a_thread(10, parent_id="78"),
        a_thread(11, owner_id=US),
        a_thread(12, member={"id": "12"}),
        a_thread(13),
        a_thread(14, thread_metadata={"archived": True}),
        a_thread(15),
    ]
    assert await joined(1, threads, members=("13",)) == ["15"]


async def test_a_thread_that_comes_out_of_the_archive_is_joined_then() -> None:
    archived = a_thread(14, thread_metadata={"archived": True})
    assert await joined(1, [archived], [a_thread(14)]) == ["14"]


async def test_a_flood_is_bounded() -> None:
    rest = Rest()
    joiner = Joiner(rest, US, _listed, pause_seconds=0)  # type: ignore[arg-type]
    joiner.see([a_thread(number) for number in range(1, 1001)])
    task = spawn("joiner", joiner.run())
    try:
        async with asyncio.timeout(5):
            first = [await rest.joined.get() for _ in range(200)]
    finally:
        await end(task)
    assert (first[0], first[-1]) == ("1000", "801")
    assert rest.joined.empty()
