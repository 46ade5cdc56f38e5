"""A token that Discord takes no longer ends the process; another 401 does not."""

import asyncio

import pytest

from openab.app.token_watch import TokenWatch
from openab.channels.discord.rest import TokenRefused
from openab.domain.errors import Transient
from openab.ports.tasks import end, spawn


class Asked:
    """Answers the check by script."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.times = 0
        self.was_asked = asyncio.Event()

    async def check(self) -> None:
        self.times += 1
        self.was_asked.set()
        answer = self.answers.pop(0) if self.answers else None
        if answer:
            raise answer


async def test_a_refused_token_is_raised() -> None:
    watch, asked = TokenWatch(0), Asked(TokenRefused("401"))
    watch.invalid(401)
    async with asyncio.timeout(2):
        with pytest.raises(TokenRefused):
            await watch.run(asked.check)


async def test_doubt_is_asked_again() -> None:
    watch, asked = TokenWatch(0), Asked(Transient("away"), TokenRefused("401"))
    watch.invalid(401)
    async with asyncio.timeout(2):
        with pytest.raises(TokenRefused):
            await watch.run(asked.check)
    assert asked.times == 2


async def test_a_401_of_something_else_ends_nothing_and_other_answers_ask_nothing() -> None:
    watch, asked = TokenWatch(0), Asked()
    task = spawn("token watch", watch.run(asked.check))
    watch.invalid(403)
    watch.invalid(429)
    await asyncio.sleep(0)  # the watch gets its turn; it must not ask
    assert asked.times == 0
    watch.invalid(401)
    async with asyncio.timeout(2):
        await asked.was_asked.wait()
    assert not task.done()
    await end(task)
