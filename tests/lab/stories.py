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
    await lab.shows(first.id, ".1 ", first)
    await lab.say(first.id, 12)
    await lab.ended(await lab.say(first.id, 12))


async def cancel(lab: Laboratory) -> None:
    """The person stops it half-way."""
    first = await lab.mention(60, delay=0.4)
    await lab.shows(first.id, ".1 ", first)
    await lab.command(first.id, "cancel")
    await lab.ended(first)


async def cancel_all(lab: Laboratory) -> None:
    """Stops what runs and what waits, by text."""
    first = await lab.mention(60, delay=0.3)
    await lab.shows(first.id, ".1 ", first)
    second = await lab.say(first.id, 12)
    await lab.shows(first.id, "Queued behind", first)
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


async def sub_agent(lab: Laboratory) -> None:
    """A sub-agent does the task, its parent hears of it, and its thread is given up."""
    asked = await lab.delegate(12)
    child = await lab.child_of(asked)
    if child:
        await lab.ended(f"completion:{child}")
        await lab.command(child, "unfocus")


async def given_up(lab: Laboratory) -> None:
    """The person gives up the sub-agent's thread while it works."""
    asked = await lab.delegate(60, delay=0.3, has_persona=False)
    child = await lab.child_of(asked)
    if child:
        await lab.shows(child, ".1 ", f"spawn:{child}")
        await lab.command(child, "unfocus")
        await lab.ended(f"completion:{child}")


async def hand_offs(lab: Laboratory) -> None:
    """Work goes to another bot, and that bot gives some, twice the same."""
    asked = await lab.hand_over()
    await lab.ended(asked)
    first, _ = await lab.handed(asked.id, 12)
    await lab.ended(first)


#: Those that take longest first.
STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        *(sub_agent, cancel, models),
        *(given_up, cancel_all, hand_offs),
        *(permission, reset, batch, crash, parts, short),
    )
}
