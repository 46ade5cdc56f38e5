"""What people do in the laboratory: short stories that go on whatever happens to the broker meanwhile."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.lab.laboratory import Laboratory

Story = Callable[[Laboratory], Awaitable[None]]


async def short(lab: Laboratory) -> None:
    """A question with a short answer."""
    await lab.ended(await lab.mention(12, before="[[tool=read:a file:0.05]]"))


async def parts(lab: Laboratory) -> None:
    """An answer of two messages, behind a tool that only looks."""
    await lab.ended(await lab.mention(330, before="[[think=hm]][[tool=search:much:0.1]]"))


async def batch(lab: Laboratory) -> None:
    """Two questions more while the first is answered."""
    first = await lab.mention(40, delay=0.15)
    await lab.shows(first.id, ".1 ")
    await lab.say(first.id, 12)
    await lab.ended(await lab.say(first.id, 12))


async def cancel(lab: Laboratory) -> None:
    """The person stops it half-way."""
    first = await lab.mention(60, delay=0.4)
    await lab.shows(first.id, ".1 ")
    await lab.command(first.id, "cancel")
    await lab.ended(first)


async def cancel_all(lab: Laboratory) -> None:
    """Stops what runs and what waits, by text."""
    first = await lab.mention(60, delay=0.3)
    await lab.shows(first.id, ".1 ")
    second = await lab.say(first.id, 12)
    await lab.shows(first.id, "Queued behind")
    await lab.command(first.id, "cancel-all")
    await lab.ended(second)
    await lab.ended(first)


async def reset(lab: Laboratory) -> None:
    """The agent is to forget; then it is asked once more."""
    first = await lab.mention(12)
    await lab.ended(first)
    await lab.command(first.id, "reset")
    await lab.ended(await lab.say(first.id, 12))


async def permission(lab: Laboratory) -> None:
    """The agent asks, and gets leave."""
    await lab.ended(await lab.mention(12, before="[[permission=execute:rm -rf]]"))


async def models(lab: Laboratory) -> None:
    """The person chooses a model, then asks once more."""
    first = await lab.mention(12)
    await lab.ended(first)
    menu = await lab.command(first.id, "models")
    if menu and menu.original:
        with suppress(LookupError, TimeoutError):
            chosen = await lab.ann.choose(menu.original, "openab:config:model", ["smart"])
            await chosen.answer()
    await lab.ended(await lab.say(first.id, 12))


async def crash(lab: Laboratory) -> None:
    """The agent dies half-way; the next question is answered."""
    first = await lab.mention(12, before="[[stderr=oh]]")
    await lab.ended(first)
    await lab.ended(await lab.say(first.id, 12, before="[[usage=10:1000]]"))


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (short, parts, batch, cancel, cancel_all, reset, permission, models, crash)
}
