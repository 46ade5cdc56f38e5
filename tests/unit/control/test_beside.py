"""A long step and what is done beside it."""

import asyncio

import pytest

from openab.control.beside import beside
from openab.domain.errors import Transient
from openab.ports.tasks import spawn


class Long:
    """A step that ends when it is told to."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.was_cut_off = True

    async def step(self) -> str:
        await self.may_end.wait()
        self.was_cut_off = False
        return "done"


async def test_what_comes_meanwhile_is_seen_to_before_the_step_ends() -> None:
    long, woken, seen = Long(), asyncio.Event(), []

    async def meanwhile() -> None:
        seen.append(long.was_cut_off)
        long.may_end.set()

    woken.set()
    assert await beside("long", long.step(), woken, meanwhile) == ("done", True)
    assert (seen, woken.is_set()) == ([True], False)


async def test_where_nobody_comes_it_is_just_the_step() -> None:
    long = Long()
    long.may_end.set()

    async def meanwhile() -> None:
        raise AssertionError

    assert await beside("long", long.step(), asyncio.Event(), meanwhile) == ("done", False)


async def test_an_error_beside_it_comes_out_when_the_step_has_ended() -> None:
    long, woken = Long(), asyncio.Event()

    async def meanwhile() -> None:
        asyncio.get_running_loop().call_soon(long.may_end.set)
        raise Transient("away")

    woken.set()
    with pytest.raises(Transient):
        await beside("long", long.step(), woken, meanwhile)
    assert not long.was_cut_off


async def test_an_error_of_the_step_comes_out() -> None:
    async def broken() -> None:
        raise Transient("away")

    async def meanwhile() -> None:
        raise AssertionError

    with pytest.raises(Transient):
        await beside("broken", broken(), asyncio.Event(), meanwhile)


async def test_whoever_is_cancelled_ends_even_if_the_step_ends_with_an_error() -> None:
    begun = asyncio.Event()

    async def fails_at_its_end() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise Transient("the database is away")

    async def meanwhile() -> None:
        raise AssertionError

    going = spawn("owner", beside("long", fails_at_its_end(), asyncio.Event(), meanwhile))
    await begun.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
