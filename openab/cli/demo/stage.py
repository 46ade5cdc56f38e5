"""The demo's whole evening: a loopback Discord, two brokers, the play, the proofs, then people."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from openab.cli.demo import scripts
from openab.cli.demo.brokers import BrokerEnded, DemoBroker
from openab.cli.demo.evidence import Evidence
from openab.cli.demo.keyboard import typed_lines
from openab.cli.demo.picture import Painter
from openab.cli.demo.play import Announce, Cast, Story, perform
from openab.cli.demo.proofs import Proof, prove
from openab.cli.demo.show import Show, redraws, show_on
from openab.cli.demo.sightings import Watch
from openab.ports.tasks import end, spawn
from openab.simulator.discord import LoopbackDiscord

#: The play takes less than a minute; whatever hangs, it ends.
_DEADLINE_SECONDS = 180.0
_HINT = "You are Ann: write @Sol or @Luna, or just talk; an empty line or Ctrl-D ends."


@dataclass(frozen=True)
class Staging:
    """How it is played."""

    console: Console
    #: The command of a broker, without `run` and its options.
    broker: Sequence[str]
    #: Scales how long the agents take.
    pace: float
    #: Seconds that a busy machine may add to what is promised about time.
    grace: float
    #: People may type into the thread after the play.
    is_open_end: bool


async def evening(staging: Staging) -> bool:
    """Play and prove; whether every proof holds. Its folder is kept and named only when one does not."""
    folder = Path(tempfile.mkdtemp(prefix="openab-demo-"))
    is_kept = True
    try:
        async with _cast(staging, folder) as (cast, watch):
            holds = await _play_and_prove(staging, cast, watch)
            if staging.is_open_end:
                await _open_end(staging, cast, watch)
        is_kept = not holds
    except asyncio.CancelledError:
        is_kept = False
        raise
    finally:
        if is_kept:
            # Not broken into lines, so that the path can be copied.
            told = Text(f"Logs, databases and configurations are kept in {folder}")
            staging.console.print(told, soft_wrap=True)
        else:
            shutil.rmtree(folder)
    return holds


@asynccontextmanager
async def _cast(staging: Staging, folder: Path) -> AsyncIterator[tuple[Cast, Watch]]:
    """Everybody in place, brokers not started yet; they are stopped at the end."""
    async with LoopbackDiscord() as discord:
        ann = discord.add_person("Ann")
        sol = DemoBroker(discord.add_bot("Sol"), folder / "sol", staging.broker)
        luna = DemoBroker(discord.add_bot("Luna"), folder / "luna", staging.broker)
        channel = discord.add_channel("general").id
        sol.prepare(discord.api_base, luna.bot, scripts.sols_plays(luna.bot.id, staging.pace))
        luna.prepare(discord.api_base, sol.bot, scripts.lunas_plays(staging.pace))
        try:
            yield Cast(discord, ann, sol, luna, channel), Watch(discord, ann.id)
        finally:
            async with asyncio.TaskGroup() as stops:
                for broker in (sol, luna):
                    stops.create_task(broker.stop(), name=f"stop {broker.bot.name}")


async def _play_and_prove(staging: Staging, cast: Cast, watch: Watch) -> bool:
    story, painter = Story(), Painter(cast.discord.world)
    async with _shown(staging, cast, watch, painter) as show:
        await _played(cast, story, show.announce)
    console = staging.console
    if redraws(console):
        console.print(painter.everything(cast.discord.world.channels[cast.channel]))
    if story.stuck:
        console.print(Text(f"\nThe play stopped early: {story.stuck}", style="red"), soft_wrap=True)
    return _tell(console, prove(Evidence(cast, story, watch.sightings, staging.grace)))


async def _played(cast: Cast, story: Story, announce: Announce) -> None:
    """The play within its deadline; what goes wrong is noted in the story."""
    announce("two brokers start")
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            await _start(cast)
            await perform(cast, story, announce)
    except TimeoutError:
        story.stuck = f"it takes longer than {_DEADLINE_SECONDS:.0f} s"
    except BrokerEnded as ended:
        story.stuck = str(ended)


async def _start(cast: Cast) -> None:
    """Both brokers at once."""
    try:
        async with asyncio.TaskGroup() as starts:
            for broker in cast.brokers:
                name = f"start {broker.bot.name}"
                starts.create_task(broker.start(cast.discord), name=name)
    except* BrokerEnded as group:
        raise BrokerEnded("; ".join(map(str, group.exceptions))) from group


@asynccontextmanager
async def _shown(
    staging: Staging, cast: Cast, watch: Watch, painter: Painter
) -> AsyncIterator[Show]:
    channel = cast.discord.world.channels[cast.channel]
    with show_on(staging.console, painter, channel, watch) as show:
        running = spawn("show", show.run())
        try:
            yield show
        finally:
            await end(running)


def _tell(console: Console, proofs: Sequence[Proof]) -> bool:
    """Print every proof; whether all hold."""
    console.print(Text("\nComputed from the loopback's journal and the agents' own logs:\n"))
    for proof in proofs:
        mark, style = ("✓", "green") if proof.holds else ("✗", "bold red")
        claim, found = Text(f"{mark} {proof.claim}", style), Text(f"  · {proof.found}", "dim")
        if redraws(console) and claim.cell_len + found.cell_len > console.width:
            console.print(claim, Padding(found, (0, 0, 0, 2)), sep="\n")
        else:
            console.print(claim + found, soft_wrap=True)
    failed = [proof.claim for proof in proofs if not proof.holds]
    if failed:
        not_proved = Text(f"\nNot proved: {'; '.join(failed)}.", style="bold red")
        console.print(not_proved, soft_wrap=not redraws(console))
    else:
        console.print(Text(f"\nAll {len(proofs)} proofs hold.", style="bold green"))
    return not failed


async def _open_end(staging: Staging, cast: Cast, watch: Watch) -> None:
    """People go on in the thread, until they have enough."""
    raw, painter = redraws(staging.console), Painter(cast.discord.world)
    painter.after = max(int(seen.message_id) for seen in watch.sightings)
    thread = next(iter(cast.discord.threads(cast.channel)))
    async with _shown(staging, cast, watch, painter) as show:
        show.announce(_HINT)
        lines = typed_lines(raw=raw, typed=lambda line: show.typed(_prompt(line)))
        show.typed(_prompt(""))
        async with aclosing(lines):
            async for line in lines:
                await cast.ann.say(thread.id, _addressed(cast, line))
    if raw:
        staging.console.print(painter.everything(cast.discord.world.channels[cast.channel]))


def _prompt(line: str) -> str:
    return f"Ann: {line}▏"


def _addressed(cast: Cast, line: str) -> str:
    """`@Sol` becomes a mention, as an app makes one."""
    for broker in cast.brokers:
        line = re.sub(rf"@{broker.bot.name}\b", broker.bot.mention, line, flags=re.IGNORECASE)
    return line
